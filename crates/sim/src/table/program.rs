//! One program of a table: its regions, and the configurations in which it was measured.

use super::measured::{Key, Measured, MeasuredRows};
use super::pages;
use super::placement::{Layout, Placement, Places};
use super::row::{RowConfiguration, TableRow};
use pinfold_core::{PageMapping, Pinning, Prefetchers, PuId, PuSet, RegionId, ThreadMap, Topology, digits};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Names whose Jaro-Winkler similarity is lower are not mistaken for each other, unless they differ by one slip.
const SIMILAR: f64 = 0.75;

/// The most names in an error.
const MOST_NAMES: usize = 12;

/// What the table cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It has no rows.
    #[error("the table has no rows")]
    NoRows,
    /// No program has this name.
    #[error("the table has no program `{asked}`{guess}; it has {known}")]
    UnknownProgram {
        /// What was asked for.
        asked: String,
        /// The most similar name, as a part of the sentence.
        guess: String,
        /// The names.
        known: String,
    },
    /// No program was named, and there are several.
    #[error("the table has several programs, so name one with --program: {known}")]
    SeveralPrograms {
        /// The names.
        known: String,
    },
    /// The program has rows with several arguments.
    #[error("`{program}` was measured with several arguments, so name one of its commands with --program: {known}")]
    SeveralCommands {
        /// The program.
        program: String,
        /// The commands.
        known: String,
    },
    /// No region has this name.
    #[error("`{program}` has no region `{asked}` in the table{guess}; it has {known}")]
    UnknownRegion {
        /// The program.
        program: String,
        /// What was asked for.
        asked: String,
        /// The most similar name, as a part of the sentence.
        guess: String,
        /// The names.
        known: String,
    },
    /// It has rows of the whole program only.
    #[error("the table has no regions of `{program}`, only times of the whole program: leave --region out")]
    NoRegions {
        /// The program.
        program: String,
    },
    /// A row has an impossible value.
    #[error("row {row} of the table, of `{program}`: {why}")]
    Row {
        /// The number of the row, from 1.
        row: usize,
        /// The program.
        program: String,
        /// What is wrong.
        why: String,
    },
    /// No configuration was measured for all regions, with this number of threads if one was asked for.
    #[error("the table has no row of `{program}`{threads} for all of its regions; it has {known} threads")]
    NoConfiguration {
        /// The program.
        program: String,
        /// The number of threads that was asked for, as a part of the sentence.
        threads: String,
        /// The numbers that it has.
        known: String,
    },
}

/// One part of a repetition: a region, or the rest of the program.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The region; `None` for the whole program, and for what runs outside of its regions.
    pub(super) region: Option<RegionId>,
    /// The name in the table.
    pub(super) name: String,
    pub(super) rows: MeasuredRows,
}

/// One program of a table, indexed.
#[derive(Clone, Debug)]
pub struct TableProgram {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) parts: Vec<Part>,
    pub(super) places: Places,
    placements: Placements,
    pub(super) footprint: Option<u64>,
    /// The configurations that the table marks as the baseline.
    pub(super) marked: Vec<Key>,
    /// Whether some rows were simulated.
    pub(super) simulated: bool,
}

/// The placements of a table, by number.
#[derive(Clone, Debug, Default)]
struct Placements {
    all: Vec<Placement>,
    numbers: HashMap<Placement, usize>,
    /// The pinnings that rows name.
    exact: HashMap<Pinning, usize>,
    /// The first placement of each layout.
    alike: HashMap<Layout, usize>,
}

impl Placements {
    fn number(&mut self, placement: Placement) -> usize {
        let Self { all, numbers, .. } = self;
        *numbers.entry(placement.clone()).or_insert_with(|| {
            all.push(placement);
            all.len() - 1
        })
    }
}

impl TableProgram {
    /// The program with this name or command, with all its regions or one of them. Without a name it is the only
    /// program.
    ///
    /// # Errors
    ///
    /// There is no such program or region, there are several, or a row has an impossible value.
    pub fn new(
        rows: &[TableRow],
        topology: &Topology,
        program: Option<&str>,
        region: Option<&str>,
    ) -> Result<Self, TableError> {
        let command = command_of(rows, program)?;
        let own = || rows.iter().enumerate().filter(|(_, row)| row.command == command);
        let name = own().next().map(|(_, row)| row.program.clone()).unwrap_or_default();
        let mut found = Self {
            name,
            command: command.to_owned(),
            parts: vec![],
            places: Places::new(topology),
            placements: Placements::default(),
            footprint: own().filter_map(|(_, row)| row.footprint).max(),
            marked: vec![],
            simulated: own().any(|(_, row)| row.simulated),
        };
        let mut whole = MeasuredRows::default();
        let mut regions: Vec<(&str, MeasuredRows)> = vec![];
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for (number, row) in own() {
            let wrong = |why| TableError::Row {
                row: number + 1,
                program: command.to_owned(),
                why,
            };
            let (key, measured) = found.indexed(row).map_err(wrong)?;
            match row.region.as_deref() {
                None => whole.add(key, measured),
                Some(name) => {
                    let position = *positions.entry(name).or_insert_with(|| {
                        regions.push((name, MeasuredRows::default()));
                        regions.len() - 1
                    });
                    regions[position].1.add(key, measured);
                }
            }
        }
        found.parts = parts(regions);
        match region {
            None => found.add_whole(whole),
            Some(asked) => found.keep_region(asked)?,
        }
        Ok(found)
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program and its arguments.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The names of its regions in the table, with what identifies them in samples.
    pub fn regions(&self) -> impl Iterator<Item = (&str, RegionId)> {
        self.parts
            .iter()
            .filter_map(|part| Some((part.name.as_str(), part.region?)))
    }

    /// The configuration of a row, and what was measured.
    fn indexed(&mut self, row: &TableRow) -> Result<(Key, Measured), String> {
        if !(row.time > 0.0 && row.time.is_finite()) {
            return Err(format!("its time is {}, and must be above 0", row.time));
        }
        if let Some(spread) = row.spread.filter(|spread| !(0.0..=10.0).contains(spread)) {
            return Err(format!("its spread is {spread}, and must be a share from 0 on"));
        }
        let of = &row.configuration;
        let pages = pages::parsed(&of.page_map).ok_or_else(|| format!("`{}` is no page mapping", of.page_map))?;
        let prefetchers: Prefetchers = of.prefetch.parse().map_err(|error| format!("{error}"))?;
        let placement = self.placement(of)?;
        let key = Key {
            placement,
            pages,
            prefetchers,
        };
        if row.baseline {
            self.marked.push(key);
        }
        let measured = Measured {
            time: row.time,
            spread: row.spread,
        };
        Ok((key, measured))
    }

    /// The number of a row's placement.
    fn placement(&mut self, of: &RowConfiguration) -> Result<usize, String> {
        if of.threads == 0 {
            return Err("it has no threads".to_owned());
        }
        let pinning = of
            .pinning
            .as_deref()
            .map(|text| pinning(text, of.threads))
            .transpose()?;
        let map = of.thread_map.as_deref().map(thread_map).transpose()?;
        let layout = match (of.nodes, map) {
            (Some(nodes), _) if nodes == 0 || nodes > of.threads.min(self.places.nodes()) => {
                return Err(format!(
                    "it has {} threads on {nodes} nodes, and the machine has {}",
                    of.threads,
                    self.places.nodes()
                ));
            }
            (Some(nodes), Some(map)) => Some((nodes, map)),
            (Some(1), None) if pinning.is_none() => Some((1, ThreadMap::Compact)),
            (Some(_), None) if pinning.is_none() => {
                return Err("it has neither a thread map nor a pinning".to_owned());
            }
            _ => None,
        };
        let layout = layout.map(|(nodes, map)| Layout {
            threads: of.threads,
            nodes,
            map: if nodes == 1 { ThreadMap::Compact } else { map },
            per_core: of
                .threads_per_core
                .unwrap_or_else(|| self.places.per_core(of.threads, nodes)),
        });
        Ok(match (layout, pinning) {
            (Some(layout), pinning) => {
                let number = self.placements.number(Placement::Layout(layout));
                self.placements.alike.insert(layout, number);
                self.placements.exact.extend(pinning.map(|pinning| (pinning, number)));
                number
            }
            (None, Some(pinning)) => {
                let alike = self.places.layout(pinning.pus()).ok();
                let number = self.placements.number(Placement::Pinned(pinning.clone()));
                if let Some(alike) = alike {
                    self.placements.alike.entry(alike).or_insert(number);
                }
                self.placements.exact.insert(pinning, number);
                number
            }
            (None, None) => self.placements.number(Placement::Unpinned(of.threads)),
        })
    }

    /// Keeps one region.
    fn keep_region(&mut self, asked: &str) -> Result<(), TableError> {
        let program = self.command.clone();
        if self.parts.is_empty() {
            return Err(TableError::NoRegions { program });
        }
        let known: Vec<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
        if !known.contains(&asked) {
            return Err(TableError::UnknownRegion {
                program,
                guess: guess(asked, &known),
                known: listed(&known),
                asked: asked.to_owned(),
            });
        }
        self.parts.retain(|part| part.name == asked);
        Ok(())
    }

    /// The whole program is measured, too: what it takes beside its regions is a part.
    fn add_whole(&mut self, whole: MeasuredRows) {
        let name = "outside of regions".to_owned();
        if self.parts.is_empty() {
            self.parts.push(Part {
                region: None,
                name: self.name.clone(),
                rows: whole,
            });
            return;
        }
        let mut rest = MeasuredRows::default();
        for key in whole.keys() {
            let regions: Option<f64> = self.parts.iter().map(|part| Some(part.rows.get(key)?.time)).sum();
            if let Some((all, regions)) = whole.get(key).zip(regions) {
                let measured = Measured {
                    time: (all.time - regions).max(0.0),
                    spread: all.spread,
                };
                rest.add(*key, measured);
            }
        }
        if !rest.keys().is_empty() {
            self.parts.push(Part {
                region: None,
                name,
                rows: rest,
            });
        }
    }

    /// Whether all parts were measured in a configuration.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.parts.iter().all(|part| part.rows.has(key))
    }

    /// The configurations in which all parts were measured, in the order of the rows.
    pub(super) fn complete(&self) -> impl Iterator<Item = Key> {
        let first = self.parts.first().map_or(&[][..], |part| part.rows.keys());
        first.iter().copied().filter(|key| self.has(key))
    }

    /// The placement with a number.
    pub(super) fn placement_at(&self, number: usize) -> &Placement {
        &self.placements.all[number]
    }

    /// The placement of threads on these PUs, by rank; and whether its rows may be of this very pinning. A text says why
    /// there is none.
    pub(super) fn placement_of(&self, pus: &[PuId]) -> Result<(usize, bool), String> {
        let exact = Pinning::new(pus.to_vec()).and_then(|pinning| self.placements.exact.get(&pinning));
        if let Some(&number) = exact {
            return Ok((number, true));
        }
        let layout = self.places.layout(pus)?;
        let number = self.placements.alike.get(&layout).copied();
        // One thread on each node is both maps.
        let twin = Layout {
            map: ThreadMap::Scatter,
            ..layout
        };
        let twin = (layout.threads == layout.nodes).then(|| self.placements.alike.get(&twin).copied());
        let number = number.or(twin.flatten());
        let number = number.ok_or_else(|| format!("{layout} were not measured"))?;
        let names_others = self.placements.exact.values().any(|&named| named == number);
        Ok((number, !names_others))
    }

    /// The numbers of threads of its rows.
    pub(super) fn thread_counts(&self) -> BTreeSet<usize> {
        self.complete().map(|key| self.threads(key.placement)).collect()
    }

    /// The number of threads of a placement.
    pub(super) fn threads(&self, placement: usize) -> usize {
        match &self.placements.all[placement] {
            Placement::Unpinned(threads) => *threads,
            Placement::Layout(layout) => layout.threads,
            Placement::Pinned(pinning) => pinning.pus().len(),
        }
    }

    /// Whether the table has several settings of something.
    pub(super) fn varies<T: PartialEq>(&self, of: impl Fn(&Key) -> T) -> bool {
        let mut keys = self.complete();
        keys.next().is_some_and(|first| keys.any(|key| of(&key) != of(&first)))
    }

    /// Whether some row has these pages.
    pub(super) fn has_pages(&self, pages: PageMapping) -> bool {
        self.complete().any(|key| key.pages == pages)
    }
}

/// The parts of regions. A name that is an address identifies the region; other regions are numbered from 1.
fn parts(regions: Vec<(&str, MeasuredRows)>) -> Vec<Part> {
    let address = |name: &str| digits::hexadecimal(name.strip_prefix("0x")?);
    let addresses: Option<BTreeSet<u64>> = regions.iter().map(|(name, _)| address(name)).collect();
    let are_addresses = addresses.is_some_and(|addresses| addresses.len() == regions.len());
    let part = |(number, (name, rows)): (u64, (&str, MeasuredRows))| Part {
        region: Some(RegionId(address(name).filter(|_| are_addresses).unwrap_or(number))),
        name: name.to_owned(),
        rows,
    };
    (1..).zip(regions).map(part).collect()
}

/// The command of the program that is asked for.
fn command_of<'a>(rows: &'a [TableRow], asked: Option<&str>) -> Result<&'a str, TableError> {
    let mut commands: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows {
        commands.entry(&row.program).or_default().insert(&row.command);
    }
    let all: Vec<&str> = commands.values().flatten().copied().collect();
    let programs: Vec<&str> = commands.keys().copied().collect();
    let Some(asked) = asked else {
        return match all.as_slice() {
            [] => Err(TableError::NoRows),
            [only] => Ok(only),
            _ => Err(TableError::SeveralPrograms {
                known: listed(if programs.len() > 1 { &programs } else { &all }),
            }),
        };
    };
    if let Some(command) = all.iter().find(|command| **command == asked) {
        return Ok(command);
    }
    match commands.get(asked) {
        Some(of) if of.len() == 1 => Ok(of.iter().next().copied().unwrap_or_default()),
        Some(of) => Err(TableError::SeveralCommands {
            program: asked.to_owned(),
            known: listed(&of.iter().copied().collect::<Vec<_>>()),
        }),
        None => {
            let names: Vec<&str> = programs.iter().copied().chain(all).collect();
            Err(TableError::UnknownProgram {
                asked: asked.to_owned(),
                guess: guess(asked, &names),
                known: listed(&programs),
            })
        }
    }
}

/// The most similar name, as a part of a sentence.
fn guess(asked: &str, known: &[&str]) -> String {
    let asked = asked.to_lowercase();
    let similarity = |name: &str| {
        let name = name.to_lowercase();
        let is_slip = asked.len() > 1 && strsim::damerau_levenshtein(&asked, &name) == 1;
        strsim::jaro_winkler(&asked, &name).max(if is_slip { SIMILAR } else { 0.0 })
    };
    let mut near: Vec<(f64, &str)> = known.iter().map(|&name| (similarity(name), name)).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    match near.first() {
        Some((near, name)) if *near >= SIMILAR => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

/// Names as text.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    quoted.join(", ") + &rest
}

fn thread_map(text: &str) -> Result<ThreadMap, String> {
    let known = ThreadMap::ALL.into_iter().find(|map| map.name() == text);
    known.ok_or_else(|| format!("`{text}` is no thread map: there are compact and scatter"))
}

/// The pinning of a row, with one PU for each thread.
fn pinning(text: &str, threads: usize) -> Result<Pinning, String> {
    let pus = PuSet::parse_ordered(text).map_err(|error| error.to_string())?;
    let pinning = Pinning::new(pus).ok_or_else(|| "its pinning is empty".to_owned())?;
    let all = (0..threads).map(|rank| pinning.pu(rank)).collect();
    Pinning::new(all).ok_or_else(|| "it has no threads".to_owned())
}
