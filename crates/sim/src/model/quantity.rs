//! Numbers with a unit and an origin. In a model file every number is an inline table whose first key is the unit and
//! whose `source` says where it is from:
//!
//! ```toml
//! latency = { cycles = 12, source = "Intel 64 and IA-32 Optimization Reference Manual, table 2-10" }
//! walk = { cycles = 30, source = "assumed: page tables hit in the L2" }
//! ```
//!
//! A source that begins with the word `assumed` makes the number an assumption, and the type keeps the two apart.

use pinfold_core::Prefetcher;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// Where a number is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A paper, a data sheet, a published measurement.
    Published(String),
    /// No published figure is known; why this value, where that was said.
    Assumed(String),
}

impl Source {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.strip_prefix("assumed") {
            _ if text.is_empty() => {
                Err("the source is empty: name a paper, a data sheet or a measurement, or write `assumed`".to_owned())
            }
            Some(why) if why.is_empty() || !why.starts_with(char::is_alphanumeric) => {
                Ok(Self::Assumed(why.trim_start_matches([':', ',', ';']).trim().to_owned()))
            }
            _ => Ok(Self::Published(text.to_owned())),
        }
    }

    /// Whether this is an assumption.
    pub fn is_assumed(&self) -> bool {
        matches!(self, Self::Assumed(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published(text) => f.write_str(text),
            Self::Assumed(why) if why.is_empty() => f.write_str("assumed"),
            Self::Assumed(why) => write!(f, "assumed: {why}"),
        }
    }
}

/// A value and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    value: T,
    source: Source,
    span: Range<usize>,
}

impl<T> Sourced<T> {
    /// Where it is from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Where it stands in the model's text, in bytes.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl<T: Clone> Sourced<T> {
    /// Another value in its place.
    pub(crate) fn with(&self, value: T) -> Self {
        Self { value, ..self.clone() }
    }

    /// The value.
    pub fn value(&self) -> T {
        self.value.clone()
    }
}

impl<T: Serialize> Serialize for Sourced<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Plain<'a, T> {
            value: &'a T,
            source: &'a Source,
        }
        Plain {
            value: &self.value,
            source: &self.source,
        }
        .serialize(serializer)
    }
}

/// What stands beside a unit in a model file.
#[derive(Clone, Debug)]
pub enum Given {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// Several words.
    Words(Vec<String>),
    /// Several numbers.
    Numbers(Vec<f64>),
}

/// A kind of value, with the units in which it may be given.
pub trait Quantity: Sized {
    /// The units, the usual one first.
    const UNITS: &'static [&'static str];

    /// The value of `given` in `unit`, which is one of `UNITS`. The error says what would be right.
    fn from_given(unit: &str, given: Given) -> Result<Self, String>;
}

fn positive(given: Given) -> Result<f64, String> {
    match given {
        Given::Number(number) if number.is_finite() && number > 0.0 => Ok(number),
        Given::Number(number) => Err(format!("{number} cannot be: give a number above 0")),
        Given::Word(word) => Err(format!("`{word}` is no number: give a number above 0")),
        Given::Words(_) | Given::Numbers(_) => Err("a list is no number: give a number above 0".to_owned()),
    }
}

fn whole(given: Given) -> Result<u64, String> {
    let number = positive(given)?;
    if number.fract() == 0.0 && number < 2f64.powi(53) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, positive, below 2^53"
        )]
        let number = number as u64;
        Ok(number)
    } else {
        Err(format!("{number} cannot be: give a whole number from 1 on"))
    }
}

/// A number that no machine of today comes near, below or above, is a mistake, and would carry sums of times out of range.
fn within(number: f64, unit: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(format!(
        "{number} {unit} cannot be: give a number from {least:e} to {most:e}"
    ))
}

macro_rules! real_quantity {
    ($(#[$doc:meta])* $name:ident, $range:expr, $($unit:literal => $factor:expr),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl Quantity for $name {
            const UNITS: &'static [&'static str] = &[$($unit),+];

            fn from_given(unit: &str, given: Given) -> Result<Self, String> {
                let number = within(positive(given)?, unit, $range)?;
                let factor = match unit {
                    $($unit => $factor,)+
                    _ => return Err(format!("`{unit}` is no unit here")),
                };
                Ok(Self(number * factor))
            }
        }
    };
}

real_quantity!(
    /// In hertz.
    Frequency, 1e-3..=1e6, "ghz" => 1e9, "mhz" => 1e6
);
real_quantity!(
    /// In bytes a second; `gb_per_s` is 10^9.
    Bandwidth, 1e-3..=1e6, "gb_per_s" => 1e9
);
real_quantity!(
    /// In watts.
    Power, 1e-6..=1e6, "watts" => 1.0
);
real_quantity!(
    /// In joules.
    Energy, 1e-6..=1e9, "nj" => 1e-9, "pj" => 1e-12
);
real_quantity!(
    /// Without a unit.
    Ratio, 1e-6..=1e6, "ratio" => 1.0
);
real_quantity!(
    /// In cycles of the core's clock.
    Cycles, 1e-6..=1e6, "cycles" => 1.0
);

/// A latency, as its source gives it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// In cycles of the core's clock.
    Cycles(f64),
    /// In nanoseconds.
    Nanoseconds(f64),
}

impl Latency {
    /// In cycles of a core that runs at `frequency`.
    pub fn cycles(self, frequency: Frequency) -> f64 {
        match self {
            Self::Cycles(cycles) => cycles,
            Self::Nanoseconds(nanoseconds) => nanoseconds * 1e-9 * frequency.0,
        }
    }
}

impl Quantity for Latency {
    const UNITS: &'static [&'static str] = &["cycles", "ns"];

    fn from_given(unit: &str, given: Given) -> Result<Self, String> {
        // The longest is a second at a gigahertz.
        let number = within(positive(given)?, unit, 1e-6..=1e9)?;
        Ok(match unit {
            "cycles" => Self::Cycles(number),
            _ => Self::Nanoseconds(number),
        })
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

impl Quantity for Size {
    const UNITS: &'static [&'static str] = &["kib", "mib", "gib", "bytes"];

    fn from_given(unit: &str, given: Given) -> Result<Self, String> {
        let number = whole(given)?;
        let shift = match unit {
            "bytes" => 0,
            "kib" => 10,
            "mib" => 20,
            _ => 30,
        };
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("{number} {unit} is more than any memory holds"))
    }
}

/// A number of things, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Count(pub u32);

impl Quantity for Count {
    const UNITS: &'static [&'static str] = &["count"];

    fn from_given(_unit: &str, given: Given) -> Result<Self, String> {
        let number = whole(given)?;
        match u32::try_from(number) {
            Ok(number) if number <= 1 << 24 => Ok(Self(number)),
            _ => Err(format!("{number} cannot be: there are never more than 16777216")),
        }
    }
}

/// Makes an enum of words a quantity with one unit.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $unit:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("`{word}` is none of {}", Self::WORDS.join(", "))),
                }
            }
        }

        impl Quantity for $name {
            const UNITS: &'static [&'static str] = &[$unit];

            fn from_given(_unit: &str, given: Given) -> Result<Self, String> {
                match given {
                    Given::Word(word) => Self::from_word(&word),
                    _ => Err(format!("give one of {}", Self::WORDS.join(", "))),
                }
            }
        }
    };
}

choice!(
    /// What a cache holds of what the caches nearer to the cores hold.
    Inclusion, "policy",
    /// Everything: a line that leaves this cache leaves the caches nearer to the cores too.
    Inclusive = "inclusive",
    /// A line is put here on its way in, and may leave while a nearer cache keeps it.
    NonInclusive = "non_inclusive",
    /// Only what nearer caches evicted: a hit moves the line inwards, and in a shared cache leaves a copy only where
    /// another core holds the line too.
    Victim = "victim"
);

choice!(
    /// The coherence protocol.
    Protocol, "name",
    /// A modified line is written to memory when another LLC domain reads it; memory serves clean lines.
    Mesi = "mesi",
    /// As MESI, and a cache that holds a clean line forwards it.
    Mesif = "mesif",
    /// The owner keeps a modified line and serves the readers, without a write to memory; memory serves clean lines.
    Moesi = "moesi",
    /// As MOESI, and a cache that holds a clean line forwards it.
    Moesif = "moesif"
);

impl Protocol {
    /// Whether a modified line can be shared without being written to memory.
    pub fn shares_dirty(self) -> bool {
        matches!(self, Self::Moesi | Self::Moesif)
    }

    /// Whether caches forward clean lines.
    pub fn forwards_clean(self) -> bool {
        matches!(self, Self::Mesif | Self::Moesif)
    }
}

/// How the operating system numbers the PUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// The first PUs of the cores of node 0, then of node 1 and so on, then the second PUs in the same order.
    Contiguous,
    /// As `Contiguous`, but core after core from one node after the other in turn.
    RoundRobin,
    /// The numbers of the first PUs of the cores, core after core as `Contiguous` has them, then of the second PUs.
    Listed(Vec<u32>),
}

impl Quantity for Numbering {
    const UNITS: &'static [&'static str] = &["order", "pus"];

    fn from_given(unit: &str, given: Given) -> Result<Self, String> {
        match (unit, given) {
            ("order", Given::Word(word)) if word == "contiguous" => Ok(Self::Contiguous),
            ("order", Given::Word(word)) if word == "round_robin" => Ok(Self::RoundRobin),
            ("order", _) => Err("give contiguous or round_robin".to_owned()),
            (_, Given::Numbers(numbers)) => numbers
                .into_iter()
                .map(pu_number)
                .collect::<Result<_, _>>()
                .map(Self::Listed),
            _ => Err("give the list of the PUs' numbers, such as [0, 2, 1, 3]".to_owned()),
        }
    }
}

fn pu_number(number: f64) -> Result<u32, String> {
    if number.fract() == 0.0 && (0.0..f64::from(u32::MAX)).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and within 32 bits"
        )]
        let number = number as u32;
        Ok(number)
    } else {
        Err(format!("{number} is no PU: give whole numbers from 0 on"))
    }
}

/// The prefetchers' words.
const PREFETCHERS: [(&str, Prefetcher); 4] = [
    ("dcu_ip", Prefetcher::DcuIp),
    ("dcu", Prefetcher::Dcu),
    ("adjacent", Prefetcher::Adjacent),
    ("streamer", Prefetcher::Streamer),
];

/// A set of prefetchers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PrefetcherSet(pub Vec<Prefetcher>);

impl Quantity for PrefetcherSet {
    const UNITS: &'static [&'static str] = &["names"];

    fn from_given(_unit: &str, given: Given) -> Result<Self, String> {
        let known = PREFETCHERS.map(|(word, _)| word).join(", ");
        let Given::Words(words) = given else {
            return Err(format!("give a list of some of {known}"));
        };
        words
            .iter()
            .map(|given| {
                let found = PREFETCHERS.iter().find(|(word, _)| word == given);
                found.map_or_else(
                    || Err(format!("`{given}` is none of {known}")),
                    |&(_, prefetcher)| Ok(prefetcher),
                )
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// An inline table as it stands in the file.
struct Table {
    unit: String,
    given: Given,
    source: String,
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GivenVisitor;

        impl<'de> Visitor<'de> for GivenVisitor {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a word, a list of words or a list of numbers")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Given, E> {
                Ok(Given::Number(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Given, E> {
                Ok(Given::Number(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Given, E> {
                Ok(Given::Number(number))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Given, E> {
                Ok(Given::Word(word.to_owned()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Given, A::Error> {
                let (mut words, mut numbers) = (vec![], vec![]);
                while let Some(item) = list.next_element()? {
                    match item {
                        Given::Word(word) => words.push(word),
                        Given::Number(number) => numbers.push(number),
                        Given::Words(_) | Given::Numbers(_) => return Err(de::Error::custom("a list within a list")),
                    }
                }
                match (words.is_empty(), numbers.is_empty()) {
                    (false, false) => Err(de::Error::custom("the list mixes words and numbers")),
                    (true, false) => Ok(Given::Numbers(numbers)),
                    (_, true) => Ok(Given::Words(words)),
                }
            }
        }

        deserializer.deserialize_any(GivenVisitor)
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableVisitor;

        impl<'de> Visitor<'de> for TableVisitor {
            type Value = Table;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number with its unit and its source, such as { cycles = 4, source = \"assumed\" }")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
                let mut value = None;
                let mut source = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "source" {
                        source = Some(map.next_value::<String>()?);
                    } else if let Some((first, _)) = &value {
                        let message = format!("both `{first}` and `{key}` are given: a number has one unit");
                        return Err(de::Error::custom(message));
                    } else {
                        value = Some((key, map.next_value::<Given>()?));
                    }
                }
                let (unit, given) =
                    value.ok_or_else(|| de::Error::custom("the number is missing, beside its source"))?;
                let source = source.ok_or_else(|| {
                    de::Error::custom("`source` is missing: name a paper, a data sheet or a measurement, or `assumed`")
                })?;
                Ok(Table { unit, given, source })
            }
        }

        deserializer.deserialize_any(TableVisitor)
    }
}

impl<'de, T: Quantity> Deserialize<'de> for Sourced<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Spanned::<Table>::deserialize(deserializer)?;
        let span = table.span();
        let Table { unit, given, source } = table.into_inner();
        if !T::UNITS.contains(&unit.as_str()) {
            let message = format!("`{unit}` is no unit here: use {}", T::UNITS.join(" or "));
            return Err(de::Error::custom(message));
        }
        Ok(Self {
            value: T::from_given(&unit, given).map_err(de::Error::custom)?,
            source: Source::parse(&source).map_err(de::Error::custom)?,
            span,
        })
    }
}
