//! Checks that the numbers of a model agree with each other. Errors of a single number (no unit, no source, negative,
//! zero) are found where it is parsed.

use super::{Count, Inclusion, LINE_BYTES, Model, Numbering, PAGE_BYTES, Sourced};
use std::ops::Range;

/// Why a text is not a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {why}")]
pub struct ModelError {
    /// The file, or the name of the built-in model.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key, such as `cache[1].ways`; the line's text where the parser does not name the key.
    pub key: String,
    /// What is wrong, and how to correct it.
    pub why: String,
}

fn line_at(text: &str, offset: usize) -> usize {
    text.char_indices()
        .take_while(|&(at, _)| at < offset)
        .filter(|&(_, character)| character == '\n')
        .count()
        + 1
}

impl ModelError {
    /// The parser's error as a `ModelError`.
    pub(super) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let words = text.lines().nth(line - 1).unwrap_or("").trim();
        let key = words.split_once('=').map_or(words, |(key, _)| key.trim());
        Self {
            file: file.to_owned(),
            line,
            key: key.to_owned(),
            why: error.message().to_owned(),
        }
    }
}

/// The limit of the bytes of all caches of a level: about ten times the largest machine of today (two AMD EPYC 9684X:
/// 2.3 GiB). It limits the memory that the simulation uses.
const MOST_CACHE: u64 = 32 << 30;

struct Checker<'a> {
    file: &'a str,
    text: &'a str,
}

impl Checker<'_> {
    fn require(
        &self,
        holds: bool,
        span: Range<usize>,
        key: impl Into<String>,
        why: impl FnOnce() -> String,
    ) -> Result<(), ModelError> {
        if holds {
            return Ok(());
        }
        Err(ModelError {
            file: self.file.to_owned(),
            line: line_at(self.text, span.start),
            key: key.into(),
            why: why(),
        })
    }

    fn at_most(&self, count: &Sourced<Count>, most: u32, key: &str) -> Result<(), ModelError> {
        let given = count.value().0;
        self.require(given <= most, count.span(), key, || {
            format!("{given} exceed the limit of {most}")
        })
    }

    fn present<T>(
        &self,
        value: Option<&Sourced<T>>,
        needed: bool,
        beside: Range<usize>,
        key: &str,
        reason: &str,
    ) -> Result<(), ModelError> {
        self.require(value.is_some() || !needed, beside.clone(), key, || {
            format!("is missing, and {reason}")
        })?;
        let span = value.map_or(beside, Sourced::span);
        self.require(value.is_none() || needed, span, key, || {
            format!("has no meaning unless {reason}; remove it")
        })
    }
}

fn cache_key(level: usize, name: &str) -> String {
    format!("cache[{level}].{name}")
}

impl Model {
    /// Checks the numbers against each other.
    pub(super) fn check(&self, file: &str, text: &str) -> Result<(), ModelError> {
        let checker = Checker { file, text };
        self.check_shape(&checker)?;
        self.check_core(&checker)?;
        self.check_caches(&checker)?;
        self.check_coherence(&checker)?;
        self.check_links(&checker)?;
        self.check_published(&checker)
    }

    fn check_shape(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let shape = &self.shape;
        let (packages, nodes) = (self.packages(), self.nodes());
        checker.require(
            nodes == 1 || nodes.is_multiple_of(packages),
            shape.nodes.span(),
            "shape.nodes",
            || format!("{nodes} nodes cannot be spread over {packages} packages: give a multiple of {packages}, or 1"),
        )?;
        checker.require(nodes <= 64, shape.nodes.span(), "shape.nodes", || {
            format!("{nodes} nodes exceed the limit of 64")
        })?;
        checker.require(
            self.cores().is_multiple_of(nodes),
            shape.cores_per_package.span(),
            "shape.cores_per_package",
            || {
                format!(
                    "{} cores cannot be spread over {nodes} nodes: give a multiple of {}",
                    self.cores(),
                    nodes / packages.min(nodes)
                )
            },
        )?;
        checker.require(
            self.cores() <= 1024,
            shape.cores_per_package.span(),
            "shape.cores_per_package",
            || format!("{} cores exceed the limit of 1024", self.cores()),
        )?;
        checker.at_most(&shape.threads_per_core, 16, "shape.threads_per_core")?;
        self.check_numbering(checker)
    }

    fn check_numbering(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let Numbering::Listed(mut pus) = self.shape.pu_numbering.value() else {
            return Ok(());
        };
        pus.sort_unstable();
        let all = self.pus();
        checker.require(
            pus.len() == all && pus.iter().enumerate().all(|(index, &pu)| pu as usize == index),
            self.shape.pu_numbering.span(),
            "shape.pu_numbering",
            || {
                format!(
                    "the list does not have each of the {all} PUs once: give each number from 0 to {} once",
                    all - 1
                )
            },
        )
    }

    fn check_core(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        checker.at_most(&self.core.reorder_buffer, 1 << 16, "core.reorder_buffer")?;
        checker.at_most(&self.core.store_buffer, 1 << 16, "core.store_buffer")?;
        checker.at_most(&self.core.line_fill_buffers, 1 << 16, "core.line_fill_buffers")?;
        self.check_prefetch(checker)?;
        if let Some(misses) = &self.core.locked_misses {
            checker.at_most(misses, 1 << 16, "core.locked_misses")?;
        }
        self.check_turbo(checker)?;
        self.check_smt(checker)?;
        self.check_smt_buffers(checker)?;
        let (entries, ways) = (self.tlb.entries.value().0, self.tlb.ways.value().0);
        checker.require(
            entries.is_multiple_of(ways) && (entries / ways).is_power_of_two(),
            self.tlb.ways.span(),
            "tlb.ways",
            || format!("{entries} entries in {ways} ways do not give a number of sets that is a power of two"),
        )
    }

    fn check_turbo(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let Some(turbo) = &self.core.turbo else {
            return Ok(());
        };
        let cores = self.shape.cores_per_package.value().0;
        match turbo.value().fault(cores, self.frequency()) {
            Some(why) => checker.require(false, turbo.span(), "core.turbo", || why),
            None => Ok(()),
        }
    }

    fn check_smt_buffers(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let Some(buffers) = &self.core.smt_buffers else {
            return Ok(());
        };
        let (share, threads) = (buffers.value().0, self.threads_per_core());
        checker.require(threads > 1, buffers.span(), "core.smt_buffers", || {
            "a core has one PU: leave the key out".to_owned()
        })?;
        checker.require(
            (1.0 / threads as f64..=1.0).contains(&share),
            buffers.span(),
            "core.smt_buffers",
            || format!("a PU has {share} of the buffers, and {threads} PUs share them: give 1/{threads} to 1"),
        )
    }

    fn check_prefetch(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let prefetch = &self.prefetch;
        checker.at_most(&prefetch.streamer_distance, 1 << 12, "prefetch.streamer_distance")?;
        checker.at_most(&prefetch.in_flight, 1 << 16, "prefetch.in_flight")?;
        let buffers = u64::from(self.core.line_fill_buffers.value().0);
        for (name, count) in prefetch.optional() {
            let (most, reason) = match name {
                "streamer_busy_distance" => (
                    u64::from(prefetch.streamer_distance.value().0),
                    "prefetch.streamer_distance",
                ),
                "llc_in_flight" => (1 << 16, "the limit"),
                "next_page" => (PAGE_BYTES / LINE_BYTES, "the lines of a page"),
                _ => (buffers, "core.line_fill_buffers"),
            };
            let given = u64::from(count.value().0);
            checker.require(given <= most, count.span(), format!("prefetch.{name}"), || {
                format!("{given} exceed {reason}: give at most {most}")
            })?;
        }
        checker.present(
            prefetch.llc_in_flight.as_ref(),
            prefetch.streamer_l2_below.is_some(),
            prefetch.in_flight.span(),
            "prefetch.llc_in_flight",
            "prefetch.streamer_l2_below is given",
        )?;
        let Some(below) = &prefetch.streamer_l2_below else {
            return Ok(());
        };
        let levels = self.caches.len();
        checker.require(levels > 2, below.span(), "prefetch.streamer_l2_below", || {
            format!("has no meaning where the L2 is the last of {levels} levels; remove it")
        })
    }

    fn check_smt(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        checker.present(
            self.core.smt_throughput.as_ref(),
            self.threads_per_core() > 1,
            self.core.frequency.span(),
            "core.smt_throughput",
            "shape.threads_per_core is above 1",
        )?;
        let Some(throughput) = &self.core.smt_throughput else {
            return Ok(());
        };
        let (ratio, threads) = (throughput.value().0, self.threads_per_core());
        checker.require(
            (1.0..=threads as f64).contains(&ratio),
            throughput.span(),
            "core.smt_throughput",
            || format!("{ratio} is out of range: {threads} PUs of a core do 1 to {threads} times the work of one"),
        )
    }

    fn check_caches(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        checker.require(
            (2..=4).contains(&self.caches.len()),
            self.tlb.entries.span(),
            "cache",
            || {
                format!(
                    "there are {} levels: give 2 to 4, nearest to the core first",
                    self.caches.len()
                )
            },
        )?;
        let mut before = 0.0;
        for level in 0..self.caches.len() {
            self.check_capacity(checker, level)?;
            self.check_sharing(checker, level)?;
            before = self.check_latency(checker, level, before)?;
        }
        self.check_memory(checker, before)
    }

    fn check_capacity(&self, checker: &Checker<'_>, level: usize) -> Result<(), ModelError> {
        let cache = &self.caches[level];
        let (size, ways) = (cache.size.value().0, u64::from(cache.ways.value().0));
        checker.require(
            size.is_multiple_of(ways * LINE_BYTES),
            cache.ways.span(),
            cache_key(level, "ways"),
            || {
                format!(
                    "{size} bytes are not a whole number of sets of {ways} lines of {LINE_BYTES} bytes: give ways that \
                     divide {}",
                    size / LINE_BYTES
                )
            },
        )?;
        let caches = (self.cores() / cache.cores.value().0 as usize).max(1) as u64;
        checker.require(
            size.checked_mul(caches).is_some_and(|bytes| bytes <= MOST_CACHE),
            cache.size.span(),
            cache_key(level, "size"),
            || {
                format!(
                    "{caches} caches of {size} bytes exceed the limit of {MOST_CACHE} bytes for all caches of a level"
                )
            },
        )
    }

    fn check_sharing(&self, checker: &Checker<'_>, level: usize) -> Result<(), ModelError> {
        let cache = &self.caches[level];
        let cores = cache.cores.value().0 as usize;
        let key = cache_key(level, "cores");
        if level + 1 < self.caches.len() {
            checker.require(cores == 1, cache.cores.span(), key, || {
                format!("{cores} cores share a cache that is not the last level: only the last may be shared, give 1")
            })?;
        } else {
            let per_node = self.cores() / self.nodes().max(self.packages());
            checker.require(per_node.is_multiple_of(cores), cache.cores.span(), &key, || {
                format!("{cores} cores do not divide the {per_node} of a node: give a divisor of {per_node}")
            })?;
            checker.require(cores <= 64, cache.cores.span(), key, || {
                format!("{cores} cores exceed the limit of 64 cores per cache")
            })?;
        }
        checker.require(
            level > 0 || cache.inclusion.value() == Inclusion::NonInclusive,
            cache.inclusion.span(),
            cache_key(level, "inclusion"),
            || "no cache is nearer to the core: write non_inclusive".to_owned(),
        )
    }

    /// Checks that a level's latency exceeds the previous level's. Returns the latency, in cycles.
    fn check_latency(&self, checker: &Checker<'_>, level: usize, before: f64) -> Result<f64, ModelError> {
        let cache = &self.caches[level];
        let latency = cache.latency.value().cycles(self.frequency());
        let key = cache_key(level, "latency");
        checker.require(latency > before, cache.latency.span(), key, || {
            format!("{latency:.1} cycles does not exceed the {before:.1} of the level before: give a longer latency")
        })?;
        Ok(latency)
    }

    /// `last_cache` is the latency of the last cache, in cycles.
    fn check_memory(&self, checker: &Checker<'_>, last_cache: f64) -> Result<(), ModelError> {
        if let Some(cost) = &self.memory.write_cost {
            let ratio = cost.value().0;
            checker.require((1.0..=4.0).contains(&ratio), cost.span(), "memory.write_cost", || {
                format!("{ratio} is out of range: a write occupies memory 1 to 4 times as long as a read")
            })?;
        }
        checker.present(
            self.memory.domain_out.as_ref(),
            self.memory.domain_in.is_some(),
            self.memory.bandwidth.span(),
            "memory.domain_out",
            "memory.domain_in is given",
        )?;
        let memory = self.memory.latency.value().cycles(self.frequency());
        let span = self.memory.latency.span();
        checker.require(memory > last_cache, span, "memory.latency", || {
            format!("{memory:.1} cycles does not exceed the {last_cache:.1} of the last cache: give a longer latency")
        })
    }

    fn check_coherence(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let coherence = &self.coherence;
        let beside = coherence.protocol.span();
        let shared = self.cores_per_domain() > 1;
        let split = self.cores_per_domain() < self.shape.cores_per_package.value().0 as usize;
        let several = self.packages() > 1;
        let rows = [
            (
                "same_domain_clean",
                &coherence.same_domain_clean,
                shared,
                "cores share the last cache",
            ),
            (
                "same_domain_modified",
                &coherence.same_domain_modified,
                shared,
                "cores share the last cache",
            ),
            (
                "same_package_clean",
                &coherence.same_package_clean,
                split,
                "a package has several last-level caches",
            ),
            (
                "same_package_modified",
                &coherence.same_package_modified,
                split,
                "a package has several last-level caches",
            ),
            (
                "other_package_clean",
                &coherence.other_package_clean,
                several,
                "there are several packages",
            ),
            (
                "other_package_modified",
                &coherence.other_package_modified,
                several,
                "there are several packages",
            ),
        ];
        for (name, value, needed, reason) in rows {
            checker.present(
                value.as_ref(),
                needed,
                beside.clone(),
                &format!("coherence.{name}"),
                reason,
            )?;
        }
        Ok(())
    }

    fn check_links(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        let nodes = self.nodes();
        let mut seen = vec![];
        for (index, link) in self.links.iter().enumerate() {
            for &(a, b) in &link.between {
                let key = format!("link[{index}].between");
                checker.require(a < nodes && b < nodes && a != b, link.bandwidth.span(), &key, || {
                    format!("[{a}, {b}] does not connect two different nodes of 0 to {}", nodes - 1)
                })?;
                let pair = (a.min(b), a.max(b));
                checker.require(!seen.contains(&pair), link.bandwidth.span(), &key, || {
                    format!("[{a}, {b}] is listed twice: give one link with the sum of the bandwidths")
                })?;
                seen.push(pair);
            }
        }
        let routes = self.routes();
        for node in 0..nodes {
            checker.require(routes.reaches(0, node), self.memory.latency.span(), "link", || {
                format!("no links lead from node 0 to node {node}: a route must lead from every node to every other")
            })?;
        }
        checker.require(
            self.memory.front_side_bus.is_none() || nodes == 1,
            self.memory.front_side_bus.as_ref().map_or(0..0, Sourced::span),
            "memory.front_side_bus",
            || format!("a machine with front-side buses has one node, this one has {nodes}"),
        )
    }

    fn check_published(&self, checker: &Checker<'_>) -> Result<(), ModelError> {
        // All points of a curve are in one table.
        for (index, table) in self.published.chunk_by(|a, b| a.span() == b.span()).enumerate() {
            if let Some((key, why)) = table.iter().find_map(|published| published.fault(self)) {
                checker.require(false, table[0].span(), format!("published[{index}].{key}"), || why)?;
            }
        }
        Ok(())
    }
}
