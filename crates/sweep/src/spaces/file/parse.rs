//! From the TOML of a space to its entries. An error has its position.

use super::{Entry, PerCore, Threads};
use crate::spaces::machine::every_prefetcher_setting;
use crate::spaces::point::PAGE_MAPS;
use pinfold_core::{PageMapping, Pinning, Prefetchers, PuSet, ThreadMap};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) const ENTRY: &str = "configurations";
const KEYS: [&str; 6] = [
    "pinnings",
    "nodes",
    "thread_map",
    "threads_per_core",
    "page_map",
    "prefetch",
];

/// A result, or the position and the text of the error in a key or a value.
pub(super) type Placed<T> = Result<T, (Range<usize>, String)>;

pub(super) fn entries(table: &DeTable<'_>, line: &impl Fn(usize) -> usize) -> Placed<Vec<Entry>> {
    let mut found = vec![];
    for (key, value) in table {
        if key.get_ref() != ENTRY {
            return Err((key.span(), unknown("key", key.get_ref(), &[ENTRY])));
        }
        let DeValue::Array(array) = value.get_ref() else {
            return Err((
                value.span(),
                format!("`{ENTRY}` is a list of tables: write [[{ENTRY}]]"),
            ));
        };
        for item in array {
            let DeValue::Table(table) = item.get_ref() else {
                return Err((item.span(), format!("`{ENTRY}` is a list of tables: write [[{ENTRY}]]")));
            };
            found.push(entry(table, &item.span(), line)?);
        }
    }
    Ok(found)
}

fn entry(table: &DeTable<'_>, at: &Range<usize>, line: &impl Fn(usize) -> usize) -> Placed<Entry> {
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(&key.get_ref().as_ref())) {
        return Err((key.span(), unknown("key", key.get_ref(), &KEYS)));
    }
    let values = |key: &str| table.get(key).map(|value| (value.span(), items(value)));
    let threads = match (values("pinnings"), values("nodes")) {
        (Some((_, pinnings)), None) => {
            for key in ["thread_map", "threads_per_core"] {
                if let Some((at, _)) = values(key) {
                    let why = format!("`{key}` needs `nodes`; `pinnings` already say where threads are");
                    return Err((at, why));
                }
            }
            Threads::Pinned(
                pinnings
                    .into_iter()
                    .map(|value| Ok((line(value.span().start), pinning(value)?)))
                    .collect::<Placed<_>>()?,
            )
        }
        (None, Some((_, nodes))) => Threads::Mapped {
            nodes: nodes
                .into_iter()
                .map(|value| Ok((line(value.span().start), number(value, "nodes")?)))
                .collect::<Placed<_>>()?,
            per_core: match values("threads_per_core") {
                Some((at, numbers)) => Some(PerCore {
                    line: line(at.start),
                    numbers: numbers
                        .into_iter()
                        .map(|value| number(value, "threads"))
                        .collect::<Placed<_>>()?,
                }),
                None => None,
            },
            maps: match values("thread_map") {
                Some((_, maps)) => maps.into_iter().map(thread_map).collect::<Placed<_>>()?,
                None => vec![ThreadMap::Compact],
            },
        },
        (Some((at, _)), Some(_)) => return Err((at, "give either `pinnings` or `nodes`, not both".to_owned())),
        (None, None) => {
            let why = "the entry does not say where threads are: list `pinnings`, such as [\"0-7\"], or `nodes`, such as [1, 2]";
            return Err((at.clone(), why.to_owned()));
        }
    };
    Ok(Entry {
        threads,
        page_maps: match values("page_map") {
            Some((_, maps)) => maps.into_iter().map(page_map).collect::<Placed<_>>()?,
            None => vec![PageMapping::FirstTouch],
        },
        prefetchers: match values("prefetch") {
            Some((_, settings)) => settings
                .into_iter()
                .map(prefetchers)
                .collect::<Placed<Vec<_>>>()?
                .concat(),
            None => vec![Prefetchers::ALL],
        },
    })
}

/// A value, or the values of a list.
fn items<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Vec<&'a Spanned<DeValue<'i>>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![value],
    }
}

fn text<'a>(value: &'a Spanned<DeValue<'_>>, what: &str) -> Placed<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err((value.span(), format!("{what} is text in quotation marks"))),
    }
}

fn number(value: &Spanned<DeValue<'_>>, of: &str) -> Placed<usize> {
    match value.get_ref() {
        DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
    .filter(|&number| number > 0)
    .ok_or_else(|| (value.span(), format!("a number of {of} is a whole number of 1 or more")))
}

fn pinning(value: &Spanned<DeValue<'_>>) -> Placed<Pinning> {
    let list = text(value, "a pinning")?;
    let pus = PuSet::parse_ordered(list).map_err(|error| (value.span(), error.to_string()))?;
    Pinning::new(pus).ok_or_else(|| (value.span(), "a pinning has one PU or more, such as \"0-7\"".to_owned()))
}

fn thread_map(value: &Spanned<DeValue<'_>>) -> Placed<ThreadMap> {
    let name = text(value, "a thread map")?;
    let names = ThreadMap::ALL.map(ThreadMap::name);
    ThreadMap::ALL
        .into_iter()
        .find(|map| map.name() == name)
        .ok_or_else(|| (value.span(), unknown("thread map", name, &names)))
}

fn page_map(value: &Spanned<DeValue<'_>>) -> Placed<PageMapping> {
    let name = text(value, "a page mapping")?;
    PAGE_MAPS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|&(_, mapping)| mapping)
        .ok_or_else(|| {
            (
                value.span(),
                unknown("page mapping", name, &PAGE_MAPS.map(|(known, _)| known)),
            )
        })
}

fn prefetchers(value: &Spanned<DeValue<'_>>) -> Placed<Vec<Prefetchers>> {
    match text(value, "a prefetcher setting")? {
        "all" => Ok(every_prefetcher_setting()),
        setting => match setting.parse() {
            Ok(setting) => Ok(vec![setting]),
            Err(error) => Err((value.span(), format!("{error}; `all` stands for all sixteen settings"))),
        },
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    /// Names with a lower similarity are not suggested.
    const SIMILAR: f64 = 0.5;
    let near = known
        .iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(similarity, _)| *similarity >= SIMILAR);
    let guess = near.map_or(String::new(), |(_, near)| format!("; did you mean `{near}`?"));
    format!("there is no {what} `{name}`{guess} (there are: {})", known.join(", "))
}
