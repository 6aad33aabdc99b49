//! Times of session files: RFC 3339 with nanoseconds, and ADK's numbers.

use prost_types::Timestamp;

use sessiond_core::domain::time::Time;

const NANOS: i128 = 1_000_000_000;
/// Timestamps from here on are milliseconds: as seconds they would lie beyond the year 5000, as milliseconds smaller ones
/// before 1973.
const FIRST_MILLISECONDS: i128 = 100_000_000_000;

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
fn in_range(time: &Timestamp) -> bool {
    u32::try_from(time.nanos).is_ok_and(|nanos| Time::new(time.seconds, nanos).is_some())
}

/// Nanoseconds since 1970.
pub fn total_nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * NANOS + i128::from(time.nanos)
}

/// Reads a timestamp of ADK from its JSON text: seconds with a fraction, milliseconds, or RFC 3339. Goes digit by digit, so
/// that no nanosecond is rounded away.
pub fn parse_stamp(json: &str) -> Result<Timestamp, String> {
    if json.starts_with('"') {
        let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
        return parse(&text);
    }
    let time = billionths(json).and_then(|number| {
        let milliseconds = number.abs() / NANOS >= FIRST_MILLISECONDS;
        let nanos = if milliseconds { number.div_euclid(1000) } else { number };
        let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok()?;
        Some(Timestamp { seconds, nanos: i32::try_from(nanos.rem_euclid(NANOS)).ok()? })
    });
    time.filter(in_range)
        .ok_or_else(|| format!("`{json}` is not a time. Write seconds, milliseconds or RFC 3339"))
}

/// Seconds as a JSON number, with as many digits as the time has. Python reads a float only if there is a point.
pub fn format_stamp(time: Timestamp) -> String {
    let nanos = total_nanos(time);
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, fraction) = (nanos.abs() / NANOS, nanos.abs() % NANOS);
    let text = format!("{sign}{whole}.{fraction:09}");
    let digits = text.trim_end_matches('0');
    if digits.ends_with('.') { format!("{digits}0") } else { digits.to_owned() }
}

/// A JSON number times 10⁹, rounded half away from zero.
fn billionths(json: &str) -> Option<i128> {
    if json.contains(['e', 'E']) {
        let number = json.parse::<f64>().ok()?;
        return billionths(&format!("{number:.9}"));
    }
    let (whole, fraction) = json.split_once('.').unwrap_or((json, ""));
    let digits = format!("{fraction:0<10}");
    let number = format!("{whole}{}", digits.get(..9)?).parse::<i128>().ok()?;
    let away_from_zero = if json.starts_with('-') { -1 } else { 1 };
    Some(if digits.as_bytes()[9] >= b'5' { number + away_from_zero } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    fn at(seconds: i64, nanos: i32) -> Result<Timestamp, String> {
        Ok(Timestamp { seconds, nanos })
    }

    #[test]
    fn every_form_of_adk_is_understood() {
        assert_eq!(parse_stamp("1733043686.8428597"), at(1_733_043_686, 842_859_700));
        assert_eq!(parse_stamp("1733043686"), at(1_733_043_686, 0));
        assert_eq!(parse_stamp("1733043686842"), at(1_733_043_686, 842_000_000));
        assert_eq!(parse_stamp("1733043686842.5"), at(1_733_043_686, 842_500_000));
        assert_eq!(parse_stamp("1.7330436868428597e9"), at(1_733_043_686, 842_859_745));
        assert_eq!(parse_stamp("\"2024-12-01T09:01:26.8428597Z\""), at(1_733_043_686, 842_859_700));
        assert_eq!(parse_stamp("\"0001-01-01T00:00:00Z\""), at(-62_135_596_800, 0));
    }

    #[test]
    fn fractions_of_a_stamp_round_at_the_tenth_digit_and_reach_below_zero() {
        assert_eq!(parse_stamp("0.0000000005"), at(0, 1));
        assert_eq!(parse_stamp("0.00000000049"), at(0, 0));
        assert_eq!(parse_stamp("0.9999999999"), at(1, 0));
        assert_eq!(parse_stamp("-0.25"), at(-1, 750_000_000));
        assert_eq!(parse_stamp("-1"), at(-1, 0));
    }

    #[test]
    fn what_is_not_a_stamp_is_refused() {
        for json in [
            "null",
            "true",
            "\"soon\"",
            "1e30",
            "1733043686842000000",
            "{}",
            "{\"k\":\"0.12345678é\"}",
            "99999999999999999999999999999999999999999",
        ] {
            assert!(parse_stamp(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn a_stamp_that_is_written_is_read_again(seconds in -60_000_000_000_i64..99_999_999_999, nanos in 0..1_000_000_000) {
            let time = Timestamp { seconds, nanos };
            prop_assert_eq!(parse_stamp(&format_stamp(time)), Ok(time));
        }
    }
}
