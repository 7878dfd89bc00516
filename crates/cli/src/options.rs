//! Options of one name mean one thing in every command.

use clap::{Arg, ColorChoice, Command};
use std::collections::BTreeMap;

/// Names that are an option with a value in some commands and one without in others, and why.
const TWO_FORMS: [(&str, &str); 2] = [
    (
        "json",
        "prints JSON where the command prints its result, and writes a file beside other output",
    ),
    ("thresholds", "`calibrate` measures the file that the others read"),
];

/// What each short option of numactl(8) is called there. `-p` (--preferred) and `-w` (--weighted-interleave) are others'
/// here: `kill -p`, `perf -p` and hyperfine's `-w` are better known.
const NUMACTL: [(char, &str); 6] = [
    ('C', "physcpubind"),
    ('N', "cpunodebind"),
    ('c', "cpunodebind"),
    ('i', "interleave"),
    ('l', "localalloc"),
    ('m', "membind"),
];

/// What a value is, by its name in the help: files and folders of all kinds are the same to a user who gives one.
fn kind(argument: &Arg) -> Option<&str> {
    if !argument.get_action().takes_values() {
        return None;
    }
    let name = argument.get_value_names().and_then(|names| names.first())?.as_str();
    let is_file = ["FILE", "DATA", "FOLDER", "DIR", "PATH"]
        .iter()
        .any(|start| name.starts_with(start));
    Some(if is_file { "FILE" } else { name })
}

/// All options of all commands, with the command's name.
fn options() -> Vec<(String, Arg)> {
    fn collect(command: &Command, found: &mut Vec<(String, Arg)>) {
        let own = command
            .get_arguments()
            .filter(|argument| !argument.is_positional() && !argument.is_hide_set());
        let name = command.get_bin_name().unwrap_or(command.get_name());
        found.extend(own.map(|argument| (name.to_owned(), argument.clone())));
        let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        shown.for_each(|inner| collect(inner, found));
    }
    let mut all = crate::definition(ColorChoice::Never);
    all.build();
    let mut found = vec![];
    collect(&all, &mut found);
    found
}

#[test]
fn a_long_name_has_the_same_letter_and_the_same_kind_of_value_everywhere() {
    let mut known: BTreeMap<String, (String, Arg)> = BTreeMap::new();
    for (command, argument) in options() {
        let Some(long) = argument.get_long() else { continue };
        let (first, before) = known
            .entry(long.to_owned())
            .or_insert_with(|| (command.clone(), argument.clone()));
        let place = format!("--{long} of `{command}` and of `{first}`");
        let letters = [before.get_short(), argument.get_short()];
        assert_eq!(letters[0], letters[1], "{place}");
        if TWO_FORMS.iter().all(|(name, _)| *name != long) {
            assert_eq!(kind(before), kind(&argument), "{place}");
        }
    }
}

#[test]
fn a_letter_is_the_same_option_everywhere() {
    let mut known: BTreeMap<char, String> = BTreeMap::new();
    for (command, argument) in options() {
        let letters = argument.get_short_and_visible_aliases().unwrap_or_default();
        for letter in letters {
            let long = argument.get_long().unwrap_or_default();
            let before = known.entry(letter).or_insert_with(|| long.to_owned());
            assert_eq!(before, long, "-{letter} of `{command}`");
        }
    }
}

#[test]
fn letters_of_numactl_are_its_options_or_nothing() {
    for (command, argument) in options() {
        let mut letters = argument.get_all_short_aliases().unwrap_or_default();
        letters.extend(argument.get_short());
        for letter in letters {
            let of_numactl = NUMACTL.iter().find(|(known, _)| *known == letter);
            if let Some((_, long)) = of_numactl {
                assert_eq!(argument.get_long(), Some(*long), "-{letter} of `{command}`");
            }
        }
    }
}

#[test]
fn run_takes_every_letter_of_numactl() {
    let of_run: Vec<Arg> = options()
        .into_iter()
        .filter(|(name, _)| name == "pinfold run")
        .map(|(_, one)| one)
        .collect();
    for (letter, long) in NUMACTL {
        let takes = |one: &Arg| {
            let aliases = one.get_all_short_aliases().unwrap_or_default();
            one.get_long() == Some(long) && (one.get_short() == Some(letter) || aliases.contains(&letter))
        };
        assert!(of_run.iter().any(takes), "-{letter}");
    }
}
