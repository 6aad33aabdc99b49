//! `commit` alone: random histories are loaded, decided and applied without a store, and compared with the naive model.
//!
//! Each history is run three times: request by request; in groups; and in groups that keep what was loaded from one to the next.

use std::{cell::Cell, collections::VecDeque};

use proptest::{
    collection::vec,
    test_runner::{Config, TestRunner},
};
use sessiond::{
    commit::{Answer, ChangeSet, Fork, ReadSet, Refusal, Request, WorkingSet, decide, read_set},
    domain::{error::Error, session::Incarnation, time::Time},
};

use crate::{
    LONGEST, checks,
    history::{Step, histories},
    load::load,
    naive::Naive,
    requests::{Names, request, start, text},
    tables::Tables,
};

/// Histories for each of proptest's cases. Each is run in three ways.
const HISTORIES: u32 = 4;

#[test]
fn decisions_agree_with_the_naive_model() {
    let config = Config::default();
    let cases = config.cases * HISTORIES;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..config });
    let counts = Cell::new([0; 3]);
    let sizes = vec(1..8usize, 1..6);
    let result = runner.run(&(histories(LONGEST), sizes), |(history, sizes)| {
        for (sizes, keep) in [(&[1][..], false), (&sizes, false), (&sizes, true)] {
            let mut alone = Alone::new(keep, counts.get());
            alone.run(&history, sizes);
            counts.set(alone.counts);
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    // A test whose requests are all refused, or never have to be loaded again, would prove nothing.
    let [accepted, refused, again] = counts.get();
    assert!(
        accepted > refused && refused > accepted / 50,
        "{accepted} accepted, {refused} refused"
    );
    assert!(again > accepted / 1000, "{again} loaded again");
}

/// Groups after which all rows are compared, which takes longer than the group. They are compared again at the end.
const GROUPS: usize = 3;

/// A request, and the same one of the model: they differ in the incarnations of a fork.
struct Work {
    request: Request,
    expected: Request,
}

/// A fork whose events are being copied.
struct Copying {
    fork: Fork,
    expected: Fork,
    /// The last event that has been copied; `None` before the first piece.
    after: Option<u64>,
    /// Its next piece waits.
    queued: bool,
}

/// The tables and the model, side by side.
pub struct Alone {
    tables: Tables,
    model: Naive,
    names: [Names; 2],
    now: Time,
    keep: bool,
    /// Kept from group to group.
    kept: Option<WorkingSet>,
    forks: Vec<Copying>,
    groups: usize,
    /// Accepted, refused, loaded again.
    counts: [usize; 3],
}

impl Alone {
    /// `keep`: from group to group, keep what was loaded.
    pub fn new(keep: bool, counts: [usize; 3]) -> Self {
        let tables = Tables { next_id: 1, ..Tables::default() };
        Self {
            tables,
            // The rows of applications and users are this test's own, which keeps those that are empty.
            model: Naive::that_keeps_empty_scopes(),
            names: Default::default(),
            now: start(),
            keep,
            kept: None,
            forks: Vec::new(),
            groups: 0,
            counts,
        }
    }

    /// Commits one request. Whether it was accepted.
    pub fn one(&mut self, request: Request) -> bool {
        let accepted = self.counts[0];
        self.commit(vec![Work { expected: request.clone(), request }]);
        self.counts[0] > accepted
    }

    /// Runs a history in groups of these sizes, over and over, and sweeps up behind it.
    fn run(&mut self, history: &[Step], sizes: &[usize]) {
        let mut steps = history.iter();
        let mut sizes = sizes.iter().cycle();
        let mut queue = VecDeque::new();
        loop {
            let size = *sizes.next().unwrap();
            // The next pieces of forks come before other requests or behind them.
            if size % 2 == 1 {
                self.queue_pieces(&mut queue);
            }
            while queue.len() < size
                && let Some(step) = steps.next()
            {
                self.now = self.now.plus(step.wait_secs, 1).unwrap();
                let request = request(&step.write, self.now);
                queue.extend(request.map(|request| Work { expected: request.clone(), request }));
            }
            self.queue_pieces(&mut queue);
            if queue.is_empty() {
                break;
            }
            let group = queue.drain(..size.min(queue.len())).collect();
            for work in self.commit(group).into_iter().rev() {
                queue.push_front(work);
            }
        }
        for _ in 0..1_000 {
            if self.tables.tombstones.is_empty() {
                checks::nothing_left_behind(&self.tables);
                return checks::tables(&self.tables, &self.model, &mut self.names);
            }
            self.one(Request::Sweep);
        }
        panic!("sweeping does not end");
    }

    fn queue_pieces(&mut self, queue: &mut VecDeque<Work>) {
        for copying in self.forks.iter_mut().filter(|copying| !copying.queued) {
            copying.queued = true;
            let next = |fork: &Fork| match copying.after {
                Some(after) if after >= fork.up_to => Request::FinishFork(fork.clone()),
                after => {
                    let after = after.unwrap_or(0);
                    Request::CopyEvents(fork.clone(), after)
                }
            };
            queue.push_back(Work {
                request: next(&copying.fork),
                expected: next(&copying.expected),
            });
        }
    }

    /// Loads, decides and applies a group. Returns the request that has to be loaded again, and those behind it.
    fn commit(&mut self, mut group: Vec<Work>) -> Vec<Work> {
        let needed: Vec<ReadSet<'_>> = group.iter().map(|work| read_set(&work.request)).collect();
        let mut loaded =
            self.kept.take().unwrap_or_else(|| WorkingSet::new(self.now, self.tables.next_id));
        loaded.now = self.now;
        let busy: Vec<Incarnation> =
            self.forks.iter().map(|copying| copying.fork.target_incarnation).collect();
        load(&self.tables, &mut loaded, &needed, &busy);
        let mut changes = ChangeSet::default();
        let mut answers = Vec::new();
        for work in &group {
            let was_empty = changes.is_empty();
            match decide(&mut loaded, &mut changes, &work.request, None, &mut 0) {
                Err(Refusal::LoadAgain) => {
                    assert!(!was_empty, "a need was not loaded: {:?}", work.request);
                    self.counts[2] += 1;
                    break;
                }
                Err(Refusal::Error(error)) => {
                    assert_eq!(changes.is_empty(), was_empty, "refused, and not without a trace");
                    answers.push(Err(error));
                    self.counts[1] += 1;
                }
                Ok(answer) => {
                    answers.push(Ok(answer));
                    self.counts[0] += 1;
                }
            }
        }
        checks::change_set(&self.tables, &changes, &needed);
        self.tables.apply(&changes);
        self.tables.next_id = loaded.next_id;
        loaded.end_group();
        drop(needed);
        let again = group.split_off(answers.len());
        for (work, answer) in group.iter().zip(answers) {
            self.compare(work, answer);
        }
        self.groups += 1;
        if self.groups.is_multiple_of(GROUPS) {
            checks::loaded(&self.tables, &loaded);
            checks::tables(&self.tables, &self.model, &mut self.names);
        }
        self.kept = Some(loaded).filter(|_| self.keep);
        again
    }

    /// Has the model do the same.
    fn compare(&mut self, work: &Work, answer: Result<Answer, Error>) {
        let expected = self.model.commit(&work.expected, self.now);
        self.follow_fork(&work.request, &answer, &expected);
        let [found_names, expected_names] = &mut self.names;
        let (found, expected) = (text(answer, found_names), text(expected, expected_names));
        assert_eq!(found, expected, "{:?}", work.request);
    }

    fn follow_fork(
        &mut self,
        request: &Request,
        answer: &Result<Answer, Error>,
        expected: &Result<Answer, Error>,
    ) {
        let fork = match (request, answer, expected) {
            (_, Ok(Answer::ForkBegun(fork)), Ok(Answer::ForkBegun(expected))) => {
                let (fork, expected) = (fork.clone(), expected.clone());
                self.forks.push(Copying { fork, expected, after: None, queued: false });
                return;
            }
            (Request::CopyEvents(fork, _), ..) => fork,
            (Request::FinishFork(fork), ..) => fork,
            _ => return,
        };
        self.forks.retain_mut(|copying| {
            if copying.fork.target_incarnation != fork.target_incarnation {
                return true;
            }
            copying.queued = false;
            match answer {
                Ok(Answer::Copied(up_to)) => {
                    copying.after = Some(*up_to);
                    true
                }
                _ => false,
            }
        });
    }
}
