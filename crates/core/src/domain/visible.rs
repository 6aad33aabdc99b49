//! The events that a read shows after rewinds.
//!
//! A marker at sequence `s` that goes back to `n` restores the log as it was after event `n`: the events visible as of `s` are
//! those visible as of `n`. Events after the marker are visible again. So the visible events are a chain of ranges, read from the
//! end: back to the newest marker, then as of the event that it went back to, and so on.

use super::Sequence;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub sequence: Sequence,
    /// The last event that stayed visible, smaller than `sequence`.
    pub to: Sequence,
}

/// The visible events of a log as ranges `(after, up to]`, newest first, found from the newest down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    ranges: Vec<(Sequence, Sequence)>,
    /// What is visible as of this event is not known yet.
    end: Sequence,
}

impl Visible {
    /// The events visible as of event `as_of`. `markers` are the session's, in ascending order; later ones are ignored.
    pub fn new(markers: &[Marker], as_of: Sequence) -> Self {
        let mut visible = Self::as_of(as_of);
        visible.follow(markers.iter().rev());
        visible.reach(0);
        visible
    }

    /// As of an event, nothing known yet.
    pub fn as_of(end: Sequence) -> Self {
        Self { ranges: Vec::new(), end }
    }

    /// The event as of which the rest is visible; 0: everything is known.
    pub fn end(&self) -> Sequence {
        self.end
    }

    /// Follows the newest of the session's markers that are left, in descending order, and passes over what is hidden.
    pub fn follow<'m>(&mut self, markers: impl IntoIterator<Item = &'m Marker>) {
        for marker in markers {
            if marker.sequence <= self.end {
                self.reach(marker.sequence);
                self.end = marker.to;
            }
        }
    }

    /// No marker is left above an event.
    pub fn reach(&mut self, after: Sequence) {
        if after < self.end {
            self.ranges.push((after, self.end));
            self.end = after;
        }
    }

    pub fn contains(&self, sequence: Sequence) -> bool {
        let at = self.ranges.partition_point(|&(after, _)| after >= sequence);
        self.ranges.get(at).is_some_and(|&(_, end)| sequence <= end)
    }

    /// What is known, as far as it lies in an interval.
    pub fn within(
        &self,
        (after, up_to): (Sequence, Sequence),
    ) -> impl Iterator<Item = (Sequence, Sequence)> {
        let parts = self.ranges.iter().map(move |&(low, high)| (low.max(after), high.min(up_to)));
        parts.filter(|(low, high)| low < high)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(markers: &[(u64, u64)], as_of: u64) -> Vec<u64> {
        let markers: Vec<_> =
            markers.iter().map(|&(sequence, to)| Marker { sequence, to }).collect();
        let visible = Visible::new(&markers, as_of);
        (1..=as_of + 2).filter(|&sequence| visible.contains(sequence)).collect()
    }

    #[test]
    fn a_rewind_hides_what_it_went_back_over_and_itself() {
        assert_eq!(shown(&[], 3), [1, 2, 3]);
        assert_eq!(shown(&[(4, 1)], 4), [1]);
        assert_eq!(shown(&[(4, 1)], 6), [1, 5, 6]);
        assert_eq!(shown(&[(4, 0)], 5), [5]);
    }

    #[test]
    fn before_the_marker_everything_is_still_there() {
        assert_eq!(shown(&[(4, 1)], 3), [1, 2, 3]);
    }

    #[test]
    fn a_rewind_can_be_rewound() {
        assert_eq!(shown(&[(6, 2), (7, 5)], 7), [1, 2, 3, 4, 5]);
        assert_eq!(shown(&[(6, 2), (9, 7)], 10), [1, 2, 7, 10]);
    }

    proptest! {
        /// The ranges agree with the definition, replayed event by event.
        #[test]
        fn ranges_agree_with_the_definition(steps in prop::collection::vec(prop::option::of(0u64..40), 0..40)) {
            let mut views: Vec<Vec<u64>> = vec![vec![]];
            let mut markers = vec![];
            for (at, step) in steps.iter().enumerate() {
                let sequence = at as u64 + 1;
                let next = match step {
                    None => {
                        let mut view = views[at].clone();
                        view.push(sequence);
                        view
                    }
                    Some(to) => {
                        let to = to % sequence;
                        markers.push((sequence, to));
                        views[to as usize].clone()
                    }
                };
                views.push(next);
            }
            for (as_of, view) in views.iter().enumerate() {
                prop_assert_eq!(&shown(&markers, as_of as u64), view);
            }
        }
    }
}
