//! bronzenail-store
