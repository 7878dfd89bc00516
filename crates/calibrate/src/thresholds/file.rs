//! The file of thresholds. `pinfold calibrate --thresholds` writes it, and `pinfold run` and the daemon read it.

use pinfold_policy::sam::{Thresholds, ThresholdsError};

/// The clock of the rates in a file of thresholds: rates are events per this unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Unhalted cycles of the task.
    Cycle,
    /// Nanoseconds of its processor time.
    Nanosecond,
    /// Seconds of its processor time.
    Second,
}

impl Clock {
    /// The short name, in the singular, as the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Nanosecond => "nanosecond",
            Self::Second => "second",
        }
    }

    /// In words.
    pub fn in_full(self) -> &'static str {
        match self {
            Self::Cycle => "unhalted cycle",
            Self::Nanosecond => "nanosecond of processor time",
            Self::Second => "second of processor time",
        }
    }
}

/// Why a text does not have valid thresholds.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not a file of thresholds.
    #[error(
        "`{name}` has no thresholds: it needs coherence, remote, memory and package_memory, and optionally their unit in `per`: \
         cycle, nanosecond or second: {error}"
    )]
    Syntax {
        /// The file.
        name: String,
        /// What is wrong.
        error: toml::de::Error,
    },
    /// Its rates use another unit.
    #[error(
        "`{name}` has thresholds in events per {per}, and events are counted per {by} here: measure them for the same \
         --metric, or without one (`pinfold calibrate --thresholds`)",
        per = per.in_full(),
        by = by.in_full()
    )]
    Clock {
        /// The file.
        name: String,
        /// The file's clock.
        per: Clock,
        /// The unit of the counted rates.
        by: Clock,
    },
    /// A threshold is out of range.
    #[error("`{name}`: {error}")]
    Range {
        /// The file.
        name: String,
        /// What is wrong.
        error: ThresholdsError,
    },
}

/// Reads the thresholds of the file `name`, for rates per `by`. A file that does not name its unit has rates per `by`.
pub fn parse(name: &str, text: &str, by: Clock) -> Result<Thresholds, FileError> {
    let read = || -> Result<(Option<Clock>, Thresholds), toml::de::Error> {
        let mut table: toml::Table = toml::from_str(text)?;
        let per = table.remove("per").map(toml::Value::try_into).transpose()?;
        Ok((per, table.try_into()?))
    };
    let name = name.to_owned();
    let (per, mut thresholds) = match read() {
        Ok(read) => read,
        Err(error) => return Err(FileError::Syntax { name, error }),
    };
    if let Some(per) = per.filter(|&per| per != by) {
        return Err(FileError::Clock { name, per, by });
    }
    if let Err(error) = thresholds.check() {
        return Err(FileError::Range { name, error });
    }
    if thresholds.source.is_empty() {
        thresholds.source = name;
    }
    Ok(thresholds)
}

/// The text of a file with these thresholds, whose rates are per `clock`.
pub fn text(thresholds: &Thresholds, clock: Clock) -> String {
    let Thresholds {
        source,
        coherence,
        remote,
        memory,
        package_memory,
    } = thresholds;
    // Names of events and processors may contain quotes.
    let source = toml::Value::String(source.clone());
    let (clock, per) = (clock.in_full(), clock.name());
    format!(
        "# Rates of a bottleneck in events per {clock}: package_memory of a package, the others of a task.\n\
         source = {source}\n\
         per = \"{per}\"\n\
         coherence = {coherence:.3e}\n\
         remote = {remote:.3e}\n\
         memory = {memory:.3e}\n\
         package_memory = {package_memory:.3e}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_thresholds_are_read_back_with_any_source() {
        let thresholds = Thresholds {
            source: "measured with \"a\\b\" of 'c'".to_owned(),
            ..Thresholds::paper()
        };
        let text = text(&thresholds, Clock::Cycle);
        assert_eq!(parse("here.toml", &text, Clock::Cycle).unwrap(), thresholds);
        let error = parse("here.toml", &text, Clock::Nanosecond).unwrap_err().to_string();
        assert!(error.contains("per unhalted cycle"), "{error}");
    }
}
