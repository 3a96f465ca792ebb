//! Whole-system tests: the real program as a process, before emulated nodes and real stores.
//!
//! One binary, so that it is linked once. Tests that cover a public failure story begin with its number.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bucket;
mod container;
mod crash;
mod drop_in;
mod judged;
mod kill;
mod main_job;
mod secrets;
mod talos;
mod together;
