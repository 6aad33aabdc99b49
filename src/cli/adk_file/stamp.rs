//! Timestamps of ADK: seconds with a fraction, milliseconds, or RFC 3339.

use prost_types::Timestamp;

use crate::cli::time;

const NANOS: i128 = 1_000_000_000;
/// Numbers from here on are milliseconds: as seconds they would lie beyond the year 5000,
/// as milliseconds smaller ones before 1973.
const FIRST_MILLISECONDS: i128 = 100_000_000_000;

/// Reads a timestamp from its JSON text, digit by digit, so that no nanosecond is rounded away.
pub fn read(json: &str) -> Result<Timestamp, String> {
    if json.starts_with('"') {
        let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
        return time::parse(&text);
    }
    let wrong = || format!("`{json}` is not a time. Write seconds, milliseconds or RFC 3339");
    // In billionths of its unit.
    let number = billionths(json).ok_or_else(wrong)?;
    let nanos =
        if number.abs() / NANOS >= FIRST_MILLISECONDS { number.div_euclid(1000) } else { number };
    let time = Timestamp {
        seconds: i64::try_from(nanos.div_euclid(NANOS)).map_err(|_| wrong())?,
        nanos: i32::try_from(nanos.rem_euclid(NANOS)).map_err(|_| wrong())?,
    };
    if time::in_range(&time) { Ok(time) } else { Err(wrong()) }
}

/// Seconds as a JSON number, with as many digits as the time has.
pub fn write(time: Timestamp) -> String {
    let nanos = i128::from(time.seconds) * NANOS + i128::from(time.nanos);
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (whole, fraction) = (nanos / NANOS.unsigned_abs(), nanos % NANOS.unsigned_abs());
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    // Python reads a float only if there is a point.
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    format!("{sign}{whole}.{fraction}")
}

/// A JSON number times 10⁹, rounded half away from zero.
fn billionths(json: &str) -> Option<i128> {
    if json.contains(['e', 'E']) {
        let number = json.parse::<f64>().ok()?;
        return billionths(&format!("{number:.9}"));
    }
    let (negative, digits) = match json.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, json),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digit = |position: usize| {
        let digit = fraction.as_bytes().get(position);
        digit.map_or(0, |digit| i128::from(*digit) - 48)
    };
    let mut number = whole.parse::<i128>().ok()?.checked_mul(NANOS)?;
    let mut scale = NANOS / 10;
    for position in 0..9 {
        number = number.checked_add(digit(position) * scale)?;
        scale /= 10;
    }
    if digit(9) >= 5 {
        number += 1;
    }
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(seconds: i64, nanos: i32) -> Result<Timestamp, String> {
        Ok(Timestamp { seconds, nanos })
    }

    #[test]
    fn every_form_of_adk_is_understood() {
        assert_eq!(read("1733043686.8428597"), time(1_733_043_686, 842_859_700));
        assert_eq!(read("1733043686"), time(1_733_043_686, 0));
        assert_eq!(read("1733043686842"), time(1_733_043_686, 842_000_000));
        assert_eq!(read("1733043686842.5"), time(1_733_043_686, 842_500_000));
        assert_eq!(read("1.7330436868428597e9"), time(1_733_043_686, 842_859_745));
        assert_eq!(read("\"2024-12-01T09:01:26.8428597Z\""), time(1_733_043_686, 842_859_700));
        assert_eq!(read("\"0001-01-01T00:00:00Z\""), time(-62_135_596_800, 0));
    }

    #[test]
    fn fractions_round_at_the_tenth_digit_and_reach_below_zero() {
        assert_eq!(read("0.0000000005"), time(0, 1));
        assert_eq!(read("0.00000000049"), time(0, 0));
        assert_eq!(read("0.9999999999"), time(1, 0));
        assert_eq!(read("-0.25"), time(-1, 750_000_000));
        assert_eq!(read("-1"), time(-1, 0));
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for json in [
            "null",
            "true",
            "\"soon\"",
            "1e30",
            "1733043686842000000",
            "{}",
            "99999999999999999999999999999999999999999",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in -60_000_000_000_i64..99_999_999_999, nanos in 0..1_000_000_000) {
            let time = Timestamp { seconds, nanos };
            prop_assert_eq!(read(&write(time)), Ok(time));
        }
    }
}
