//! bronzenail-lab
