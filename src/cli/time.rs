//! Times and durations of the command line and of session files: RFC 3339 with nanoseconds, and `1h30m`.

use prost_types::{Duration, Timestamp};

use crate::domain::time::Time;

/// RFC 3339 in UTC, always with nine digits of the second, so that texts sort as times do.
pub fn format(time: Timestamp) -> String {
    let whole = Timestamp { seconds: time.seconds, nanos: 0 }.to_string();
    format!("{}.{:09}Z", whole.trim_end_matches('Z'), time.nanos)
}

pub fn parse(text: &str) -> Result<Timestamp, String> {
    text.parse::<Timestamp>().ok().filter(in_range).ok_or_else(|| {
        format!("`{text}` is not a time. Write it as 2026-01-31T12:00:00Z (RFC 3339)")
    })
}

/// Whether the contract can hold the time.
pub fn in_range(time: &Timestamp) -> bool {
    u32::try_from(time.nanos).is_ok_and(|nanos| Time::new(time.seconds, nanos).is_some())
}

/// A positive duration: `90s`, `15m`, `1h30m`, `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration. Write it as 90s, 15m, 1h30m or 7d");
    let mut seconds: i64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = rest.split_at(digits);
        let scale = match unit.bytes().next() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 86_400,
            _ => return Err(wrong()),
        };
        let part = number.parse::<i64>().ok().and_then(|n| n.checked_mul(scale));
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(wrong)?;
        rest = &unit[1..];
    }
    if seconds == 0 {
        return Err(wrong());
    }
    Ok(Duration { seconds, nanos: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0001-01-01T00:00:00Z`, the first second that RFC 3339 and Timestamp share.
    const FIRST_SECOND: i64 = -62_135_596_800;
    /// `9999-12-31T23:59:59Z`, the last one.
    const LAST_SECOND: i64 = 253_402_300_799;

    #[test]
    fn times_always_show_nine_digits() {
        let time = |seconds, nanos| format(Timestamp { seconds, nanos });
        assert_eq!(time(0, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(time(1_733_043_686, 842_859_700), "2024-12-01T09:01:26.842859700Z");
        assert_eq!(time(FIRST_SECOND, 1), "0001-01-01T00:00:00.000000001Z");
        assert_eq!(time(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (seconds, nanos) in [(0, 0), (FIRST_SECOND, 0), (LAST_SECOND, 999_999_999), (-1, 5)] {
            let time = Timestamp { seconds, nanos };
            assert_eq!(parse(&format(time)), Ok(time));
        }
        let early = parse("2024-12-01T10:01:26+01:00");
        assert_eq!(early, parse("2024-12-01T09:01:26Z"));
    }

    #[test]
    fn forms_of_other_writers_are_read() {
        let time = |seconds, nanos| Ok(Timestamp { seconds, nanos });
        assert_eq!(parse("2024-12-01"), time(1_733_011_200, 0));
        assert_eq!(parse("2024-12-01T09:01:26.842859"), time(1_733_043_686, 842_859_000));
        assert_eq!(parse("2024-12-01 09:01:26+0000"), time(1_733_043_686, 0));
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in ["", "yesterday", "2024-13-01T00:00:00Z", "10000-01-01T00:00:00Z", "12"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_add_their_parts() {
        let seconds = |text| parse_duration(text).map(|d| d.seconds);
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("1h30m"), Ok(5400));
        assert_eq!(seconds("7d"), Ok(604_800));
        for text in ["", "0s", "5", "s", "-5s", "1.5h", "5 m", "5w", "9223372036854775807d", "5é"]
        {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
