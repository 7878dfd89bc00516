//! The last-level caches of captured and simulated machines as the scheduler sees them.

use pinfold_core::PuSet;
use pinfold_linux::topology::{self, Source};
use pinfold_scx::{Domains, StartError, other_scheduler, possible_cpus};
use std::fs;

fn domains(description: &str) -> Result<Domains, StartError> {
    Domains::new(&topology::read(&Source::Synthetic(description.to_owned())).unwrap())
}

fn set(list: &str) -> PuSet {
    list.parse().unwrap()
}

#[test]
fn each_last_level_cache_is_a_domain_with_all_its_siblings() {
    let domains = domains("package:2 l3:2 core:4 pu:2").unwrap();
    assert_eq!(domains.len(), 4);
    assert_eq!(domains.pus(1), Some(&set("8-15")));
    assert_eq!(domains.pus(4), None);
    let of = |pu: u32| domains.of(pinfold_core::PuId(pu));
    assert_eq!((of(0), of(15), of(16), of(32)), (Some(0), Some(1), Some(2), None));
}

#[test]
fn the_bits_of_a_set_are_the_domains_with_any_of_its_cpus() {
    let domains = domains("package:2 l3:2 core:4 pu:2").unwrap();
    assert_eq!(domains.bits(&set("3,9,31")), 0b1011);
    assert_eq!(domains.bits(&PuSet::new()), 0);
}

#[test]
fn a_machine_without_caches_has_its_packages() {
    let domains = domains("package:4 core:2 pu:1").unwrap();
    assert_eq!(domains.len(), 4);
    assert_eq!(domains.pus(3), Some(&set("6-7")));
}

#[test]
fn a_machine_with_more_caches_than_the_scheduler_has_queues_is_refused() {
    let error = domains("package:65 l3:1 core:1 pu:1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the machine has 65 last-level caches, and the scheduler is built for 64"
    );
    let error = domains("package:1 l3:1 core:600 pu:2").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the machine has 1200 CPUs, and the scheduler is built for 1024"
    );
}

#[test]
fn cpus_that_can_be_added_count() {
    let sys = tempfile::tempdir().unwrap();
    let folder = sys.path().join("devices/system/cpu");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("possible"), "0-127\n").unwrap();
    assert_eq!(possible_cpus(sys.path()), Ok(128));
    std::fs::write(folder.join("possible"), "0-4095\n").unwrap();
    assert!(matches!(
        possible_cpus(sys.path()),
        Err(StartError::TooLarge { found: 4096, .. })
    ));
}

#[test]
fn another_scheduler_is_named_and_a_kernel_without_them_is_an_error() {
    let sys = tempfile::tempdir().unwrap();
    assert_eq!(other_scheduler(sys.path()), Err(StartError::NoKernelSupport));
    let folder = sys.path().join("kernel/sched_ext");
    fs::create_dir_all(folder.join("root")).unwrap();
    fs::write(folder.join("state"), "disabled\n").unwrap();
    assert_eq!(other_scheduler(sys.path()), Ok(None));
    fs::write(folder.join("state"), "enabled\n").unwrap();
    fs::write(folder.join("root/ops"), "rusty_1.0\n").unwrap();
    assert_eq!(other_scheduler(sys.path()), Ok(Some("rusty_1.0".to_owned())));
}
