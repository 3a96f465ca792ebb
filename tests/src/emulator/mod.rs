//! A Talos node's API over mutual TLS.
