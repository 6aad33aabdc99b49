//! Times and durations: RFC 3339 with nanoseconds, `1h30m`, and the timestamps of session files.

use std::time::SystemTime;

use prost_types::{Duration, Timestamp};

use crate::domain::time::Time;

const NANOS: i128 = 1_000_000_000;
/// Timestamps from here on are milliseconds: as seconds they would lie beyond the year 5000, as milliseconds smaller ones
/// before 1973.
const FIRST_MILLISECONDS: i128 = 100_000_000_000;

#[expect(clippy::disallowed_methods, reason = "the client's one use of the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

pub fn is_past(time: &Timestamp) -> bool {
    let now = now();
    (time.seconds, time.nanos) <= (now.seconds, now.nanos)
}

/// `3 minutes ago` or `in 3 minutes`; within a few seconds `now`.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.seconds - time.seconds;
    let units = [(31_536_000, "year"), (2_592_000, "month"), (86_400, "day"), (3600, "hour")];
    let units = units.into_iter().chain([(60, "minute"), (1, "second")]);
    let unit = units.into_iter().find(|(length, _)| seconds.abs() >= *length);
    let Some((length, unit)) = unit.filter(|_| seconds.abs() >= 2) else {
        return "now".to_owned();
    };
    let number = seconds.abs() / length;
    let plural = if number == 1 { "" } else { "s" };
    match seconds > 0 {
        true => format!("{number} {unit}{plural} ago"),
        false => format!("in {number} {unit}{plural}"),
    }
}

/// `2026-01-31 12:00:00Z`
pub fn clock(time: Timestamp) -> String {
    format(time)[..19].replace('T', " ") + "Z"
}

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
    let seconds_of = |part: &str| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = part.split_at(digits);
        let scale = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        number.parse::<i64>().ok()?.checked_mul(scale)
    };
    let mut parts = text.split_inclusive(['s', 'm', 'h', 'd']);
    let seconds = parts.try_fold(0_i64, |sum, part| sum.checked_add(seconds_of(part)?));
    match seconds {
        Some(seconds) if seconds > 0 => Ok(Duration { seconds, nanos: 0 }),
        _ => Err(format!("`{text}` is not a duration. Write it as 90s, 15m, 1h30m or 7d")),
    }
}

/// The seconds of `Thu, 01 Jan 1970 00:10:00 GMT`.
pub fn parse_http_date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let parts: Vec<_> = text.split(' ').collect();
    let [_, day, month, year, clock, "GMT"] = parts[..] else { return None };
    let month = MONTHS.find(month)? / 3 + 1;
    parse(&format!("{year}-{month:02}-{day}T{clock}Z")).ok().map(|time| time.seconds)
}

/// A number of seconds from 0, with or without a fraction.
pub fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let duration = seconds.and_then(|it| std::time::Duration::try_from_secs_f64(it).ok());
    duration.ok_or_else(|| format!("`{text}` is not a number of seconds. Write 30 or 0.5"))
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
    let nanos = i128::from(time.seconds) * NANOS + i128::from(time.nanos);
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
    fn people_read_how_long_ago() {
        let at = |seconds| Timestamp { seconds, nanos: 9 };
        let ago = |seconds: i64| ago(at(1_000_000_000 - seconds), at(1_000_000_000));
        assert_eq!((ago(0), ago(1), ago(-1)), ("now".into(), "now".into(), "now".into()));
        assert_eq!((ago(59), ago(60)), ("59 seconds ago".into(), "1 minute ago".into()));
        assert_eq!((ago(7199), ago(86_400 * 29)), ("1 hour ago".into(), "29 days ago".into()));
        assert_eq!((ago(-7200), ago(400 * 86_400)), ("in 2 hours".into(), "1 year ago".into()));
        assert_eq!(clock(at(60)), "1970-01-01 00:01:00Z");
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

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http_date("yesterday"), None);
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        let millis = |text| parse_seconds(text).map(|it| it.as_millis());
        assert_eq!((millis("0.5"), millis("30"), millis("0")), (Ok(500), Ok(30_000), Ok(0)));
        for text in ["", "-1", "soon", "NaN", "inf", "1e99"] {
            assert!(millis(text).unwrap_err().contains("30 or 0.5"), "{text}");
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
