//! Times and durations for people: `3 minutes ago`, `1h30m`.

use std::time::SystemTime;

use prost_types::{Duration, Timestamp};

pub use super::adk_file::time::{format, parse};

#[expect(clippy::disallowed_methods, reason = "the client's one use of the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

pub fn is_past(time: &Timestamp) -> bool {
    let now = now();
    (time.seconds, time.nanos) <= (now.seconds, now.nanos)
}

/// `3 minutes ago` or `in 3 minutes`; within a second `now`.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    let units = [(31_536_000, "year"), (2_592_000, "month"), (86_400, "day"), (3600, "hour")];
    let units = units.into_iter().chain([(60, "minute"), (1, "second")]);
    let seconds = now.seconds - time.seconds;
    let distance = seconds.abs();
    let Some((length, unit)) = units.into_iter().find(|(length, _)| distance >= (*length).max(2))
    else {
        return "now".to_owned();
    };
    let number = distance / length;
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
    let seconds = seconds.filter(|seconds| *seconds > 0);
    seconds
        .map(|seconds| Duration { seconds, nanos: 0 })
        .ok_or_else(|| format!("`{text}` is not a duration. Write it as 90s, 15m, 1h30m or 7d"))
}

/// A number of seconds from 0, with or without a fraction.
pub fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let duration = seconds.and_then(|it| std::time::Duration::try_from_secs_f64(it).ok());
    duration.ok_or_else(|| format!("`{text}` is not a number of seconds. Write 30 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn seconds_may_have_a_fraction() {
        let millis = |text| parse_seconds(text).map(|it| it.as_millis());
        assert_eq!((millis("0.5"), millis("30"), millis("0")), (Ok(500), Ok(30_000), Ok(0)));
        for text in ["", "-1", "soon", "NaN", "inf", "1e99"] {
            assert!(millis(text).unwrap_err().contains("30 or 0.5"), "{text}");
        }
    }
}
