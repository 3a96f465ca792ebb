//! `bronzenail-lab`: stub, replaced below.
fn main() {}
