//! Times on the command line: `30` is seconds, as in autopin; `500ms`, `1.5s`, `2m` carry their unit.

use std::time::Duration;

/// The units and their lengths in seconds.
const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Nothing runs for longer; it keeps sums of times in range.
const LONGEST: f64 = 1e9;

/// Parses a time that is not negative.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
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
        .filter(|seconds| *seconds <= LONGEST)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "not a time; write seconds, or a number with us, ms, s, m or h, such as 500ms".to_owned())
}

/// The shortest probe, and the shortest time between two readings: more frequent readings would slow the program down.
const SHORTEST: Duration = Duration::from_millis(1);

/// Parses the time of a probe or of a reading interval.
pub(crate) fn parse_probe(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        duration if duration < SHORTEST => Err("must be 1ms at least".to_owned()),
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
        for text in [
            "",
            "s",
            "-1",
            "1e3",
            "5 parsecs",
            "1..2",
            "99999999999999999999",
            "5000000000h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_probe("0ms").is_err());
    }
}
