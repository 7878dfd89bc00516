//! Numbers on the command line that have bounds.

use pinfold_core::digits;

/// Parses a number of things of which there must be one.
pub(crate) fn parse_positive(text: &str) -> Result<usize, String> {
    match digits::decimal(text) {
        Some(number) if number > 0 => Ok(number),
        _ => Err("not a whole number from 1 up".to_owned()),
    }
}

/// Parses a share in percent that is less than the whole; as a share of 1.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>();
    match number {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("not a number of percent from 0 to below 100, such as 10".to_owned()),
    }
}

/// Parses a growth in percent.
pub(super) fn parse_growth(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>();
    match number {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent),
        _ => Err("not a number of percent from 0 up, such as 20".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_at_least() {
        assert_eq!(parse_positive("12"), Ok(12));
        for text in ["0", "-1", "1.5", "", "many"] {
            assert!(parse_positive(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percents_are_shares() {
        assert_eq!(parse_percent("0"), Ok(0.0));
        assert_eq!(parse_percent("12.5"), Ok(0.125));
        assert_eq!(parse_percent("10 %"), Ok(0.1));
        for text in ["100", "-1", "nan", "inf", "", "%"] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
    }
    #[test]
    fn a_growth_may_be_of_any_size() {
        assert_eq!(parse_growth("0"), Ok(0.0));
        assert_eq!(parse_growth("250 %"), Ok(250.0));
        for text in ["-1", "nan", "inf", "", "%"] {
            assert!(parse_growth(text).is_err(), "{text}");
        }
    }
}
