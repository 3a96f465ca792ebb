//! bronzenail-snapshot
