//! Where a talosconfig is looked for.
//!
//! Invariant: looking never writes. A pod without HOME and with a read-only root must work, and an explicit path that is
//! not there is an error: a client that creates an empty file instead hides the typing error that caused it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// Where Kubernetes mounts the talosconfig that Talos issues for a service account.
pub const SERVICE_ACCOUNT_PATH: &str = "/var/run/secrets/talos.dev/config";

/// The search order, made from the caller's flags and environment.
#[derive(Clone, Debug)]
pub struct Places {
    explicit: Option<PathBuf>,
    ordered: Vec<Place>,
    notes: Vec<String>,
}

/// One place, and what put it on the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// What named it, for messages.
    pub named_by: &'static str,
}

impl Places {
    /// Puts the search order together. `env` answers for environment variables; an empty answer counts as unset.
    pub fn new(explicit: Option<&Path>, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut ordered = Vec::new();
        let mut notes = Vec::new();

        if let Some(path) = set("TALOSCONFIG") {
            ordered.push(Place { path, named_by: "TALOSCONFIG" });
        }
        match (set("TALOS_HOME"), set("HOME")) {
            (Some(home), _) if home.is_absolute() => {
                ordered.push(Place { path: home.join("config"), named_by: "TALOS_HOME" });
            }
            (_, Some(home)) => ordered.push(Place { path: home.join(".talos").join("config"), named_by: "HOME" }),
            (_, None) => notes.push("HOME is not set, so there is no ~/.talos/config".to_owned()),
        }
        ordered.push(Place { path: SERVICE_ACCOUNT_PATH.into(), named_by: "the Talos service account" });
        Self { explicit: explicit.map(Path::to_owned), ordered, notes }
    }

    /// The places in order, the explicit one left out.
    pub fn ordered(&self) -> &[Place] {
        &self.ordered
    }

    /// The first place that exists. Existence decides, not whether the file is any good: a broken file that was named on
    /// purpose must not be passed over in silence.
    pub fn find(&self) -> Result<Place, ConfigError> {
        self.find_with(|path| path.metadata().map(drop))
    }

    fn find_with(&self, stat: impl Fn(&Path) -> io::Result<()>) -> Result<Place, ConfigError> {
        if let Some(path) = &self.explicit {
            let found = Place { path: path.clone(), named_by: "the given path" };
            return match stat(path) {
                Ok(()) => Ok(found),
                Err(source) => Err(ConfigError::ExplicitMissing { path: path.clone(), source }),
            };
        }
        let mut tried = Vec::new();
        for place in &self.ordered {
            match stat(&place.path) {
                Ok(()) => {
                    if !tried.is_empty() {
                        tracing::debug!(path = %place.path.display(), passed_over = ?tried, "talosconfig found");
                    }
                    return Ok(place.clone());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tried.push(format!("{} ({})", place.path.display(), place.named_by));
                }
                Err(error) => tried.push(format!("{} ({}: {error})", place.path.display(), place.named_by)),
            }
        }
        tried.extend(self.notes.iter().cloned());
        Err(ConfigError::NotFound { tried })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(explicit: Option<&str>, env: &[(&str, &str)]) -> Places {
        Places::new(explicit.map(Path::new), |name| {
            env.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn found(places: &Places, existing: &[&str]) -> String {
        let stat = |path: &Path| match existing.iter().any(|e| Path::new(e) == path) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        places.find_with(stat).map_or_else(|e| format!("error: {e}"), |p| p.path.display().to_string())
    }

    #[test]
    fn the_first_existing_place_wins_in_the_documented_order() {
        let all = ["/explicit", "/by-env", "/th/config", "/home/a/.talos/config", SERVICE_ACCOUNT_PATH];
        let env = [("TALOSCONFIG", "/by-env"), ("TALOS_HOME", "/th"), ("HOME", "/home/a")];
        assert_eq!(found(&places(Some("/explicit"), &env), &all), "/explicit");
        assert_eq!(found(&places(None, &env), &all), "/by-env");
        assert_eq!(found(&places(None, &env[1..]), &all), "/th/config");
        assert_eq!(found(&places(None, &env[2..]), &all), "/home/a/.talos/config");
        assert_eq!(found(&places(None, &[]), &all), SERVICE_ACCOUNT_PATH);
    }

    #[test]
    fn a_talosconfig_variable_that_names_nothing_falls_through() {
        let env = [("TALOSCONFIG", "/gone"), ("HOME", "/home/a")];
        assert_eq!(found(&places(None, &env), &["/home/a/.talos/config"]), "/home/a/.talos/config");
    }

    #[test]
    fn a_relative_talos_home_and_empty_variables_count_as_unset() {
        let env = [("TALOSCONFIG", ""), ("TALOS_HOME", "th"), ("HOME", "/home/a")];
        assert_eq!(found(&places(None, &env), &["th/config", "/home/a/.talos/config"]), "/home/a/.talos/config");
    }

    #[test]
    fn an_explicit_path_that_is_missing_is_an_error_and_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let error = Places::new(Some(&path), |_| None).find().unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn b16_without_home_the_service_account_is_found_and_nothing_is_created() {
        let without_home = places(None, &[]);
        assert_eq!(without_home.ordered().len(), 1, "{without_home:?}");
        assert_eq!(found(&without_home, &[SERVICE_ACCOUNT_PATH]), SERVICE_ACCOUNT_PATH);
        let nothing = found(&without_home, &[]);
        assert!(nothing.contains("HOME is not set") && nothing.contains(SERVICE_ACCOUNT_PATH), "{nothing}");
    }

    #[test]
    fn b16_a_home_that_may_not_be_read_does_not_end_the_search() {
        let stat = |path: &Path| match path == Path::new(SERVICE_ACCOUNT_PATH) {
            true => Ok(()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        };
        let place = places(None, &[("HOME", "/root")]).find_with(stat).unwrap();
        assert_eq!(place.path, Path::new(SERVICE_ACCOUNT_PATH));
    }
}
