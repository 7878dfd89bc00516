//! Numbers with a unit and a source. In a model file every number is an inline table. Its first key is the unit, and
//! `source` says where the number comes from:
//!
//! ```toml
//! latency = { cycles = 12, source = "Intel 64 and IA-32 Optimization Reference Manual, table 2-10" }
//! walk = { cycles = 30, source = "assumed: page tables hit in the L2" }
//! ```
//!
//! A source that begins with the word `assumed` makes the number an assumption. The type distinguishes the two.

use pinfold_code::Microarchitecture;
use pinfold_core::Prefetcher;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// The source of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A paper, a data sheet, a published measurement.
    Published(String),
    /// No published figure is known. The text is the reason for this value, if given.
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

    /// Whether the number is an assumption.
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

/// A value and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    value: T,
    source: Source,
    span: Range<usize>,
}

impl<T> Sourced<T> {
    /// Its source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Its position in the model's text, in bytes.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The same with another value.
    pub(crate) fn with<U>(&self, value: U) -> Sourced<U> {
        Sourced {
            value,
            source: self.source.clone(),
            span: self.span(),
        }
    }
}

impl<T: Clone> Sourced<T> {
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

/// The value of a unit's key in a model file, before it is checked.
#[derive(Clone, Debug)]
pub enum RawValue {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// Several words.
    Words(Vec<String>),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// Several pairs of numbers.
    Pairs(Vec<[f64; 2]>),
}

/// A kind of value and its units.
pub trait Quantity: Sized {
    /// The units, the usual one first.
    const UNITS: &'static [&'static str];

    /// The value of `raw` in `unit`, which is one of `UNITS`. The error says how to correct it.
    fn from_raw(unit: &str, raw: RawValue) -> Result<Self, String>;
}

fn positive(raw: RawValue) -> Result<f64, String> {
    match raw {
        RawValue::Number(number) if number.is_finite() && number > 0.0 => Ok(number),
        RawValue::Number(number) => Err(format!("{number} is out of range: give a number above 0")),
        RawValue::Word(word) => Err(format!("`{word}` is not a number: give a number above 0")),
        RawValue::Words(_) | RawValue::Numbers(_) | RawValue::Pairs(_) => {
            Err("a list is not a number: give a number above 0".to_owned())
        }
    }
}

fn whole(raw: RawValue) -> Result<u64, String> {
    let number = positive(raw)?;
    if number.fract() == 0.0 && number < 2f64.powi(53) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, positive, below 2^53"
        )]
        let number = number as u64;
        Ok(number)
    } else {
        Err(format!("{number} is out of range: give a whole number of 1 or more"))
    }
}

/// Checks the range. A number outside the range of all machines of today is a mistake, and makes sums of times
/// overflow.
fn within(number: f64, unit: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(format!(
        "{number} {unit} is out of range: give a number from {least:e} to {most:e}"
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

            fn from_raw(unit: &str, raw: RawValue) -> Result<Self, String> {
                let number = within(positive(raw)?, unit, $range)?;
                let factor = match unit {
                    $($unit => $factor,)+
                    _ => return Err(format!("`{unit}` is not a unit of this number")),
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
    /// In bytes per second; `gb_per_s` is 10^9.
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

    fn from_raw(unit: &str, raw: RawValue) -> Result<Self, String> {
        // The limit is a second at a gigahertz.
        let number = within(positive(raw)?, unit, 1e-6..=1e9)?;
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

    fn from_raw(unit: &str, raw: RawValue) -> Result<Self, String> {
        let number = whole(raw)?;
        let shift = match unit {
            "bytes" => 0,
            "kib" => 10,
            "mib" => 20,
            _ => 30,
        };
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("{number} {unit} is larger than any memory"))
    }
}

/// A number of things, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Count(pub u32);

impl Quantity for Count {
    const UNITS: &'static [&'static str] = &["count"];

    fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
        let number = whole(raw)?;
        match u32::try_from(number) {
            Ok(number) if number <= 1 << 24 => Ok(Self(number)),
            _ => Err(format!("{number} is out of range: give at most 16777216")),
        }
    }
}

/// The name of a microarchitecture that the simulator knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MicroarchitectureName(pub String);

impl Quantity for MicroarchitectureName {
    const UNITS: &'static [&'static str] = &["name"];

    fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
        let names = || Microarchitecture::builtin_names().collect::<Vec<_>>().join(", ");
        match raw {
            RawValue::Word(word) if Microarchitecture::builtin_names().any(|name| name == word) => Ok(Self(word)),
            RawValue::Word(word) => Err(format!("`{word}` is not one of {}", names())),
            _ => Err(format!("give one of {}", names())),
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
                    _ => Err(format!("`{word}` is not one of {}", Self::WORDS.join(", "))),
                }
            }
        }

        impl Quantity for $name {
            const UNITS: &'static [&'static str] = &[$unit];

            fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
                match raw {
                    RawValue::Word(word) => Self::from_word(&word),
                    _ => Err(format!("give one of {}", Self::WORDS.join(", "))),
                }
            }
        }
    };
}

choice!(
    /// Which lines of the caches nearer to the cores a cache holds.
    Inclusion, "policy",
    /// All of them: a line that leaves this cache leaves the caches nearer to the cores, too.
    Inclusive = "inclusive",
    /// A line enters this cache on its way to the core, and may leave it while a nearer cache keeps it.
    NonInclusive = "non_inclusive",
    /// Only lines that nearer caches evicted: a hit moves the line towards the core. A shared cache keeps a copy where
    /// another core holds the line, too.
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
    /// Whether a modified line can be shared before it is written to memory.
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
    /// Like `Contiguous`, but round-robin over the nodes: the first core of each node, then the second core of each.
    RoundRobin,
    /// The numbers of the first PUs of the cores, in the order of `Contiguous`, then of the second PUs.
    Listed(Vec<u32>),
}

impl Quantity for Numbering {
    const UNITS: &'static [&'static str] = &["order", "pus"];

    fn from_raw(unit: &str, raw: RawValue) -> Result<Self, String> {
        match (unit, raw) {
            ("order", RawValue::Word(word)) if word == "contiguous" => Ok(Self::Contiguous),
            ("order", RawValue::Word(word)) if word == "round_robin" => Ok(Self::RoundRobin),
            ("order", _) => Err("give contiguous or round_robin".to_owned()),
            (_, RawValue::Numbers(numbers)) => numbers
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
        Err(format!("{number} is not a PU: give whole numbers of 0 or more"))
    }
}

/// The words for the prefetchers.
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

    fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
        let known = PREFETCHERS.map(|(word, _)| word).join(", ");
        let RawValue::Words(words) = raw else {
            return Err(format!("give a list of some of {known}"));
        };
        words
            .iter()
            .map(|given| {
                let found = PREFETCHERS.iter().find(|(word, _)| word == given);
                found.map_or_else(
                    || Err(format!("`{given}` is not one of {known}")),
                    |&(_, prefetcher)| Ok(prefetcher),
                )
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// An inline table of a model file.
struct Table {
    unit: String,
    raw: RawValue,
    source: String,
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawValueVisitor;

        impl<'de> Visitor<'de> for RawValueVisitor {
            type Value = RawValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a word, or a list of words, of numbers or of pairs of numbers")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<RawValue, E> {
                Ok(RawValue::Number(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<RawValue, E> {
                Ok(RawValue::Number(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<RawValue, E> {
                Ok(RawValue::Number(number))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<RawValue, E> {
                Ok(RawValue::Word(word.to_owned()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<RawValue, A::Error> {
                let (mut words, mut numbers, mut pairs) = (vec![], vec![], vec![]);
                while let Some(item) = list.next_element()? {
                    match item {
                        RawValue::Word(word) => words.push(word),
                        RawValue::Number(number) => numbers.push(number),
                        RawValue::Numbers(list) => match list[..] {
                            [first, second] => pairs.push([first, second]),
                            _ => return Err(de::Error::custom("a list within a list is not a pair of numbers")),
                        },
                        RawValue::Words(_) | RawValue::Pairs(_) => {
                            return Err(de::Error::custom("a list within a list is not a pair of numbers"));
                        }
                    }
                }
                match (words.is_empty(), numbers.is_empty(), pairs.is_empty()) {
                    (_, true, true) => Ok(RawValue::Words(words)),
                    (true, false, true) => Ok(RawValue::Numbers(numbers)),
                    (true, true, false) => Ok(RawValue::Pairs(pairs)),
                    (false, false, true) => Err(de::Error::custom("the list mixes words and numbers")),
                    _ => Err(de::Error::custom("the list mixes pairs and single values")),
                }
            }
        }

        deserializer.deserialize_any(RawValueVisitor)
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
                        value = Some((key, map.next_value::<RawValue>()?));
                    }
                }
                let (unit, raw) =
                    value.ok_or_else(|| de::Error::custom("the number is missing; only its source is given"))?;
                let source = source.ok_or_else(|| {
                    de::Error::custom("`source` is missing: name a paper, a data sheet or a measurement, or `assumed`")
                })?;
                Ok(Table { unit, raw, source })
            }
        }

        deserializer.deserialize_any(TableVisitor)
    }
}

impl<'de, T: Quantity> Deserialize<'de> for Sourced<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Spanned::<Table>::deserialize(deserializer)?;
        let span = table.span();
        let Table { unit, raw, source } = table.into_inner();
        if !T::UNITS.contains(&unit.as_str()) {
            let message = format!("`{unit}` is not a unit of this number: use {}", T::UNITS.join(" or "));
            return Err(de::Error::custom(message));
        }
        Ok(Self {
            value: T::from_raw(&unit, raw).map_err(de::Error::custom)?,
            source: Source::parse(&source).map_err(de::Error::custom)?,
            span,
        })
    }
}
