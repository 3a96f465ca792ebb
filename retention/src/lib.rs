//! Which backups of one cluster stay and which may go, and why: a pure function over what a listing says.
//!
//! [`plan`] gives every entry a verdict with reasons as data. It never shrinks the good to nothing: with any policy at
//! all, the newest proven backup, the newest of the strongest evidence, the newest that a drill restored and everything
//! held, stamped in the future or unreadable are kept. It reads no clock and no environment, buckets are UTC, and the
//! answer depends on neither the order of the listing nor any time that the store made up.
//!
//! The rules mean what they mean in restic's `forget`, with these differences:
//!
//! * Only backups with evidence of at least [`Policy::min_evidence`] are *candidates*: they alone fill buckets, use up
//!   counts and are "the newest" that windows are measured from. When good backups stop, nothing good ages out.
//! * Weaker ones are kept until a grace time is over, measured from the newest candidate too. One that is newer than every
//!   candidate is therefore never removed, and two prunes whose clocks disagree cannot each remove what the other kept.
//! * Held backups stand outside the counts. So do backups from before an upgrade, until enough good ones of a newer
//!   version exist.
//! * What is stamped later than `now` is kept, uses up no count and is reported.
//! * Weeks are ISO weeks, every bucket is UTC, a month before the 31st is clamped to the month's last day, and a bare `m`
//!   in a duration is refused.
//!
//! One call judges one cluster. [`plan_each`] keeps clusters apart for a caller that has listed several.

mod backup;
mod bucket;
mod count;
mod finding;
mod judge;
mod plan;
mod policy;
mod reason;
mod settings;
mod span;
mod version;

pub use backup::{Backup, Level, UnknownLevel};
pub use bucket::{Bucket, Period};
pub use count::{Count, NumberError, Percent};
pub use finding::{Blocked, Consent, Finding, Measure};
pub use plan::{Decision, Plan, PlanError, plan, plan_each};
pub use policy::Policy;
pub use reason::{KeepReason, RemoveReason, Verdict};
pub use settings::SettingError;
pub use span::{Span, SpanError};
pub use version::{Version, VersionError};
