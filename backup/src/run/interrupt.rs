//! Ending in the middle: what a signal may cut, and what it must leave behind.
//!
//! Invariant: after an interruption the store has no upload of ours, as far as it answers, and no manifest. Two moments are
//! not cut but waited for, within the same grace time: the request that begins an upload, because only its reply says what
//! is to be aborted, and the commit, because nobody could tell afterwards whether it was made.

use std::future::Future;
use std::time::Duration;

use bronzenail_store::AbortHandle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::error::RunError;

/// Within the 30 seconds that Kubernetes gives a pod by default, with some left for the last words.
pub const GRACE: Duration = Duration::from_secs(20);

/// What a signal must know of a run.
#[derive(Debug)]
pub struct Interrupt {
    stage: watch::Sender<Stage>,
    grace: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    /// The store holds nothing that would have to go.
    #[default]
    NothingOpen,
    /// An upload is being begun.
    Beginning,
    /// An upload is open.
    Uploading(AbortHandle),
    /// The manifest is being written.
    Committing,
}

impl Stage {
    fn may_be_cut(&self) -> bool {
        matches!(self, Self::NothingOpen | Self::Uploading(_))
    }
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::with_grace(GRACE)
    }
}

impl Interrupt {
    /// An interruption has this much time, all in all.
    pub fn with_grace(grace: Duration) -> Self {
        Self { stage: watch::Sender::new(Stage::NothingOpen), grace }
    }

    pub(super) fn set(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Runs until the end, or until a signal: then it is dropped as soon as it may be, and its open upload is aborted.
    ///
    /// # Errors
    /// Those of the run, and `Interrupted`.
    pub async fn guard<T>(
        &self,
        running: impl Future<Output = Result<T, RunError>>,
        signal: impl Future<Output = &'static str>,
    ) -> Result<T, RunError> {
        let mut running = Box::pin(running);
        let signal = tokio::select! {
            ended = &mut running => return ended,
            signal = signal => signal,
        };
        tracing::info!(signal, "interrupted");
        let deadline = Instant::now() + self.grace;

        let mut stage = self.stage.subscribe();
        let settled = async {
            tokio::select! {
                ended = &mut running => Some(ended),
                // The sender is ours: it does not go away while we wait.
                _ = stage.wait_for(Stage::may_be_cut) => None,
            }
        };
        if let Ok(Some(ended)) = timeout_at(deadline, settled).await {
            return ended;
        }
        let is_commit_unsure = matches!(*self.stage.borrow(), Stage::Committing);
        // Nothing may go on in the store while the upload is aborted.
        drop(running);
        self.abort(deadline).await;
        Err(if is_commit_unsure { RunError::InterruptedCommit(signal) } else { RunError::Interrupted(signal) })
    }

    async fn abort(&self, deadline: Instant) {
        let Stage::Uploading(handle) = self.stage.send_replace(Stage::NothingOpen) else { return };
        abort(handle.abort(), deadline).await;
    }
}

/// Aborts an upload. Why it is aborted is the news; that the store also refused to clean up is a line in the log.
pub(super) async fn abort(aborting: impl Future<Output = Result<(), bronzenail_store::StoreError>>, deadline: Instant) {
    match timeout_at(deadline, aborting).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let cause = bronzenail_cli::report::one_line(&error);
            tracing::warn!(cause, "could not abort the upload; the store may hold parts of it");
        }
        Err(_) => tracing::warn!("the store did not abort the upload in time; it may hold parts of it"),
    }
}
