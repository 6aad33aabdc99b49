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

/// The visible events of a log as ranges `(after, up to]`, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible(Vec<(Sequence, Sequence)>);

impl Visible {
    /// The events visible as of event `as_of`. `markers` are the session's, in ascending order; later ones are ignored.
    pub fn new(markers: &[Marker], as_of: Sequence) -> Self {
        let mut ranges = Vec::new();
        let mut end = as_of;
        let mut markers = markers;
        while end > 0 {
            markers = &markers[..markers.partition_point(|marker| marker.sequence <= end)];
            let Some((marker, earlier)) = markers.split_last() else {
                ranges.push((0, end));
                break;
            };
            if marker.sequence < end {
                ranges.push((marker.sequence, end));
            }
            end = marker.to;
            markers = earlier;
        }
        Self(ranges)
    }

    pub fn contains(&self, sequence: Sequence) -> bool {
        let at = self.0.partition_point(|&(after, _)| after >= sequence);
        self.0.get(at).is_some_and(|&(_, end)| sequence <= end)
    }

    pub fn ranges(&self) -> &[(Sequence, Sequence)] {
        &self.0
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
