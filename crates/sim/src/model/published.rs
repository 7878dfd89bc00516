//! Published latencies and bandwidths of a machine. The simulated machine is compared with them.
//!
//! A figure has the measured quantity (`of`), for a bandwidth also the cores and the accesses (`by` and `mix`), and its
//! publication. A latency under load is a curve (`loaded`); each of its points is a figure. Some figures are also the
//! source of a number of the model; `calibrates` names these numbers. Their comparison shows that caches, directory,
//! address translation and queues together reproduce the number. A figure that calibrates nothing checks the model
//! itself.

use super::{Bandwidth, Frequency, Latency, LoadedLatency, Model, Routes, Source, Sourced};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::Range;

/// Makes an enum of the words of a model file.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word of a model file.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

words!(
    /// What serves an access.
    Target,
    /// The first level of cache.
    L1 = "l1",
    /// The second level.
    L2 = "l2",
    /// The third level.
    L3 = "l3",
    /// The fourth level.
    L4 = "l4",
    /// A core under the same last-level cache that holds the line unmodified.
    SameDomainClean = "same_domain_clean",
    /// A core under the same last-level cache that has modified it.
    SameDomainModified = "same_domain_modified",
    /// A core under the same last-level cache. The two cores exchange a line by atomic writes; the figure is for one
    /// direction.
    SameDomainExchange = "same_domain_exchange",
    /// A core under another last-level cache of the package that holds the line unmodified.
    SamePackageClean = "same_package_clean",
    /// A core under another last-level cache of the package that has modified it.
    SamePackageModified = "same_package_modified",
    /// The exchange with a core under another last-level cache of the package.
    SamePackageExchange = "same_package_exchange",
    /// A core of the nearest other package that holds the line unmodified.
    OtherPackageClean = "other_package_clean",
    /// A core of the nearest other package that has modified it.
    OtherPackageModified = "other_package_modified",
    /// The exchange with a core of the nearest other package.
    OtherPackageExchange = "other_package_exchange",
    /// The memory of the core's own node.
    LocalMemory = "local_memory",
    /// The memory of the nearest other node of the package.
    SamePackageMemory = "same_package_memory",
    /// The memory of the nearest node of another package.
    OtherPackageMemory = "other_package_memory",
    /// The farthest memory, if it is farther than the nearest node of another package.
    FarthestMemory = "farthest_memory",
);

impl Target {
    /// The position of a level of cache, from 0; `None` for other targets.
    pub fn cache_level(self) -> Option<usize> {
        let levels = [Self::L1, Self::L2, Self::L3, Self::L4];
        levels.iter().position(|&level| level == self)
    }

    /// Whether it is memory.
    pub fn is_memory(self) -> bool {
        matches!(
            self,
            Self::LocalMemory | Self::SamePackageMemory | Self::OtherPackageMemory | Self::FarthestMemory
        )
    }
}

words!(
    /// Which cores use a bandwidth.
    Cores,
    /// One core.
    One = "core",
    /// All cores of one node.
    Node = "node",
    /// All cores of one package, each with the memory that is the target for its own node.
    Package = "package",
    /// All cores of the machine, as above.
    Machine = "machine",
);

words!(
    /// Which accesses use a bandwidth, and which bytes are counted.
    Mix,
    /// Loads.
    Reads = "reads",
    /// `b = a`: the bytes loaded and stored, as STREAM counts them. The lines that stores fetch are additional traffic.
    Copy = "copy",
    /// The same, with the lines that stores fetch counted: two reads for each write, as with Intel's Memory Latency
    /// Checker.
    CopyTraffic = "copy_traffic",
    /// `a = b + s c`, counted as `Copy` counts.
    Triad = "triad",
    /// The same, with the lines that stores fetch counted: three reads for each write. For comparison with programs
    /// whose stores bypass the caches and fetch nothing.
    TriadTraffic = "triad_traffic",
    /// `a = b + c d`, Schönauer's triad. The bytes loaded and stored are counted.
    VectorTriad = "vector_triad",
);

/// What a microbenchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// From load to use, on an otherwise idle machine.
    Latency(Target),
    /// Bytes per second with as many accesses in flight as the cores can have.
    Bandwidth {
        /// The memory that serves.
        of: Target,
        /// The cores that access it.
        by: Cores,
        /// The kind of accesses.
        mix: Mix,
    },
    /// From load to use, for one core while the others use the memory.
    LoadedLatency {
        /// The memory that serves them all.
        of: Target,
        /// All cores.
        by: Cores,
        /// The accesses of the others: `Reads` or `CopyTraffic`.
        mix: Mix,
        /// The bandwidth that all cores use together, in 10^6 bytes a second.
        megabytes: u32,
    },
}

impl Measure {
    /// What serves the accesses.
    pub fn target(self) -> Target {
        match self {
            Self::Latency(of) | Self::Bandwidth { of, .. } | Self::LoadedLatency { of, .. } => of,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Latency(of) => format!("latency {}", of.word()),
            Self::Bandwidth { of, by, mix } => format!("bandwidth {} by {} {}", of.word(), by.word(), mix.word()),
            Self::LoadedLatency { of, by, mix, megabytes } => format!(
                "latency {} by {} {} at {:.1} GB/s",
                of.word(),
                by.word(),
                mix.word(),
                f64::from(*megabytes) / 1e3
            ),
        };
        f.write_str(&text.replace('_', " "))
    }
}

/// A figure as its source gives it.
#[derive(Clone, Debug)]
pub enum Figure {
    /// For a latency.
    Latency(Sourced<Latency>),
    /// For a bandwidth.
    Bandwidth(Sourced<Bandwidth>),
}

/// A published figure.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "Table")]
pub struct Published {
    /// What was measured.
    pub measure: Measure,
    /// The result.
    pub figure: Figure,
    /// The numbers of the model that come from this figure, such as `memory.latency`.
    pub calibrates: Vec<String>,
}

/// A figure as it is written in a model file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    of: Target,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Sourced<Latency>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Sourced<Bandwidth>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded: Option<Sourced<LoadedLatency>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Cores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mix: Option<Mix>,
    #[serde(default)]
    calibrates: Vec<String>,
}

impl Table {
    /// The figures of the table.
    fn figures(self) -> Result<Vec<Published>, &'static str> {
        let Table { of, calibrates, .. } = self;
        let (measure, figure) = match (self.latency, self.bandwidth, self.loaded, self.by, self.mix) {
            (Some(latency), None, None, None, None) => (Measure::Latency(of), Figure::Latency(latency)),
            (Some(_), None, None, _, _) => return Err("`by` and `mix` have no meaning for a latency: remove them"),
            (None, Some(_), None, _, _) | (None, None, Some(_), _, _) if !of.is_memory() => {
                return Err("`of` does not name a memory: a bandwidth or a load needs one, such as local_memory");
            }
            (None, Some(bandwidth), None, Some(by), Some(mix)) => {
                (Measure::Bandwidth { of, by, mix }, Figure::Bandwidth(bandwidth))
            }
            (None, Some(_), None, _, _) => {
                return Err("a bandwidth depends on the cores and their accesses: give `by` and `mix`");
            }
            (None, None, Some(_), Some(Cores::One), _) => {
                return Err("one core is not loaded by others: give `by` as node, package or machine");
            }
            (None, None, Some(loaded), Some(by), Some(mix @ (Mix::Reads | Mix::CopyTraffic))) => {
                return Ok(points(of, (by, mix), &loaded, &calibrates));
            }
            (None, None, Some(_), _, _) => {
                return Err("a latency under load depends on the cores: give `by`, and `mix` as reads or copy_traffic");
            }
            _ => return Err("give the figure as one of `latency`, `bandwidth` and `loaded`"),
        };
        Ok(vec![Published {
            measure,
            figure,
            calibrates,
        }])
    }
}

/// The points of a curve as figures.
fn points(
    of: Target,
    (by, mix): (Cores, Mix),
    loaded: &Sourced<LoadedLatency>,
    calibrates: &[String],
) -> Vec<Published> {
    let curve = loaded.value();
    let figure = |&[gb_per_s, nanoseconds]: &[f64; 2]| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a bandwidth is checked to be positive and at most 10^6 GB/s"
        )]
        let megabytes = (gb_per_s * 1e3).round() as u32;
        Published {
            measure: Measure::LoadedLatency { of, by, mix, megabytes },
            figure: Figure::Latency(loaded.with(Latency::Nanoseconds(nanoseconds))),
            calibrates: calibrates.to_vec(),
        }
    };
    curve.points().iter().map(figure).collect()
}

/// The figures of all tables of a model file.
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Published>, D::Error> {
    let tables = Vec::<Figures>::deserialize(deserializer)?;
    Ok(tables.into_iter().flat_map(|figures| figures.0).collect())
}

/// The figures of one table.
#[derive(Deserialize)]
#[serde(try_from = "Table")]
struct Figures(Vec<Published>);

impl TryFrom<Table> for Figures {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Self, Self::Error> {
        table.figures().map(Self)
    }
}

impl From<Published> for Table {
    fn from(published: Published) -> Self {
        let Published {
            measure,
            figure,
            calibrates,
        } = published;
        let mut table = Self {
            of: measure.target(),
            latency: None,
            bandwidth: None,
            loaded: None,
            by: None,
            mix: None,
            calibrates,
        };
        match (measure, figure) {
            (Measure::LoadedLatency { by, mix, megabytes, .. }, Figure::Latency(latency)) => {
                let (Latency::Nanoseconds(time) | Latency::Cycles(time)) = latency.value();
                let point = LoadedLatency::point(f64::from(megabytes) / 1e3, time);
                (table.loaded, table.by, table.mix) = (Some(latency.with(point)), Some(by), Some(mix));
            }
            (_, Figure::Latency(latency)) => table.latency = Some(latency),
            (measure, Figure::Bandwidth(bandwidth)) => {
                table.bandwidth = Some(bandwidth);
                if let Measure::Bandwidth { by, mix, .. } = measure {
                    (table.by, table.mix) = (Some(by), Some(mix));
                }
            }
        }
        table
    }
}

impl Published {
    /// The figure in seconds or bytes per second.
    pub fn value(&self, model: &Model) -> f64 {
        match &self.figure {
            Figure::Latency(latency) => {
                let clock = self.clock(model);
                latency.value().cycles(clock) / clock.0
            }
            Figure::Bandwidth(bandwidth) => bandwidth.value().0,
        }
    }

    /// The clock whose cycles a latency counts. The latency of a private cache is measured with one active core.
    fn clock(&self, model: &Model) -> Frequency {
        let of = self.measure.target();
        match of.cache_level() {
            Some(level) if level + 1 < model.caches.len() => model.clock(1),
            _ => model.frequency(),
        }
    }

    /// Its publication.
    pub fn source(&self) -> &Source {
        match &self.figure {
            Figure::Latency(latency) => latency.source(),
            Figure::Bandwidth(bandwidth) => bandwidth.source(),
        }
    }

    /// Its position in the model's text, in bytes.
    pub(super) fn span(&self) -> Range<usize> {
        match &self.figure {
            Figure::Latency(latency) => latency.span(),
            Figure::Bandwidth(bandwidth) => bandwidth.span(),
        }
    }

    /// The key and the reason, where the figure cannot be one of this machine.
    pub(super) fn fault(&self, model: &Model) -> Option<(&'static str, String)> {
        let of = self.measure.target();
        if self.source().is_assumed() {
            let why = "an assumption is not a published figure: name the publication, or remove the figure".to_owned();
            return Some(("source", why));
        }
        if !model.has(of) {
            let why = format!(
                "`{}` does not exist on a machine of this shape; remove the figure",
                of.word()
            );
            return Some(("of", why));
        }
        let unknown = self.calibrates.iter().find(|key| !model.has_figure(key))?;
        let why = format!("`{unknown}` is not a latency or bandwidth of this model: give keys such as memory.latency");
        Some(("calibrates", why))
    }
}

impl Model {
    /// The package of a node; on a machine with uniform memory the first package.
    fn package_of_node(&self, node: usize) -> usize {
        node * self.packages() / self.nodes()
    }

    /// The node whose memory is `target` for the cores of node `from`; `None` if there is none, or `target` is not a
    /// memory.
    pub fn target_node(&self, routes: &Routes, target: Target, from: usize) -> Option<usize> {
        let own = self.package_of_node(from);
        let nearest = |same_package: bool| {
            (0..self.nodes())
                .filter(|&node| node != from && (self.package_of_node(node) == own) == same_package)
                .min_by(|&a, &b| routes.latency(from, a).total_cmp(&routes.latency(from, b)))
        };
        match target {
            Target::LocalMemory => Some(from),
            Target::SamePackageMemory => nearest(true),
            Target::OtherPackageMemory => nearest(false),
            Target::FarthestMemory => {
                let near = routes.latency(from, nearest(false)?);
                (0..self.nodes())
                    .max_by(|&a, &b| routes.latency(from, a).total_cmp(&routes.latency(from, b)))
                    .filter(|&node| routes.latency(from, node) > near + 1e-9)
            }
            _ => None,
        }
    }

    /// The nearest core that is `target` for core 0; `None` if there is none, or `target` is not a core.
    pub fn target_core(&self, routes: &Routes, target: Target) -> Option<usize> {
        let fits = |core: usize| {
            let domain = self.domain_of_core(core) == self.domain_of_core(0);
            let package = self.package_of_core(core) == self.package_of_core(0);
            match target {
                Target::SameDomainClean | Target::SameDomainModified | Target::SameDomainExchange => domain,
                Target::SamePackageClean | Target::SamePackageModified | Target::SamePackageExchange => {
                    package && !domain
                }
                Target::OtherPackageClean | Target::OtherPackageModified | Target::OtherPackageExchange => !package,
                _ => false,
            }
        };
        let distance = |core: usize| routes.latency(self.node_of_core(0), self.node_of_core(core));
        (1..self.cores())
            .filter(|&core| fits(core))
            .min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
    }

    /// Whether the machine has `target`.
    pub fn has(&self, target: Target) -> bool {
        let routes = self.routes();
        target.cache_level().is_some_and(|level| level < self.caches.len())
            || self.target_node(&routes, target, 0).is_some()
            || self.target_core(&routes, target).is_some()
    }

    /// Whether `key` is a number of the model that determines a latency or a bandwidth.
    fn has_figure(&self, key: &str) -> bool {
        let listed =
            |list: &str, length: usize, name: &str| (0..length).any(|index| key == format!("{list}[{index}].{name}"));
        let coherence = Target::ALL
            .iter()
            .any(|target| key.strip_prefix("coherence.") == Some(target.word()));
        coherence
            || ["memory.latency", "memory.bandwidth"].contains(&key)
            || (key == "memory.write_cost" && self.memory.write_cost.is_some())
            || (key == "memory.queueing" && self.memory.queueing.is_some())
            || (key == "memory.front_side_bus" && self.memory.front_side_bus.is_some())
            || (["memory.domain_in", "memory.domain_out"].contains(&key) && self.memory.domain_in.is_some())
            || ["core.line_fill_buffers", "prefetch.in_flight"].contains(&key)
            || self
                .prefetch
                .optional()
                .any(|(name, _)| key.strip_prefix("prefetch.") == Some(name))
            || listed("cache", self.caches.len(), "latency")
            || listed("link", self.links.len(), "latency")
            || listed("link", self.links.len(), "bandwidth")
            || (0..self.links.len())
                .any(|index| key == format!("link[{index}].queueing") && self.links[index].queueing.is_some())
    }
}
