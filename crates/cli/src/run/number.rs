//! Numbers on the command line that have bounds.

use pinfold_core::{PuSet, digits};
use std::fmt::Display;
use std::str::FromStr;

/// The greatest number of threads: the size of a set of PUs.
pub(crate) const MOST_THREADS: usize = 1 + PuSet::HIGHEST.0 as usize;

/// Makes a parser of whole numbers between two bounds, both included.
pub(crate) fn within<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = digits::decimal(text).filter(|number| (&least..=&most).contains(&number));
        number.ok_or_else(|| format!("not a whole number from {least} to {most}"))
    }
}

/// Parses a number of at least one.
pub(crate) fn parse_positive(text: &str) -> Result<usize, String> {
    within(1, usize::MAX)(text)
}

/// Parses a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    within(1, MOST_THREADS)(text)
}

/// Parses a share in percent that is less than the whole; as a share of 1.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
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
    fn a_number_outside_its_bounds_is_refused_with_them() {
        assert_eq!((within(0, 3)("0"), within(0, 3)("3")), (Ok(0), Ok(3)));
        assert_eq!(parse_threads("65536"), Ok(65_536));
        for text in ["0", "65537", "4000000000", "-1", "99999999999999999999999"] {
            let error = parse_threads(text).unwrap_err();
            assert!(error.contains("from 1 to 65536"), "{text}: {error}");
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
