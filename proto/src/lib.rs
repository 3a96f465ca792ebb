//! bronzenail-proto
