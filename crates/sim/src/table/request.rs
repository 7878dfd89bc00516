//! From a policy's request to rows of the table, and what of it is refused.
//!
//! - Threads: the pinning that a row names, or else its layout (`placement`). The unpinned program has a row of its own
//!   (`unpinned`).
//! - Pages: a mapping of the table that puts them where the policy wants them (`pages`). `first_touch` is where the
//!   pages of the unpinned program are.
//! - A region may have other threads and prefetchers than the rest only if its pages are where its own row has them,
//!   because the program has its pages at one place.
//!
//! What the table lacks is refused, and never replaced by something else that the policy would take for it. If only the
//! pages lack, they stay. If a table has one setting of the prefetchers only, they cannot be set. If a region lacks, it
//! runs as the rest. Without a row for the threads they are not pinned.

use super::measured::Key;
use super::pages::{self, PagePlace};
use super::program::TableProgram;
use pinfold_core::{
    Configuration, PageMapping, Pinning, Prefetchers, PuId, Refusal, RefusalCode, RegionConfiguration, RegionId,
    Topology, UnpinnedSource, map_threads,
};
use std::collections::BTreeMap;

/// The row of the unpinned program.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) key: Key,
    pub(super) source: UnpinnedSource,
    pub(super) threads: usize,
    /// The PUs of its threads; `None` if the table does not say where they were.
    pub(super) pus: Option<Vec<PuId>>,
}

impl Home {
    pub(super) fn new(program: &TableProgram, topology: &Topology, key: Key, source: UnpinnedSource) -> Self {
        use super::placement::Placement;
        let pus = match program.placement_at(key.placement) {
            Placement::Unpinned(_) => None,
            Placement::Pinned(pinning) => Some(pinning.pus().to_vec()),
            Placement::Layout(layout) => {
                let pinning = map_threads(topology, layout.threads, layout.nodes, layout.map);
                pinning.map(|pinning| pinning.pus().to_vec())
            }
        };
        let is_home = |pus: &Vec<PuId>| {
            program
                .placement_of(pus)
                .is_ok_and(|(number, _)| number == key.placement)
        };
        Self {
            threads: program.threads(key.placement),
            pus: pus.filter(is_home),
            source,
            key,
        }
    }
}

/// What is applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Applied {
    /// By part: its row.
    pub(super) parts: Vec<Key>,
    /// The mapping that was asked for, and where it has put the pages.
    pub(super) pages: PageMapping,
    pub(super) place: PagePlace,
    pub(super) prefetchers: Prefetchers,
    /// By rank: the PUs; `None` for unpinned threads.
    pub(super) pus: Option<Vec<PuId>>,
}

/// A request as far as the table has it.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) applied: Applied,
    pub(super) refused: Vec<Refusal>,
    /// Why threads are not pinned although the policy wants it.
    pub(super) not_pinned: Option<String>,
    /// Whether rows that name other CPUs stand for these, by symmetry.
    pub(super) is_alike: bool,
}

/// What requests are resolved with.
pub(super) struct Resolver<'a> {
    pub(super) program: &'a TableProgram,
    pub(super) topology: &'a Topology,
    pub(super) home: &'a Home,
}

/// A placement of threads that the table has.
struct Threads {
    number: usize,
    pus: Option<Vec<PuId>>,
    is_exact: bool,
}

impl Resolver<'_> {
    /// The program before the first request.
    pub(super) fn at_home(&self) -> Applied {
        let key = self.home.key;
        Applied {
            parts: vec![key; self.program.parts.len()],
            pages: key.pages,
            place: self.place(&key),
            prefetchers: key.prefetchers,
            pus: None,
        }
    }

    /// The rows of a request. `pins` has the PU of each thread.
    pub(super) fn answer(&self, request: &Configuration, pins: &[Option<PuId>], before: &Applied) -> Answer {
        match self.threads(pins, !request.regions.is_empty()) {
            Ok(threads) => self.with_threads(request, &threads, before),
            Err(why) => self.refused(
                before,
                format!("the table of measurements has no such placement: {why}"),
            ),
        }
    }

    /// Where all threads are.
    fn threads(&self, pins: &[Option<PuId>], has_regions: bool) -> Result<Threads, String> {
        if pins.iter().all(Option::is_none) {
            return Ok(self.unpinned());
        }
        let pinned: Option<Vec<PuId>> = pins.iter().copied().collect();
        let mut pus = pinned.ok_or("some threads are pinned, and others are not")?;
        if has_regions {
            // Outside of regions, neighbouring ranks share the PUs of a smaller team.
            pus.dedup();
        }
        self.pinned(pus)
    }

    fn unpinned(&self) -> Threads {
        Threads {
            number: self.home.key.placement,
            pus: None,
            is_exact: true,
        }
    }

    fn pinned(&self, pus: Vec<PuId>) -> Result<Threads, String> {
        let allowed = self.topology.allowed_pus();
        if let Some(pu) = pus.iter().find(|pu| !allowed.contains(**pu)) {
            return Err(format!("CPU {pu} is not among those that may be used, {allowed}"));
        }
        let (number, is_exact) = self.program.placement_of(&pus)?;
        Ok(Threads {
            number,
            pus: Some(pus),
            is_exact,
        })
    }

    /// The rows with these threads, with as much of the rest as the table has.
    fn with_threads(&self, request: &Configuration, threads: &Threads, before: &Applied) -> Answer {
        let wanted = request.pages.map_or(before.pages, |pages| self.own_pages(pages));
        let prefetchers = request.prefetchers.unwrap_or(before.prefetchers);
        let tries = [
            (wanted, prefetchers),
            (before.pages, prefetchers),
            (wanted, before.prefetchers),
            (before.pages, before.prefetchers),
        ];
        let sets_prefetchers = self.program.varies(|key| key.prefetchers);
        for (pages, set) in tries {
            if set != prefetchers && sets_prefetchers {
                continue;
            }
            let Some((applied, mut refused)) = self.rows(request, threads, pages, set) else {
                continue;
            };
            if pages != wanted {
                refused.push(Refusal::for_machine(
                    RefusalCode::Pages,
                    format!(
                        "pages stay {}, and not {}: the table of measurements has no row with {} and these pages",
                        pages::name(pages),
                        pages::name(wanted),
                        self.program.placement_at(threads.number),
                    ),
                ));
            }
            if set != prefetchers {
                refused.push(Refusal::for_machine(
                    RefusalCode::Prefetchers,
                    format!(
                        "the prefetchers stay {set}, and not {prefetchers}: the table of measurements has no other setting"
                    ),
                ));
            }
            return Answer {
                applied,
                refused,
                not_pinned: None,
                is_alike: !threads.is_exact,
            };
        }
        let why = format!(
            "the table of measurements has no row with {}, pages {} and prefetchers {prefetchers}",
            self.program.placement_at(threads.number),
            pages::name(wanted),
        );
        self.refused(before, why)
    }

    /// First touch is where the pages of the unpinned program are.
    fn own_pages(&self, pages: PageMapping) -> PageMapping {
        match pages {
            PageMapping::FirstTouch => self.home.key.pages,
            other => other,
        }
    }

    /// The rows of all parts, and the regions that are refused; `None` if a part has no row.
    fn rows(
        &self,
        request: &Configuration,
        threads: &Threads,
        pages: PageMapping,
        prefetchers: Prefetchers,
    ) -> Option<(Applied, Vec<Refusal>)> {
        let numbers = 0..self.program.parts.len();
        let keys = self.keys(threads, pages, prefetchers);
        // The row that most parts have says where the pages are.
        let found = |key: &&Key| numbers.clone().any(|part| self.program.parts[part].rows.has(key));
        let base = *keys.iter().find(found)?;
        let place = self.place(&base);
        let mut refused = vec![];
        let mut wanted: BTreeMap<RegionId, Key> = BTreeMap::new();
        for (&region, of_region) in &request.regions {
            match self.region(region, of_region, &base, pages) {
                Ok(key) => {
                    wanted.insert(region, key);
                }
                Err(why) => refused.push(Refusal::for_machine(
                    RefusalCode::Regions,
                    format!("region {region} runs like the rest of the program: {why}"),
                )),
            }
        }
        let row = |part: usize| {
            let part = &self.program.parts[part];
            let own = part.region.and_then(|region| wanted.get(&region)).copied();
            own.or_else(|| keys.iter().copied().find(|key| part.rows.has(key)))
        };
        let applied = Applied {
            parts: numbers.map(row).collect::<Option<_>>()?,
            pages,
            place,
            prefetchers,
            pus: threads.pus.clone(),
        };
        Some((applied, refused))
    }

    /// The rows that have these threads and prefetchers, and pages where the mapping wants them.
    fn keys(&self, threads: &Threads, pages: PageMapping, prefetchers: Prefetchers) -> Vec<Key> {
        let pus = threads.pus.as_deref().or(self.home.pus.as_deref()).unwrap_or_default();
        let equal = pages::equal(pages, pus, &self.program.places, self.topology);
        let key = |pages| Key {
            placement: threads.number,
            pages,
            prefetchers,
        };
        equal.into_iter().map(key).collect()
    }

    /// The row of a region with its own configuration; a text says why there is none.
    fn region(
        &self,
        region: RegionId,
        wanted: &RegionConfiguration,
        base: &Key,
        pages: PageMapping,
    ) -> Result<Key, String> {
        let mut parts = self.program.parts.iter();
        let part = parts.find(|part| part.region == Some(region));
        let part = part.ok_or("the table has no such region")?;
        let team = wanted.threads.unwrap_or(self.home.threads);
        let threads = match &wanted.pinning {
            None if team == self.home.threads => self.unpinned(),
            None => return Err(format!("the table has no row with {team} unpinned threads")),
            Some(pinning) => self.pinned((0..team).map(|rank| pinning.pu(rank)).collect())?,
        };
        let prefetchers = wanted.prefetchers.unwrap_or(base.prefetchers);
        let keys = self.keys(&threads, pages, prefetchers);
        let key = keys.iter().copied().find(|key| part.rows.has(key)).ok_or_else(|| {
            let placement = self.program.placement_at(threads.number);
            let pages = pages::name(pages);
            format!("the table has no row with {placement}, pages {pages} and prefetchers {prefetchers}")
        })?;
        if self.place(&key) != self.place(base) {
            return Err(format!(
                "the table was measured with the pages beside {}, and they are beside {}",
                self.program.placement_at(key.placement),
                self.program.placement_at(base.placement)
            ));
        }
        Ok(key)
    }

    fn place(&self, key: &Key) -> PagePlace {
        PagePlace::of(key.pages, self.program.placement_at(key.placement))
    }

    /// Threads are not pinned. Pages and prefetchers stay if the table has that.
    fn refused(&self, before: &Applied, why: String) -> Answer {
        let nothing = Configuration::default();
        let unpinned = self.unpinned();
        let stays = self.rows(&nothing, &unpinned, before.pages, before.prefetchers);
        let applied = stays.map_or_else(|| self.at_home(), |(applied, _)| applied);
        Answer {
            applied,
            refused: vec![Refusal::for_machine(
                RefusalCode::Unmeasured,
                format!("threads are not pinned: {why}"),
            )],
            not_pinned: Some(why),
            is_alike: false,
        }
    }
}

/// The PU of each thread that an unpinned or pinned program shows.
pub(super) fn shown(applied: &Applied, home: &Home, rank: usize) -> Option<PuId> {
    let pus = applied.pus.as_ref().or(home.pus.as_ref())?;
    let pinning = Pinning::new(pus.clone())?;
    Some(pinning.pu(rank))
}
