//! The `sessiond` program.

fn main() {}
