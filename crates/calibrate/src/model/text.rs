//! Numbers and sources in the form of a model file.

use pinfold_core::measurement::Measured;
use pinfold_sim::model::{Model, Sourced};

/// A number with its significant digits.
pub(super) fn digits(value: f64) -> String {
    let before = value.abs().log10().floor().max(-12.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 15"
    )]
    let decimals = (3.0 - before).clamp(0.0, 15.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A measurement as a source.
pub(super) fn measured(what: &str, figure: Measured) -> String {
    format!(
        "measured: {what}; best of {}, the middle one {:.1} % off",
        figure.runs,
        100.0 * figure.spread.abs()
    )
}

/// Bytes as a size.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("gib = {}", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("mib = {}", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("kib = {}", bytes >> 10),
        _ => format!("bytes = {bytes}"),
    }
}

/// Bytes for a reader.
pub(super) fn bytes_in_words(bytes: f64) -> String {
    if bytes >= f64::from(1 << 20) {
        format!("{:.1} MiB", bytes / f64::from(1 << 20))
    } else {
        format!("{:.0} KiB", bytes / f64::from(1 << 10))
    }
}

/// The source of a number that is taken from a similar model.
pub(super) fn as_in<T>(model: &Model, number: &Sourced<T>) -> String {
    format!("assumed: as {} ({})", model.name, number.source())
}

/// The word of an enumeration in a model file, in quotes.
pub(super) fn word(choice: &impl serde::Serialize) -> String {
    serde_json::to_string(choice).unwrap_or_default()
}

pub(super) fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The nearest whole number, at least one.
pub(super) fn whole(number: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive; `as` saturates"
    )]
    let whole = number.round().max(1.0) as usize;
    whole
}
