//! bronzenail-talos
