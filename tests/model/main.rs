//! Random histories: every store against the specification and against the fold of its own logs.
//!
//! After each write, everything that can be read is compared. A history that fails is made as short as it can be.
//! `PROPTEST_CASES` sets how many there are, eight times over (by default 256, which makes 32).

#![allow(clippy::unwrap_used, reason = "a test ends where what it takes for granted does not hold")]

#[path = "../backends/mod.rs"]
#[allow(dead_code, reason = "exclusions are for cases of the suite")]
mod backends;
mod fold;
mod history;
mod observe;
mod play;

use std::cell::Cell;

use proptest::{
    prop_assert,
    test_runner::{Config, TestCaseError, TestRunner},
};

use backends::{Backend, MEMORY};
use history::{Step, Write};
use play::Player;

/// Writes of the longest history.
const LONGEST: usize = 40;

backends::for_each_backend!(agrees_with_the_specification_and_with_itself,);

fn agrees_with_the_specification_and_with_itself(backend: &'static Backend) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config::default();
    let cases = config.cases.div_ceil(8);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..config });
    let written = Cell::new([0usize; 2]);
    let result = runner.run(&history::histories(LONGEST), |history| {
        let [done, refused] = runtime.block_on(carry_out(backend, &history))?;
        let [all_done, all_refused] = written.get();
        written.set([all_done + done, all_refused + refused]);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{}: {failure}", backend.name);
    }
    // A test whose writes are all refused would prove nothing.
    let [done, refused] = written.get();
    assert!(done > refused && refused > done / 50, "{done} done, {refused} refused");
}

/// How many writes were done, and how many refused.
async fn carry_out(
    backend: &'static Backend,
    history: &[Step],
) -> Result<[usize; 2], TestCaseError> {
    let mut specification = Player::new(&MEMORY).await;
    let mut player = Player::new(backend).await;
    let mut counts = [0; 2];
    for (round, step) in history.iter().enumerate() {
        let expected = specification.play(step).await;
        let answer = player.play(step).await;
        same(&answer, &expected, round)?;
        counts[usize::from(answer.starts_with("Err"))] += 1;
        let expected = observe::observe(&mut specification, round).await;
        let seen = observe::observe(&mut player, round).await;
        for (seen, expected) in seen.iter().zip(&expected) {
            same(seen, expected, round)?;
        }
        prop_assert!(seen.len() == expected.len());
        if matches!(step.write, Write::Rewind { .. } | Write::Fork { .. }) {
            fold::check(&player).await;
        }
    }
    fold::check(&player).await;
    player.store.close().await;
    Ok(counts)
}

/// Compares what the store says with what it should say, and shows where the two part.
fn same(found: &str, expected: &str, round: usize) -> Result<(), TestCaseError> {
    let pairs = found.chars().zip(expected.chars());
    let parting = pairs.take_while(|(found, expected)| found == expected).count();
    let around = |text: &str| -> String {
        text.chars().skip(parting.saturating_sub(120)).take(200).collect()
    };
    prop_assert!(
        found == expected,
        "step {round}: {}\nfound    … {} …\nexpected … {} …",
        expected.chars().take(40).collect::<String>(),
        around(found),
        around(expected)
    );
    Ok(())
}
