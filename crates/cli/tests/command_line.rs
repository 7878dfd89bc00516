//! What a newcomer types, and what is answered.

mod common;

use common::pinfold;
use std::path::Path;

/// The lines, without the breaks that make them fit a terminal.
fn text(bytes: &[u8]) -> String {
    common::unwrapped(&String::from_utf8_lossy(bytes))
}

/// What a command that fails with this status says.
fn refused(arguments: &[&str], status: i32) -> String {
    let output = pinfold(arguments);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    text(&output.stderr)
}

fn written(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_version_is_that_of_pinfold_for_every_command() {
    let version = format!("pinfold {}\n", env!("CARGO_PKG_VERSION"));
    for arguments in [
        &["-V"] as &[&str],
        &["--version"],
        &["topo", "-V"],
        &["trace", "info", "--version"],
    ] {
        assert_eq!(text(&pinfold(arguments).stdout), version, "{arguments:?}");
    }
}

#[test]
fn the_database_is_named_before_or_after_what_is_asked_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent.db");
    let absent = absent.to_str().unwrap();
    for arguments in [["db", "--db", absent, "list"], ["db", "list", "--db", absent]] {
        let said = refused(&arguments, 125);
        assert!(
            said.contains(&format!("no behaviour database `{absent}` yet")),
            "{said}"
        );
    }
}

#[test]
fn none_is_no_database() {
    let said = refused(&["db", "--db", "none", "list"], 125);
    assert!(said.contains("`none` names no behaviour database"), "{said}");
}

#[test]
fn calibrate_without_a_mode_names_both() {
    let said = refused(&["calibrate"], 125);
    assert!(said.contains("<--model|--thresholds>"), "{said}");
}

#[test]
fn an_error_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let broken = written(folder.path(), "broken.json", "{");
    let script = written(folder.path(), "script.toml", "threads = \"x\"\n");
    let database = folder.path().join("behaviour.db");
    let database = database.to_str().unwrap();
    let rules = [
        "run",
        "--policy",
        "hints:rules",
        "--db",
        database,
        "--rules",
        &broken,
        "--",
        "true",
    ];
    let scripted = ["run", "--machine", &format!("scripted:{script}")];
    for (arguments, once) in [
        (&["trace", "info", "nosuch"] as &[&str], "No such file"),
        (&rules, "EOF while parsing"),
        (&scripted, "invalid type"),
    ] {
        let said = refused(arguments, 125);
        assert_eq!(said.matches(once).count(), 1, "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_program_that_is_not_there_has_status_127_under_every_policy() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("behaviour.db");
    let database = database.to_str().unwrap();
    for program in ["nosuch", "./nosuch"] {
        for policy in ["none", "autopin", "hints"] {
            let said = refused(&["run", "--policy", policy, "--db", database, "--", program], 127);
            assert!(said.contains(&format!("command not found: {program}")), "{said}");
        }
        let said = refused(&["run", "--metric", "uprobe:work", "--", program], 127);
        assert!(said.contains(&format!("command not found: {program}")), "{said}");
    }
}

#[test]
fn a_word_is_no_misspelling_of_an_event_of_another_processor() {
    let said = refused(&["run", "--metric", "nothing", "--", "true"], 125);
    assert!(said.contains("there is no metric `nothing`"), "{said}");
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn the_help_of_a_machine_says_that_it_takes_a_model() {
    for command in ["run", "topo", "placements", "calibrate"] {
        let help = text(&pinfold(&[command, "--help"]).stdout);
        for words in ["pinfold machines", "FILE.toml"] {
            assert!(help.contains(words), "{command}: {help}");
        }
    }
}

#[test]
fn the_help_of_journals_is_about_no_single_command() {
    for command in ["run", "daemon", "top", "reset"] {
        let help = text(&pinfold(&[command, "--help"]).stdout);
        let help: Vec<&str> = help.split_whitespace().collect();
        let help = help.join(" ");
        assert!(help.contains("The directory of journals"), "{command}: {help}");
        assert!(!help.contains("$`"), "{command}: {help}");
    }
}

#[test]
fn a_negative_number_is_refused_by_the_option_with_what_may_be() {
    for (arguments, range) in [
        (&["run", "--threads", "-1", "--", "true"] as &[&str], "from 1 to 65536"),
        (&["run", "--threads", "4000000000", "--", "true"], "from 1 to 65536"),
        (&["run", "--candidates", "-1", "--", "true"], "from 1 to 65536"),
        (&["run", "--probe", "-1", "--", "true"], "not a time"),
        (&["run", "--search-again", "-1", "--", "true"], "from 0 to below 100"),
        (&["run", "--seed", "-1", "--", "true"], "from 0 to 18446744073709551615"),
        (&["run", "--schedule", "-1", "--", "true"], "is not a number"),
        (&["placements", "--threads", "-1"], "from 1 to 65536"),
        (&["placements", "--threads", "4", "--limit", "-1"], "from 0 to"),
        (&["pages", "-1"], "from 1 to 2147483647"),
        (&["record", "--from", "-1", "--", "true"], "write 2000000"),
        (&["daemon", "-p", "-1"], "the number of a process"),
        (&["daemon", "--threshold", "-1"], "a rate above zero"),
        (&["top", "--width", "-1"], "from 40 to 400"),
        (&["trace", "misses", "nosuch", "--thread", "-1"], "from 0 to"),
        (&["sweep", "--jobs", "-1", "nosuch"], "from 1 to 4096"),
    ] {
        let output = pinfold(arguments);
        let error = text(&output.stderr);
        assert!(
            !output.status.success() && error.contains(range),
            "{arguments:?}: {error}"
        );
        assert!(!error.contains("unexpected argument"), "{arguments:?}: {error}");
    }
}

#[test]
fn the_help_of_every_command_is_in_plain_words() {
    let all = text(&pinfold(&["--help"]).stdout);
    let commands = all
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = commands
        .filter(|word| !word.is_empty() && *word != "learn" && *word != "help")
        .collect();
    assert!(commands.len() > 10, "{all}");
    for command in commands {
        let output = pinfold(&[command, "--help"]);
        let words: Vec<String> = text(&output.stdout).split_whitespace().map(str::to_lowercase).collect();
        let help = words.join(" ");
        for unclear in [
            "so many",
            "so often",
            "anew",
            "is told",
            "are told",
            "made undone",
            "make undone",
            "$`",
        ] {
            assert!(!help.contains(unclear), "{command}: `{unclear}` in {help}");
        }
    }
}

#[test]
fn a_machine_for_metrics_that_do_not_depend_on_one_is_refused() {
    let output = pinfold(&["trace", "metrics", "nosuch", "--machine", "e5-4650x4"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("has no effect without --paper"));
}
