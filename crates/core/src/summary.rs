//! A topology in one line for people, and sizes in binary units.

use crate::{ObjectKind, PuId, PuSet, Topology};

/// The machine in one line: its name, and the number of objects of each kind from the outermost inwards. The allowed
/// objects are listed where some are not allowed. For example `AMD Opteron 6164 HE: 2 packages, 4 NUMA nodes, 4 L3
/// caches of 5 MiB, 24 cores, 24 PUs (22 allowed: 0-21)`.
pub fn summary(topology: &Topology) -> String {
    let count = |kind| topology.objects_of(kind).count();
    let mut parts = vec![];
    for (kind, name) in [(ObjectKind::Package, "package"), (ObjectKind::Die, "die")] {
        if count(kind) > 0 {
            parts.push(counted(count(kind), name));
        }
    }

    if !topology.nodes().is_empty() {
        let allowed: PuSet = topology.allowed_nodes().iter().map(|node| PuId(node.0)).collect();
        let number = topology.nodes().len();
        parts.push(counted(number, "NUMA node") + &restriction(number, &allowed));
    }

    parts.extend(last_level_caches(topology));

    let cores = count(ObjectKind::Core);
    if cores > 0 {
        let kinds = match topology.core_kinds().len() {
            0 | 1 => String::new(),
            kinds => format!(" of {kinds} kinds"),
        };
        parts.push(counted(cores, "core") + &kinds);
    }

    let pus = count(ObjectKind::Pu);
    parts.push(counted(pus, "PU") + &restriction(pus, topology.allowed_pus()));
    format!("{}: {}", topology.name(), parts.join(", "))
}

/// The allowed ones, where not all are allowed. A list of nodes has the form of a CPU list.
fn restriction(number: usize, allowed: &PuSet) -> String {
    if allowed.len() < number {
        format!(" ({} allowed: {allowed})", allowed.len())
    } else {
        String::new()
    }
}

/// The last-level caches; `None` if the machine reports no caches or they are of several levels.
fn last_level_caches(topology: &Topology) -> Option<String> {
    let caches: Vec<_> = topology
        .llc_domains()
        .iter()
        .filter_map(|&domain| topology.object(domain).cache)
        .collect();
    let level = caches.first()?.level;
    if caches.iter().any(|cache| cache.level != level) {
        return None;
    }
    let text = counted(caches.len(), &format!("L{level} cache"));
    let sizes: Option<Vec<u64>> = caches.iter().map(|cache| cache.size).collect();
    let Some(sizes) = sizes else { return Some(text) };
    let (smallest, largest) = (sizes.iter().min()?, sizes.iter().max()?);
    Some(if smallest == largest {
        format!("{text} of {}", size_text(*largest))
    } else {
        format!("{text} of {} to {}", size_text(*smallest), size_text(*largest))
    })
}

/// A number and its noun, in the plural unless the number is one.
fn counted(number: usize, name: &str) -> String {
    match number {
        1 => format!("1 {name}"),
        _ => format!("{number} {name}s"),
    }
}

/// A size in bytes with a binary unit: whole if that is short (`1280 KiB`), else with one decimal (`6.7 GiB`).
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    /// Up to here, whole numbers are as easy to read as a decimal of the next unit.
    const LONGEST: u64 = 9999;
    let mut whole = bytes;
    let mut unit = 0;
    while whole != 0 && whole.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        whole /= 1024;
        unit += 1;
    }
    if whole <= LONGEST || unit + 1 == UNITS.len() {
        return format!("{whole} {}", UNITS[unit]);
    }
    let mut value = whole as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let rounded = format!("{value:.1}");
    format!("{} {}", rounded.strip_suffix(".0").unwrap_or(&rounded), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, CacheType, CoreKind, NodeId, NumaNode, TopologyBuilder};

    fn l3(size: u64) -> Cache {
        Cache {
            level: 3,
            cache_type: CacheType::Unified,
            size: Some(size),
            line_size: None,
            ways: None,
        }
    }

    /// Packages with one node each, one L3 of each size in it, and two cores of one PU under each.
    fn machine(packages: u32, l3_sizes: &[u64]) -> TopologyBuilder {
        let mut builder = TopologyBuilder::new("Ox");
        let root = builder.root();
        let mut pu = 0;
        for number in 0..packages {
            let package = builder.object(root, ObjectKind::Package, Some(number));
            builder.node(NumaNode {
                id: NodeId(number),
                attached_to: package,
                pus: PuSet::new(),
                memory: None,
                subtype: None,
            });
            for &size in l3_sizes {
                let cache = builder.cache(package, l3(size));
                for _ in 0..2 {
                    let core = builder.object(cache, ObjectKind::Core, Some(pu));
                    builder.pu(core, PuId(pu));
                    pu += 1;
                }
            }
        }
        builder
    }

    #[test]
    fn the_summary_counts_from_the_outside_in() {
        let topology = machine(2, &[5 << 20, 5 << 20]).build_all().unwrap();
        assert_eq!(
            summary(&topology),
            "Ox: 2 packages, 2 NUMA nodes, 4 L3 caches of 5 MiB, 8 cores, 8 PUs"
        );
    }

    #[test]
    fn one_of_a_kind_is_in_the_singular_and_unlike_caches_show_their_range() {
        let topology = machine(1, &[1 << 20, 2 << 20]).build_all().unwrap();
        assert_eq!(
            summary(&topology),
            "Ox: 1 package, 1 NUMA node, 2 L3 caches of 1 MiB to 2 MiB, 4 cores, 4 PUs"
        );
    }

    #[test]
    fn a_summary_has_the_allowed_pus_and_the_kinds_of_cores() {
        let mut builder = machine(2, &[1 << 20]);
        for pus in ["0-1", "2-3"] {
            builder.core_kind(CoreKind {
                pus: pus.parse().unwrap(),
                efficiency: None,
                info: vec![],
            });
        }
        let topology = builder.build(&"1-2".parse().unwrap(), &[NodeId(1)]).unwrap();
        assert_eq!(
            summary(&topology),
            "Ox: 2 packages, 2 NUMA nodes (1 allowed: 1), 2 L3 caches of 1 MiB, 4 cores of 2 kinds, \
             4 PUs (2 allowed: 1-2)"
        );
    }

    #[test]
    fn sizes_are_whole_where_that_is_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1280 << 10, "1280 KiB"),
            (5 << 20, "5 MiB"),
            (99_840 << 10, "97.5 MiB"),
            (7_206_408_192, "6.7 GiB"),
            (2 << 40, "2 TiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }
}
