//! A signal at every moment.

use std::future::{pending, ready};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::oneshot;

use super::super::interrupt::Stage;
use super::*;

/// A signal that comes when the test says so.
fn signal() -> (oneshot::Sender<()>, impl Future<Output = &'static str>) {
    let (send, receive) = oneshot::channel::<()>();
    (send, async move {
        let _ = receive.await;
        "SIGTERM"
    })
}

/// Runs `make` under a guard; the signal comes when the source is asked for the piece after `bytes`.
async fn interrupted_after(bytes: &[u8], store: &Store) -> Result<Outcome, RunError> {
    let (send, signal) = signal();
    let (progress, interrupt) = (Progress::none(), Interrupt::default());
    let source = stream::iter(pieces(bytes)).chain(stream::once(async move {
        let _ = send.send(());
        pending().await
    }));
    let around = Around { progress: &progress, interrupt: &interrupt, clock: &noon, stopwatch: Stopwatch::new() };
    let origin = Origin { taken_at: noon(), ..Origin::default() };
    let running = make(making(&Key::new()), source, origin, store, around);
    interrupt.guard(running, signal).await
}

#[tokio::test]
async fn b34_a_signal_while_it_streams_aborts_the_upload() {
    let whole = fixture("kubernetes-3.5.1.snap");
    for bytes in [0, 1, whole.len() / 2, whole.len()] {
        let store = Store::memory();
        let error = interrupted_after(&whole[..bytes], &store).await.unwrap_err();
        assert!(matches!(error, RunError::Interrupted("SIGTERM")), "{error}");
        assert_eq!(error.exit(), Exit::Interrupted);
        assert_empty(&store).await;
    }
}

#[tokio::test]
async fn a_signal_while_an_upload_is_begun_waits_to_learn_what_to_abort() {
    let store = Store::memory();
    let (send, signal) = signal();
    let interrupt = Interrupt::default();
    let running = async {
        interrupt.set(Stage::Beginning);
        let upload = store.append().upload("etcd/key", UploadOptions::default()).await.unwrap();
        // The upload is there, and its reply comes only after the signal.
        let _ = send.send(());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        interrupt.set(Stage::Uploading(upload.abort_handle()));
        pending::<Result<(), RunError>>().await
    };
    let error = interrupt.guard(running, signal).await.unwrap_err();
    assert!(matches!(error, RunError::Interrupted(_)), "{error}");
    assert_empty(&store).await;
}

#[tokio::test]
async fn a_signal_in_the_commit_lets_it_end() {
    let (send, signal) = signal();
    let interrupt = Interrupt::default();
    let running = async {
        interrupt.set(Stage::Committing);
        let _ = send.send(());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Ok("committed")
    };
    assert_eq!(interrupt.guard(running, signal).await.unwrap(), "committed");
}

#[tokio::test]
async fn a_commit_that_outlasts_the_grace_time_is_said_to_be_unsure() {
    let interrupt = Interrupt::with_grace(Duration::ZERO);
    interrupt.set(Stage::Committing);
    let error = interrupt.guard(pending::<Result<(), RunError>>(), ready("SIGINT")).await.unwrap_err();
    assert!(matches!(error, RunError::InterruptedCommit("SIGINT")), "{error}");
    assert_eq!(error.exit(), Exit::Interrupted);
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn a_store_that_does_not_answer_cannot_hold_up_the_end() {
    let interrupt = Interrupt::with_grace(Duration::ZERO);
    interrupt.set(Stage::Beginning);
    let error = interrupt.guard(pending::<Result<(), RunError>>(), ready("SIGTERM")).await.unwrap_err();
    assert!(matches!(error, RunError::Interrupted("SIGTERM")), "{error}");
}

#[tokio::test]
async fn without_a_signal_the_run_is_as_it_is() {
    let interrupt = Interrupt::default();
    assert_eq!(interrupt.guard(ready(Ok(7)), pending()).await.unwrap(), 7);
    let error = interrupt.guard(ready(Err::<(), _>(RunError::Interrupted("x"))), pending()).await.unwrap_err();
    assert!(matches!(error, RunError::Interrupted("x")));
}
