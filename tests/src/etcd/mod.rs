//! A real etcd, started for one test, and its client.
//!
//! Invariant: what the lab says about a database was asked of the database.

pub mod api;
