//! bronzenail-cli
