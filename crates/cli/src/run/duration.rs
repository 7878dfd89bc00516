//! Times on the command line: `30` is seconds, as in autopin; `500ms`, `1.5s`, `2m` carry their unit.

use std::time::Duration;

/// The units and their lengths in seconds.
const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Parses a time that is not negative.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let end_of_number = text
        .find(|character: char| character != '.' && !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end_of_number);
    let unit = unit.trim();
    let factor = if unit.is_empty() {
        Some(1.0)
    } else {
        UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    };
    let seconds = number
        .parse::<f64>()
        .ok()
        .zip(factor)
        .map(|(number, factor)| number * factor);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "not a time; write seconds, or a number with us, ms, s, m or h, such as 500ms".to_owned())
}

/// Parses a time that is not zero either: a probe or a reading interval.
pub(super) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be more than zero".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_seconds() {
        assert_eq!(parse("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("0.25"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn a_unit_is_honoured() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5 m"), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "s", "-1", "1e3", "5 parsecs", "1..2", "99999999999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_positive("0ms").is_err());
    }
}
