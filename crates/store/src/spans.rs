//! The times of a sampled call's stages. The layer that exports spans makes them of these. A call that is not sampled has no [`Spans`].

use std::{
    fmt, mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Stages that one call keeps. A fork of a long log has more.
const MAX_STAGES: usize = 64;

/// A part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the call's arrival until its request is known.
    Decode,
    /// Until the writer takes the request.
    Queue,
    /// The transaction of the request's group.
    Commit,
    /// The part of the commit before it that makes it durable.
    Flush,
    /// Encoding and writing the answer.
    Reply,
}

/// Stages with their times, in the order in which they ended. A flush follows its commit.
pub type Stages = Vec<(Stage, Range<Instant>)>;

/// Exports the spans of a call.
pub trait Recorder: Send + Sync {
    /// Called once for a call, and once for each item of a stream of calls, with the times of the `item`.
    fn record(&self, item: Option<Range<Instant>>, stages: Stages);
}

/// The stages of a sampled call, or of one item of a stream. They are recorded when the last clone is dropped: a write may outlive its
/// caller.
#[derive(Clone)]
pub struct Spans(Arc<Recording>);

struct Recording {
    recorder: Arc<dyn Recorder>,
    began: Instant,
    is_item: bool,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// When the request that waits was submitted.
    submitted: Option<Instant>,
    reply_began: Option<Instant>,
    stages: Stages,
}

#[expect(clippy::disallowed_methods, reason = "spans are timed by the process's clock")]
pub fn now() -> Instant {
    Instant::now()
}

impl Spans {
    pub fn new(recorder: Arc<dyn Recorder>, began: Instant) -> Self {
        Self(Arc::new(Recording { recorder, began, is_item: false, progress: Mutex::default() }))
    }

    /// Those of an item that arrives now.
    pub fn item(&self) -> Self {
        Self(Arc::new(Recording {
            recorder: Arc::clone(&self.0.recorder),
            began: now(),
            is_item: true,
            progress: Mutex::default(),
        }))
    }

    pub fn decoded(&self) {
        self.add(Stage::Decode, self.0.began..now());
    }

    /// A request is submitted to the store.
    pub fn submitted(&self) {
        self.0.lock().submitted = Some(now());
    }

    /// The writer took the request that was submitted, unless it took it before.
    pub fn taken(&self, at: Instant) {
        let submitted = self.0.lock().submitted.take();
        if let Some(submitted) = submitted {
            self.add(Stage::Queue, submitted..at);
        }
    }

    /// A group with the request of this call was committed, or failed. `flush_began`: when it was made durable.
    pub fn committed(&self, period: Range<Instant>, flush_began: Option<Instant>) {
        let flush = flush_began.map(|began| began..period.end);
        self.add(Stage::Commit, period);
        if let Some(flush) = flush {
            self.add(Stage::Flush, flush);
        }
    }

    /// The engine has answered: what is left is the reply, which begins at the end of the last commit if there was any.
    pub fn answered(&self) {
        let mut progress = self.0.lock();
        let commit = progress.stages.iter().rfind(|(stage, _)| *stage == Stage::Commit);
        let began = commit.map_or_else(now, |(_, period)| period.end);
        progress.reply_began = Some(began);
    }

    /// The answer was written, or given up.
    pub fn replied(&self) {
        let began = self.0.lock().reply_began.take();
        if let Some(began) = began {
            self.add(Stage::Reply, began..now());
        }
    }

    fn add(&self, stage: Stage, period: Range<Instant>) {
        let stages = &mut self.0.lock().stages;
        if stages.len() < MAX_STAGES {
            stages.push((stage, period));
        }
    }
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let stages = mem::take(&mut self.lock().stages);
        let item = self.is_item.then(|| self.began..now());
        self.recorder.record(item, stages);
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spans")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Recorded(Mutex<Vec<(bool, Stages)>>);

    impl Recorder for Recorded {
        fn record(&self, item: Option<Range<Instant>>, stages: Stages) {
            self.0.lock().unwrap().push((item.is_some(), stages));
        }
    }

    #[test]
    fn stages_are_recorded_when_the_last_holder_lets_go() {
        let recorded = Arc::new(Recorded::default());
        let began = now();
        let spans = Spans::new(recorded.clone(), began);
        spans.decoded();
        spans.submitted();
        let writers = spans.clone();
        let at = |millis| began + Duration::from_millis(millis);
        writers.taken(at(1));
        writers.taken(at(2));
        writers.committed(at(1)..at(4), Some(at(3)));
        spans.answered();
        spans.replied();
        spans.replied();
        drop(spans.item());
        drop(spans);
        assert_eq!(recorded.0.lock().unwrap().len(), 1, "the item's");
        drop(writers);
        let recorded = recorded.0.lock().unwrap();
        assert_eq!(recorded[0], (true, Vec::new()));
        let (is_item, stages) = &recorded[1];
        let names: Vec<_> = stages.iter().map(|(stage, _)| *stage).collect();
        assert!(!is_item);
        assert_eq!(names, [Stage::Decode, Stage::Queue, Stage::Commit, Stage::Flush, Stage::Reply]);
        assert_eq!(stages[1].1.end, at(1));
        assert_eq!((stages[2].1.clone(), stages[3].1.clone()), (at(1)..at(4), at(3)..at(4)));
        assert_eq!(stages[4].1.start, at(4));
    }

    #[test]
    fn stages_are_bounded() {
        let recorded = Arc::new(Recorded::default());
        let spans = Spans::new(recorded.clone(), now());
        for _ in 0..=MAX_STAGES {
            spans.decoded();
        }
        drop(spans);
        assert_eq!(recorded.0.lock().unwrap()[0].1.len(), MAX_STAGES);
    }
}
