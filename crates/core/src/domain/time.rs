//! A point of time with the range and the precision of the wire: years 1 to 9999, nanoseconds.

/// Seconds since 1970 of 0001-01-01T00:00:00Z, the first instant of the wire.
const FIRST_SECS: i64 = -62_135_596_800;
/// Seconds since 1970 of 9999-12-31T23:59:59Z, the last second of the wire.
const LAST_SECS: i64 = 253_402_300_799;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    secs: i64,
    nanos: u32,
}

impl Time {
    pub const LAST: Self = Self { secs: LAST_SECS, nanos: 999_999_999 };

    /// `secs` since 1970 (negative before) and `nanos` after that second, 0 to 999,999,999. `None` outside of the years 1 to 9999.
    pub const fn new(secs: i64, nanos: u32) -> Option<Self> {
        if secs < FIRST_SECS || secs > LAST_SECS || nanos > 999_999_999 {
            return None;
        }
        Some(Self { secs, nanos })
    }

    /// Trusts the parts of a stored time; parts out of range become the nearest valid ones.
    pub fn from_stored(secs: i64, nanos: u32) -> Self {
        Self { secs: secs.clamp(FIRST_SECS, LAST_SECS), nanos: nanos.min(999_999_999) }
    }

    pub const fn secs(self) -> i64 {
        self.secs
    }

    /// Nanoseconds after that second.
    pub const fn nanos(self) -> u32 {
        self.nanos
    }

    /// Adds `secs` of either sign and `nanos` below a second; `None` outside of the range.
    pub fn plus(self, secs: i64, nanos: u32) -> Option<Self> {
        let nanos = self.nanos.checked_add(nanos)?;
        let secs = self.secs.checked_add(secs)?.checked_add(i64::from(nanos / 1_000_000_000))?;
        Self::new(secs, nanos % 1_000_000_000)
    }

    /// The time from `self` to `later`; zero if that is not later.
    pub fn until(self, later: Self) -> std::time::Duration {
        let total = |time: Self| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
        let nanos = (total(later) - total(self)).max(0);
        std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_of_the_wire() {
        assert!(Time::new(FIRST_SECS, 0).is_some());
        assert!(Time::new(FIRST_SECS - 1, 999_999_999).is_none());
        assert!(Time::new(LAST_SECS, 999_999_999).is_some());
        assert!(Time::new(LAST_SECS + 1, 0).is_none());
        assert!(Time::new(0, 1_000_000_000).is_none());
    }

    #[test]
    fn addition_carries_nanoseconds() {
        let time = Time::new(-1, 999_999_999).unwrap();
        assert_eq!(time.plus(0, 1), Time::new(0, 0));
        assert_eq!(Time::LAST.plus(0, 1), None);
    }

    #[test]
    fn the_span_between_two_times_is_never_negative() {
        let early = Time::new(-1, 500_000_000).unwrap();
        let late = Time::new(1, 0).unwrap();
        assert_eq!(early.until(late), std::time::Duration::from_millis(1500));
        assert_eq!(late.until(early), std::time::Duration::ZERO);
    }
}
