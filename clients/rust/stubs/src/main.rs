//! `clients/rust/generate`: overwrites the checked-in stubs.

use std::error::Error;

use sessiond_adk_stubs::{generate, stubs_folder};

fn main() -> Result<(), Box<dyn Error>> {
    generate(&stubs_folder())
}
