//! `clients/rust/generate`: writes the stubs where they are checked in.

use std::error::Error;

use sessiond_adk_stubs::{generate, home};

fn main() -> Result<(), Box<dyn Error>> {
    generate(&home())
}
