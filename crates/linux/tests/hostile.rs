//! Any input from the kernel, binaries and descriptions of machines is parsed or counts as missing.

#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled, spoiled_text};
use pinfold_linux::procfs::Procfs;
use pinfold_linux::symbols::Functions;
use pinfold_linux::topology::{Source, read};
use proptest::prelude::*;
use std::fs;
use std::sync::LazyLock;

const STAT: &str = "17 (a) (b c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21 22 23 24 25 26 27 28 \
                    29 30 31 32 33 34 35 6 37 38\n";
const STATUS: &str = "Name:\tx\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nPid:\t17\nPPid:\t1\n";
const TIMES: &str = "1500000000 20 3\n";
const CHILDREN: &str = "30 41 ";

/// A shared library with a few functions.
fn binary() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let (source, library) = (directory.path().join("a.c"), directory.path().join("a.so"));
    fs::write(&source, "int one(void) { return 1; } int two(void) { return one(); }").unwrap();
    let status = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-nostdlib", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(status.success());
    fs::read(library).unwrap()
}

/// A folder, in memory if there is such a file system. Otherwise files would take most of the time.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// A folder like /proc. Each input replaces the last.
static PROC: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let root = folder();
    fs::create_dir_all(root.path().join("7/task/17")).unwrap();
    fs::create_dir_all(root.path().join("17")).unwrap();
    root
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(INPUTS))]

    #[test]
    fn what_proc_says_is_understood_or_missing(text in spoiled_text(&[STAT, STATUS, TIMES, CHILDREN])) {
        let root = &*PROC;
        for file in ["7/task/17/stat", "7/task/17/schedstat", "7/task/17/children", "7/maps", "17/status"] {
            fs::write(root.path().join(file), &text).unwrap();
        }
        let procfs = Procfs::new(root.path());
        let _ = (procfs.stat(7, 17), procfs.cpu_time(7, 17), procfs.kinship(17));
        let _ = (procfs.children(7, 17), procfs.has_mapped(7, &["/libomp"]));
        prop_assert_eq!(procfs.threads(7), [17]);
    }
}

proptest! {
    // hwloc and the files that it reads take their time.
    #![proptest_config(ProptestConfig::with_cases(INPUTS / 8))]

    #[test]
    fn a_binary_is_understood_or_refused(bytes in spoiled(vec![binary()])) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let _ = Functions::read(file.path());
    }

    #[test]
    fn a_machine_s_description_is_understood_or_refused(
        text in spoiled_text(&["package:2 [numa] l3:2 core:4 pu:2", "node:4 core:2 1"]),
    ) {
        // A description of more than a million PUs is valid, and takes hwloc long.
        let product = text.split(|byte: char| !byte.is_ascii_digit()).filter_map(|number| number.parse::<f64>().ok());
        prop_assume!(product.product::<f64>() < 10_000.0 && !text.contains('\0'));
        if let Ok(topology) = read(&Source::Synthetic(text)) {
            prop_assert!(!topology.allowed_pus().is_empty());
        }
    }

    #[test]
    fn a_copy_of_sys_is_understood_or_refused(list in spoiled_text(&["0-3", "0,2", "0-1,3\n"]), which in 0usize..3) {
        let root = folder();
        let cpus = root.path().join("sys/devices/system/cpu");
        for cpu in 0..4 {
            let shape = cpus.join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&shape).unwrap();
            fs::write(shape.join("physical_package_id"), "0\n").unwrap();
            fs::write(shape.join("core_id"), format!("{cpu}\n")).unwrap();
            fs::write(shape.join("thread_siblings"), format!("{:x}\n", 1 << cpu)).unwrap();
            fs::write(shape.join("core_siblings"), "f\n").unwrap();
        }
        for file in ["online", "possible", "present"] {
            fs::write(cpus.join(file), "0-3\n").unwrap();
        }
        let spoilt = ["online", "possible", "cpu1/topology/thread_siblings"][which];
        fs::write(cpus.join(spoilt), list).unwrap();
        let _ = read(&Source::FsRoot(root.path().to_owned()));
    }
}
