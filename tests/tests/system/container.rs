//! In a container as locked down as a cautious operator's: nobody's user, a read-only root, no home, no shell, no certificates.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bronzenail_lab::process::Program;
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::s3::{S3Keys, S3Options, S3Server};
use bronzenail_lab::skip;
use testcontainers::core::wait::ExitWaitStrategy;
use testcontainers::core::{Mount, WaitFor};
use testcontainers::runners::{AsyncBuilder, AsyncRunner};
use testcontainers::{GenericBuildableImage, ImageExt};

/// The shared libraries of a program, loader included, by their absolute paths.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// An image of the program and its libraries, and nothing else.
fn image(program: &Path) -> GenericBuildableImage {
    let mut dockerfile = String::from("FROM scratch\nCOPY bronzenail-backup /bronzenail-backup\n");
    let mut image = GenericBuildableImage::new("bronzenail-lab", "test").with_file(program, "bronzenail-backup");
    for library in libraries(program) {
        let name = library.file_name().unwrap().to_str().unwrap().to_owned();
        dockerfile.push_str(&format!("COPY {name} {}\n", library.display()));
        image = image.with_file(std::fs::canonicalize(&library).unwrap(), name);
    }
    dockerfile.push_str("ENTRYPOINT [\"/bronzenail-backup\"]\n");
    image.with_dockerfile_string(dockerfile)
}

#[tokio::test(flavor = "multi_thread")]
async fn b16_a_container_without_anything_takes_a_backup() {
    let engine = Command::new("docker").arg("info").output();
    if !engine.is_ok_and(|output| output.status.success()) {
        return skip("a run inside a container", "no engine");
    }
    let keys = S3Keys::fresh();
    let options = S3Options { keys: vec![keys.clone()], buckets: vec!["backups".to_owned()], ..S3Options::default() };
    let s3 = S3Server::start(options).await.unwrap();
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let program = Program::backup().unwrap();

    // As Kubernetes mounts the Secret that Talos makes: a folder with one file in it.
    let secret = rig.path("talos.dev");
    std::fs::create_dir(&secret).unwrap();
    std::fs::copy(rig.talosconfig(), secret.join("config")).unwrap();
    for (path, mode) in [(rig.folder.path(), 0o755), (&secret, 0o755), (&secret.join("config"), 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    let image = image(program.path()).build_image().await.unwrap();
    let container = image
        .with_wait_for(WaitFor::exit(ExitWaitStrategy::new()))
        .with_network("host")
        .with_user("65534:65534")
        .with_readonly_rootfs(true)
        .with_mount(Mount::bind_mount(secret.display().to_string(), "/var/run/secrets/talos.dev"))
        .with_env_var("BRONZENAIL_S3_ENDPOINT", s3.endpoint())
        .with_env_var("BRONZENAIL_BUCKET", "backups")
        .with_env_var("BRONZENAIL_CLUSTER", rig::CLUSTER)
        .with_env_var("BRONZENAIL_RECIPIENT", &rig.recipient)
        .with_env_var("AWS_ACCESS_KEY_ID", &keys.access_key)
        .with_env_var("AWS_SECRET_ACCESS_KEY", &keys.secret_key)
        .start()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&container.stderr_to_vec().await.unwrap()).into_owned();
    assert_eq!(container.exit_code().await.unwrap(), Some(0), "{said}");
    let objects = s3.objects("backups");
    let data = objects.iter().find(|(key, _)| key.ends_with(".age")).expect("the data is there").1;
    assert!(rig.open(data).0 == rig::fixture_snapshot());
}
