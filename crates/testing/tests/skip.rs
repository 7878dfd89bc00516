//! A test that cannot run is reported, although libtest hides the output of passing tests.

use pinfold_testing::skip;
use std::fs;
use std::process::Command;

/// Set for the process in which the test below is skipped.
const INNER: &str = "PINFOLD_TEST_SKIPS";

#[test]
fn a_skipped_test_is_reported_with_its_name_and_reason() {
    if std::env::var_os(INNER).is_some() {
        skip("no clang");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skipped");
    let name = "a_skipped_test_is_reported_with_its_name_and_reason";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads", "2"])
        .env(INNER, "1")
        .env("PINFOLD_SKIPPED", &list)
        .output()
        .unwrap();
    let line = format!("skipped: {name}: no clang\n");
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), line);
    assert_eq!(fs::read_to_string(list).unwrap(), line);
}
