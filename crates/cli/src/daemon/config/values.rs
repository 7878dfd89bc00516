//! The values of keys: text and numbers are parsed, or refused with the remedy, in the same way in the file and on the
//! command line.

use crate::activities;
use crate::page_mapping::parse_rate;
use crate::run::duration;
use pinfold_core::digits;
use pinfold_linux::service::Users;
use pinfold_linux::watch::{Group, NoGroup};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// A time of at least a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Time(pub(in crate::daemon) Duration);

/// The source of the rates of sharing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum MetricName {
    /// The processor's counters, by the event set of its microarchitecture.
    Counters,
    /// The assumption that threads of a process share; with an event, weighed by that.
    Sharing(Option<String>),
    /// Who wakes whom, as the scheduler of `--with scx` counts it.
    Wakeups,
    /// Events of the kernel that stand for activities: `ACTIVITY=EVENT,...`.
    Activities(String),
}

/// A control group, by its path or by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Cgroup(pub(in crate::daemon) Group);

/// Processes that are not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum Except {
    /// A name, as a pattern of the shell.
    Name(String),
    /// A control group or a container.
    Group(Group),
}

/// A user by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct UserName(pub(in crate::daemon) u32);

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct ProcessNumber(pub(in crate::daemon) i32);

/// A rate above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::daemon) struct Rate(pub(in crate::daemon) f64);

/// A rate of copying above zero, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::daemon) struct CopyRate(pub(in crate::daemon) f64);

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Mode(pub(in crate::daemon) u32);

/// An address that only this machine reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Loopback(pub(in crate::daemon) SocketAddr);

impl Default for Mode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        duration::parse_probe(text).map(Self)
    }
}

impl FromStr for CopyRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_rate(text).map(Self)
    }
}

impl FromStr for MetricName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "counters" => Ok(Self::Counters),
            None if text == "sharing" => Ok(Self::Sharing(None)),
            None if text == "wakeups" => Ok(Self::Wakeups),
            Some(("sharing", event)) if !event.is_empty() => Ok(Self::Sharing(Some(event.to_owned()))),
            _ if text.contains('=') => match activities::named(text) {
                Ok(_) => Ok(Self::Activities(text.to_owned())),
                Err(error) => Err(crate::console::whole(&error)),
            },
            _ => Err(
                "there are counters, sharing, wakeups, sharing: with the name of an event, such as \
                 sharing:context-switches, and ACTIVITY=EVENT, such as memory_bandwidth=page-faults"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counters => f.write_str("counters"),
            Self::Sharing(None) => f.write_str("sharing"),
            Self::Wakeups => f.write_str("wakeups"),
            Self::Sharing(Some(event)) => write!(f, "sharing:{event}"),
            Self::Activities(text) => f.write_str(text),
        }
    }
}

impl MetricName {
    /// Whether it is an assumption, or part of it.
    pub(in crate::daemon) fn assumed(&self) -> bool {
        matches!(self, Self::Sharing(_) | Self::Wakeups)
    }
}

impl FromStr for Cgroup {
    type Err = NoGroup;

    fn from_str(text: &str) -> Result<Self, NoGroup> {
        text.parse().map(Self)
    }
}

impl FromStr for Except {
    type Err = NoGroup;

    fn from_str(text: &str) -> Result<Self, NoGroup> {
        let kinds = ["/", "container:", "pod:", "unit:"];
        if kinds.iter().any(|kind| text.starts_with(kind)) {
            return text.parse().map(Self::Group);
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl FromStr for UserName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(number) = digits::decimal(text) {
            return Ok(Self(number));
        }
        let number = Users::default().number(text);
        number.map(Self).map_err(|error| error.to_string())
    }
}

impl FromStr for ProcessNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = digits::decimal(text).filter(|&number: &i32| number > 0);
        number
            .map(Self)
            .ok_or_else(|| "write the number of a process, as ps shows it".to_owned())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mode = digits::octal(text).filter(|&mode: &u32| mode <= 0o777);
        mode.map(Self)
            .ok_or_else(|| "write permissions as chmod takes them, such as \"0660\"".to_owned())
    }
}

impl FromStr for Loopback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self(address)),
            Ok(_) => Err(
                "the network would see the names of all programs: write an address of this machine, such as \
                 127.0.0.1:9798, and put a proxy with authentication before it"
                    .to_owned(),
            ),
            Err(_) => Err("write an address and a port, such as 127.0.0.1:9798".to_owned()),
        }
    }
}

/// Reads strings of these types by the same functions as the command line.
macro_rules! deserialized_from_text {
    ($($name:ty),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
deserialized_from_text!(Time, CopyRate, MetricName, Cgroup, Except, Mode, Loopback);

impl<'de> Deserialize<'de> for UserName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::Text(text) => text,
        }
        .parse()
        .map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ProcessNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer)?
            .to_string()
            .parse()
            .map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rate = f64::deserialize(deserializer)?;
        if rate.is_finite() && rate > 0.0 {
            Ok(Self(rate))
        } else {
            Err(de::Error::custom("write a rate above zero"))
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(i64),
    Text(String),
}
