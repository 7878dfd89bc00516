//! The topology of this machine without hwloc: packages, dies, caches, cores and PUs from `/sys/devices/system/cpu`. It
//! is used if hwloc fails, and has no NUMA nodes.
//!
//! Each package, die, cache and core is a set of PUs. The largest sets are inserted first. A set that cuts across an
//! inserted one is left out, as hwloc does.

use super::kernel::{list, numbered, text};
use super::name;
use pinfold_core::{
    Cache, CacheType, ObjectId, ObjectKind, PuId, PuSet, Topology, TopologyBuilder, TopologyError, digits,
};
use std::cmp::Reverse;
use std::path::Path;

/// A set of PUs that share a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    kind: ObjectKind,
    os_index: Option<u32>,
    cache: Option<Cache>,
    pus: PuSet,
}

/// The topology of the file system at `root`. The PUs in `allowed` may be used.
pub(super) fn read(root: &Path, allowed: &PuSet) -> Result<Topology, TopologyError> {
    let folder = root.join("sys/devices/system/cpu");
    // The kernel lets a thread run only on online CPUs.
    let online = list(&folder.join("online")).unwrap_or_else(|| allowed.clone());
    let mut found = vec![];
    for (pu, folder) in numbered(&folder, "cpu")
        .into_iter()
        .filter(|(pu, _)| online.contains(PuId(*pu)))
    {
        for one in shared(&folder) {
            let pus = one.pus.intersection(&online);
            let one = Found { pus, ..one };
            if one.pus.contains(PuId(pu)) && !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found.sort_by_key(|one| (Reverse(one.pus.len()), rank(one), one.pus.first()));
    let mut builder = TopologyBuilder::new(name::of_processor(root).unwrap_or_else(|| "this machine".to_owned()));
    let mut inside: Vec<(ObjectId, PuSet)> = vec![(builder.root(), online.clone())];
    for one in found {
        let meets = |(_, pus): &&(ObjectId, PuSet)| !one.pus.intersection(pus).is_empty();
        // The last set that it meets is the smallest.
        let Some((parent, around)) = inside.iter().rev().find(meets) else {
            continue;
        };
        if one.pus.is_subset(around) {
            let id = match one.cache {
                Some(cache) => builder.cache(*parent, cache),
                None => builder.object(*parent, one.kind, one.os_index),
            };
            inside.push((id, one.pus));
        }
    }
    for pu in online.iter() {
        let around = inside.iter().rev().find(|(_, pus)| pus.contains(pu));
        let parent = around.map_or(builder.root(), |(parent, _)| *parent);
        builder.pu(parent, pu);
    }
    builder.build(allowed, &[])
}

/// The resources that a CPU shares with others.
fn shared(cpu: &Path) -> Vec<Found> {
    let topology = cpu.join("topology");
    let number = |name: &str| digits::decimal(&text(&topology.join(name))?);
    let lists = |names: [&str; 2]| names.into_iter().find_map(|name| list(&topology.join(name)));
    let object = |kind, os_index, pus: Option<PuSet>| {
        pus.map(|pus| Found {
            kind,
            os_index,
            cache: None,
            pus,
        })
    };
    // The second names are those of Linux before 5.3.
    let objects = [
        object(
            ObjectKind::Package,
            number("physical_package_id"),
            lists(["package_cpus_list", "core_siblings_list"]),
        ),
        object(ObjectKind::Die, number("die_id"), list(&topology.join("die_cpus_list"))),
        object(
            ObjectKind::Core,
            number("core_id"),
            lists(["core_cpus_list", "thread_siblings_list"]),
        ),
    ];
    let mut found: Vec<Found> = objects.into_iter().flatten().collect();
    // hwloc also drops a die that is its whole package.
    let package = found
        .iter()
        .find(|one| one.kind == ObjectKind::Package)
        .map(|one| one.pus.clone());
    found.retain(|one| one.kind != ObjectKind::Die || Some(&one.pus) != package.as_ref());
    found.extend(
        numbered(&cpu.join("cache"), "index")
            .into_iter()
            .filter_map(|(_, folder)| cache(&folder)),
    );
    found
}

/// A data cache.
fn cache(folder: &Path) -> Option<Found> {
    let number = |name: &str| digits::decimal(&text(&folder.join(name))?).filter(|&number: &u32| number > 0);
    let cache_type = match text(&folder.join("type"))?.as_str() {
        "Data" => CacheType::Data,
        "Unified" => CacheType::Unified,
        _ => return None,
    };
    let kibibytes = text(&folder.join("size"));
    let kibibytes = kibibytes.and_then(|size| digits::decimal::<u64>(size.strip_suffix('K')?));
    Some(Found {
        kind: ObjectKind::Cache,
        os_index: None,
        cache: Some(Cache {
            level: number("level")?,
            cache_type,
            size: kibibytes.and_then(|size| size.checked_mul(1024)),
            line_size: number("coherency_line_size"),
            ways: number("ways_of_associativity"),
        }),
        pus: list(&folder.join("shared_cpu_list"))?,
    })
}

/// The order of objects with the same PUs, the outermost first.
fn rank(one: &Found) -> (ObjectKind, Reverse<u32>) {
    (one.kind, Reverse(one.cache.map_or(0, |cache| cache.level)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join("sys/devices/system/cpu").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        root
    }

    fn sets(topology: &Topology, kind: ObjectKind) -> Vec<String> {
        topology
            .objects_of(kind)
            .map(|(_, object)| object.pus.to_string())
            .collect()
    }

    #[test]
    fn packages_caches_and_cores_are_as_the_kernel_lists_them() {
        let mut files: Vec<(String, String)> = vec![("online".to_owned(), "0-7".to_owned())];
        for cpu in 0..8 {
            let (package, core) = (cpu / 4 * 4, cpu / 2 * 2);
            let mut add = |file: &str, text: String| files.push((format!("cpu{cpu}/{file}"), text));
            add("topology/physical_package_id", (package / 4).to_string());
            add("topology/package_cpus_list", format!("{package}-{}", package + 3));
            add("topology/die_cpus_list", format!("{package}-{}", package + 3));
            add("topology/core_id", (core / 2).to_string());
            add("topology/thread_siblings_list", format!("{core}-{}", core + 1));
            for (index, level, kind, first, last) in [
                (0, 1, "Data", core, core + 1),
                (1, 1, "Instruction", core, core + 1),
                (2, 3, "Unified", package, package + 3),
            ] {
                add(&format!("cache/index{index}/level"), level.to_string());
                add(&format!("cache/index{index}/type"), kind.to_owned());
                add(&format!("cache/index{index}/size"), "32K".to_owned());
                add(
                    &format!("cache/index{index}/shared_cpu_list"),
                    format!("{first}-{last}"),
                );
            }
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str()))
            .collect();
        let root = tree(&files);
        let topology = read(root.path(), &"0-5".parse().unwrap()).unwrap();
        assert_eq!(sets(&topology, ObjectKind::Package), ["0-3", "4-7"]);
        assert_eq!(sets(&topology, ObjectKind::Die), [""; 0]);
        assert_eq!(sets(&topology, ObjectKind::Core), ["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(topology.objects_of(ObjectKind::Cache).count(), 6);
        let domains = topology.llc_domains();
        let l3 = topology.object(domains[0]);
        assert_eq!((domains.len(), l3.cache.unwrap().size), (2, Some(32 << 10)));
        assert_eq!(topology.object(l3.parent.unwrap()).kind, ObjectKind::Package);
        assert_eq!(topology.allowed_pus().to_string(), "0-5");
        assert_eq!((topology.nodes(), topology.allowed_nodes()), (&[][..], &[][..]));
    }

    #[test]
    fn a_set_that_cuts_across_another_is_left_out() {
        let root = tree(&[
            ("online", "0-3"),
            ("cpu0/topology/package_cpus_list", "0-1"),
            ("cpu0/topology/core_cpus_list", "0"),
            ("cpu1/topology/core_cpus_list", "1-2"),
            ("cpu2/topology/package_cpus_list", "2-3"),
            ("cpu3/topology/core_cpus_list", "0"),
        ]);
        let topology = read(root.path(), &"0-3".parse().unwrap()).unwrap();
        assert_eq!(sets(&topology, ObjectKind::Package), ["0-1", "2-3"]);
        assert_eq!(sets(&topology, ObjectKind::Core), ["0"]);
        assert_eq!(sets(&topology, ObjectKind::Pu), ["0", "1", "2", "3"]);
    }

    #[test]
    fn without_any_file_the_allowed_cpus_are_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let topology = read(root.path(), &"2-3".parse().unwrap()).unwrap();
        assert_eq!(topology.object(topology.root()).pus.to_string(), "2-3");
    }
}
