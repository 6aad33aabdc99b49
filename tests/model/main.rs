//! Random histories of writes, compared with a naive model of the semantics: `commit` alone, and every store.
//!
//! A history that fails is made as short as it can be. `PROPTEST_CASES` sets how many there are, in units that each test states.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and may be long"
)]

mod alone;
mod checks;
mod fold;
mod history;
mod limits;
mod load;
mod naive;
mod observe;
mod requests;
mod stores;
mod tables;

use sessiond_test_support::backends;

/// Writes of the longest history.
const LONGEST: usize = 40;
