//! The real S3 server of the lab: a Ceph RGW that `tests/services/ceph-rgw` started.
//!
//! Whoever runs the tests starts it and names it in the environment; this module finds it, and makes what a test needs
//! inside it: buckets of its own, second users, policies. Invariant: tests never share a bucket, so that none can pass
//! or fail by what another left behind.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};

use crate::s3::{S3Keys, client};

/// Names the endpoint of the Ceph RGW.
pub const ENDPOINT_VARIABLE: &str = "BRONZENAIL_LAB_S3_ENDPOINT";
/// Names the access key of a user who may make buckets.
pub const ACCESS_KEY_VARIABLE: &str = "BRONZENAIL_LAB_S3_ACCESS_KEY";
/// Names that user's secret key.
pub const SECRET_KEY_VARIABLE: &str = "BRONZENAIL_LAB_S3_SECRET_KEY";
/// Names the folder with the `ceph.conf` of the RGW, for what only its administrator may do.
pub const FOLDER_VARIABLE: &str = "BRONZENAIL_LAB_RGW_DIR";

/// Why there is no RGW to test with. Its text is the reason to give to [`crate::skip`].
#[derive(Debug, thiserror::Error)]
#[error("{variable} is not set: tests/run starts a Ceph RGW and sets it")]
pub struct NotThere {
    variable: &'static str,
}

/// Why the lab could not prepare the RGW for a test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RgwError {
    /// Something that only the administrator may do was asked for, and the administrator's folder is not known.
    #[error("an administrator of the Ceph RGW is needed")]
    NoAdministrator(#[source] NotThere),
    /// The endpoint is no `http://<address>:<port>`.
    #[error("the endpoint {0} of the Ceph RGW is not http://<address>:<port>")]
    Endpoint(String),
    /// radosgw-admin could not be started.
    #[error("radosgw-admin could not be started")]
    Start(#[source] std::io::Error),
    /// radosgw-admin failed.
    #[error("radosgw-admin {what} failed: {said}")]
    Administrator {
        /// The subcommand.
        what: String,
        /// What it said.
        said: String,
    },
    /// The RGW refused a request of the lab.
    #[error("the Ceph RGW refused {what} on the bucket {bucket}")]
    Request {
        /// What was asked for.
        what: &'static str,
        /// Of which bucket.
        bucket: String,
        /// The SDK's own error.
        #[source]
        source: Box<aws_sdk_s3::Error>,
    },
}

/// A running Ceph RGW and a user of it who may do what users may.
#[derive(Debug, Clone)]
pub struct Rgw {
    /// `http://<address>:<port>`
    pub endpoint: String,
    /// The keys of that user.
    pub keys: S3Keys,
    folder: Option<PathBuf>,
}

/// A user of the RGW who owns nothing, for tests of policies.
#[derive(Debug, Clone)]
pub struct RgwUser {
    /// The name in policies: `arn:aws:iam:::user/<name>`.
    pub name: String,
    /// The keys.
    pub keys: S3Keys,
}

impl RgwUser {
    /// How a policy names this user.
    pub fn arn(&self) -> String {
        format!("arn:aws:iam:::user/{}", self.name)
    }
}

impl Rgw {
    /// The RGW that the environment names.
    ///
    /// # Errors
    /// It names none: the test is to be skipped.
    pub fn from_env() -> Result<Self, NotThere> {
        let text = |variable| match std::env::var(variable) {
            Ok(value) if !value.is_empty() => Ok(value),
            _ => Err(NotThere { variable }),
        };
        let keys = || Ok(S3Keys::new(text(ACCESS_KEY_VARIABLE)?, text(SECRET_KEY_VARIABLE)?));
        let folder = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
        Ok(Self { endpoint: text(ENDPOINT_VARIABLE)?, keys: keys()?, folder: folder.map(PathBuf::from) })
    }

    /// A plain client with the user's keys.
    pub fn client(&self) -> aws_sdk_s3::Client {
        client(&self.endpoint, &self.keys)
    }

    /// The address, for a [`crate::front::Front`] before the RGW.
    ///
    /// # Errors
    /// The endpoint is not one by address.
    pub fn address(&self) -> Result<std::net::SocketAddr, RgwError> {
        let address = self.endpoint.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').parse().ok());
        address.ok_or_else(|| RgwError::Endpoint(self.endpoint.clone()))
    }

    /// Makes a bucket that no other test knows, and gives its name. `purpose` is for whoever looks into the RGW.
    ///
    /// # Errors
    /// The RGW refused.
    pub async fn fresh_bucket(&self, purpose: &str) -> Result<String, RgwError> {
        let bucket = fresh_name(purpose);
        let made = self.client().create_bucket().bucket(&bucket).send().await;
        made.map_err(|error| refused("to make it", &bucket, error))?;
        Ok(bucket)
    }

    /// Makes a bucket that keeps every version of its objects.
    ///
    /// # Errors
    /// The RGW refused.
    pub async fn fresh_versioned_bucket(&self, purpose: &str) -> Result<String, RgwError> {
        let bucket = self.fresh_bucket(purpose).await?;
        let versioning = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        let set = self.client().put_bucket_versioning().bucket(&bucket).versioning_configuration(versioning).send();
        set.await.map_err(|error| refused("versioning", &bucket, error))?;
        Ok(bucket)
    }

    /// Makes a bucket with object lock, in which objects can be stored that nobody can delete before their time.
    ///
    /// # Errors
    /// The RGW refused.
    pub async fn fresh_locked_bucket(&self, purpose: &str) -> Result<String, RgwError> {
        let bucket = fresh_name(purpose);
        let made = self.client().create_bucket().bucket(&bucket).object_lock_enabled_for_bucket(true).send().await;
        made.map_err(|error| refused("object lock", &bucket, error))?;
        Ok(bucket)
    }

    /// Sets the policy of a bucket, a JSON document.
    ///
    /// # Errors
    /// The RGW refused, for instance since the document is none.
    pub async fn set_policy(&self, bucket: &str, policy: &str) -> Result<(), RgwError> {
        let set = self.client().put_bucket_policy().bucket(bucket).policy(policy).send().await;
        set.map_err(|error| refused("a policy", bucket, error))?;
        Ok(())
    }

    /// Makes a user who owns nothing and may do nothing until a policy says otherwise.
    ///
    /// # Errors
    /// The administrator's folder is not known, or radosgw-admin failed.
    pub fn fresh_user(&self, purpose: &str) -> Result<RgwUser, RgwError> {
        let name = fresh_name(purpose);
        let keys = S3Keys::fresh();
        let arguments = ["user", "create", "--uid", &name, "--display-name", purpose, "--max-buckets", "-1"];
        let secret = ["--access-key", &keys.access_key, "--secret-key", &keys.secret_key];
        self.administer("user create", arguments.iter().chain(&secret).map(OsString::from))?;
        Ok(RgwUser { name, keys })
    }

    fn administer(&self, what: &str, arguments: impl Iterator<Item = OsString>) -> Result<String, RgwError> {
        let Some(folder) = &self.folder else {
            return Err(RgwError::NoAdministrator(NotThere { variable: FOLDER_VARIABLE }));
        };
        let output = Command::new("radosgw-admin")
            .arg("-c")
            .arg(folder.join("ceph.conf"))
            .args(arguments)
            .output()
            .map_err(RgwError::Start)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(RgwError::Administrator { what: what.to_owned(), said });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn refused<E>(what: &'static str, bucket: &str, error: E) -> RgwError
where
    aws_sdk_s3::Error: From<E>,
{
    RgwError::Request { what, bucket: bucket.to_owned(), source: Box::new(error.into()) }
}

/// A name that fits buckets and users alike: lower case, digits and dashes, at most 63 bytes.
fn fresh_name(purpose: &str) -> String {
    let purpose: String = purpose
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .take(40)
        .collect();
    format!("lab-{}-{:016x}", purpose.trim_matches('-'), rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::fresh_name;

    #[test]
    fn fresh_names_fit_buckets_and_are_never_the_same() {
        let name = fresh_name("A purpose_with / everything, and much longer than any name may be");
        assert!(name.len() <= 63, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert_ne!(name, fresh_name("A purpose_with / everything, and much longer than any name may be"));
    }
}
