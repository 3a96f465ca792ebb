//! bronzenail-backup
