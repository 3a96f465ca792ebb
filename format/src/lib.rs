//! bronzenail-format
