//! Numbers as people read them.

use pinfold_core::{COUNTS_OF_A_JOULE, ENERGY_UNIT};

/// A number with three digits and a prefix of the SI: `12.5 M`.
pub(crate) fn short(value: f64) -> String {
    const PREFIXES: [(f64, &str); 5] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if size < 1e-3 {
        return format!("{value:.2e}");
    }
    let (unit, prefix) = *PREFIXES.iter().find(|(unit, _)| size >= *unit).unwrap_or(&(1.0, ""));
    format!("{}{prefix}", digits(value / unit))
}

/// Three digits, without zeros at the end of the decimals.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value that may be missing.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), short)
}

/// A time or a duration in seconds.
pub(crate) fn seconds(value: f64) -> String {
    let decimals = usize::from(value.abs() < 100.0);
    format!("{value:.decimals$} s")
}

/// Bytes, with a digit after the point where the number is small. The script of the page writes them in the same way.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 10.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A bandwidth with a prefix of the SI, as vendors write it: `12 GB/s`.
pub(crate) fn bytes_per_second(value: f64) -> String {
    let text = short(value);
    let space = if text.ends_with(|letter: char| letter.is_ascii_digit()) {
        " "
    } else {
        ""
    };
    format!("{text}{space}B/s")
}

/// A text that is not broken between its number and its unit.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// A number of things: `1 move`, `2 moves`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A share with its sign: `+9.2 %`.
pub(crate) fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// The divisor of counts per second, and the unit of the quotient: `instructions per second`, and watts for energy.
pub(crate) fn unit(unit: &str) -> (f64, String) {
    if unit == ENERGY_UNIT {
        (COUNTS_OF_A_JOULE, "watts".to_owned())
    } else {
        let plural = if unit.ends_with('s') { "es" } else { "s" };
        (1.0, format!("{unit}{plural} per second"))
    }
}

/// The range of values in words.
pub(crate) fn range(values: &[f64]) -> String {
    let least = values.iter().copied().reduce(f64::min);
    let most = values.iter().copied().reduce(f64::max);
    match least.zip(most) {
        Some((least, most)) => format!("Between {} and {}", short(least), short(most)),
        None => "Nothing was measured".to_owned(),
    }
}

/// The least round number that is not below `value`: the upper end of an axis.
pub(crate) fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * unit >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_prefix() {
        let values = [0.0, 0.25, 1.0, 12.345, 999.9, 1000.0, 2.5e6, 1e13, 1e-6, f64::NAN];
        assert_eq!(
            values.map(short),
            ["0", "0.25", "1", "12.3", "1000", "1 k", "2.5 M", "10 T", "1.00e-6", "–"]
        );
        assert_eq!(optional(None), "–");
        assert_eq!(signed_percent(-0.0123), "-1.2 %");
    }

    #[test]
    fn units_have_their_plural() {
        let units = ["region", "miss", ENERGY_UNIT].map(|name| unit(name).1);
        assert_eq!(units, ["regions per second", "misses per second", "watts"]);
    }

    #[test]
    fn an_axis_ends_at_a_round_number_that_is_not_below_the_largest_value() {
        let values = [0.0, 0.99, 1.0, 1.01, 7.0, 1234.0, f64::INFINITY];
        let ends = values.map(|value| short(round_up(value)));
        assert_eq!(ends, ["1", "1", "1", "1.2", "8", "1.5 k", "1"]);
    }
}
