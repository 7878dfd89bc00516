//! The sections of a manual page that `--help` does not have: environment, files, exit status and related pages.
//!
//! A variable or a file belongs to the page of a command that has the option which it stands for.

use clap::{Arg, Command};
use std::fmt::Write as _;

/// A name with its description.
type Entry<'a> = (String, String);

/// A variable or a file, the option of the commands that use it, and what it is.
type OfOption = (&'static str, &'static str, &'static str);

/// Variables that are no value of an option.
const VARIABLES: [OfOption; 8] = [
    (
        "XDG_STATE_HOME",
        "db",
        "The behaviour database is below this folder for users other than root; ~/.local/state if it is not set.",
    ),
    (
        "XDG_RUNTIME_DIR",
        "journals",
        "Journals are below this folder for users other than root.",
    ),
    (
        "SCHEDULE",
        "schedule",
        "A candidate, if --schedule is not given, as autopin reads it.",
    ),
    (
        "OMP_PROC_BIND",
        "override",
        "The program binds its own threads, and they are only measured, unless --override is given.",
    ),
    ("OMP_PLACES", "override", "The same."),
    ("GOMP_CPU_AFFINITY", "override", "The same."),
    ("KMP_AFFINITY", "override", "The same."),
    (
        "NO_COLOR",
        "color",
        "No colours, if it is set and not empty and --color is not given.",
    ),
];

/// Files that commands use if no option names others.
const FILES: [OfOption; 6] = [
    (
        "/etc/pinfold/daemon.toml",
        "check-config",
        "The configuration of the daemon.",
    ),
    ("/var/lib/pinfold/behaviour.db", "db", "The behaviour database of root."),
    (
        "$XDG_STATE_HOME/pinfold/behaviour.db",
        "db",
        "The behaviour database of another user.",
    ),
    (
        "/run/pinfold",
        "journals",
        "Root's journals: changes of the machine that `pinfold reset` can roll back.",
    ),
    ("$XDG_RUNTIME_DIR/pinfold", "journals", "The journals of another user."),
    (
        "/dev/shm/pinfold-claims-*",
        "claims",
        "The CPUs that runs of pinfold have pinned their programs to.",
    ),
];

/// Pages of other programs, by the name of the command.
const OTHERS: [(&str, &[&str]); 12] = [
    ("pinfold", &["numactl(8)", "taskset(1)", "perf(1)", "hwloc(7)"]),
    (
        "run",
        &[
            "pinfold-compare(1)",
            "pinfold-explain(1)",
            "pinfold-report(1)",
            "numactl(8)",
            "taskset(1)",
            "sched(7)",
        ],
    ),
    ("compare", &["pinfold-run(1)", "hyperfine(1)"]),
    (
        "topo",
        &[
            "pinfold-machines(1)",
            "pinfold-placements(1)",
            "lstopo(1)",
            "numactl(8)",
        ],
    ),
    ("placements", &["pinfold-topo(1)", "hwloc-calc(1)", "taskset(1)"]),
    (
        "pages",
        &["pinfold-run(1)", "migratepages(8)", "numa_maps(5)", "numastat(8)"],
    ),
    ("events", &["pinfold-run(1)", "perf-list(1)", "perf_event_open(2)"]),
    ("explain", &["pinfold-run(1)", "pinfold-report(1)"]),
    (
        "record",
        &["pinfold-trace(1)", "pinfold-run(1)", "pinfold-sweep(1)", "qemu(1)"],
    ),
    (
        "daemon",
        &["pinfold-top(1)", "pinfold-reset(1)", "systemd.exec(5)", "cgroups(7)"],
    ),
    ("top", &["pinfold-daemon(1)", "top(1)"]),
    ("reset", &["pinfold-run(1)", "pinfold-daemon(1)", "taskset(1)"]),
];

/// The exit status of any command.
const FAILED: (&str, &str) = ("125", "pinfold itself failed, or the options are wrong.");

/// The exit status of a command that starts a program, as with env(1) and timeout(1).
const OF_PROGRAMS: [(&str, &str); 2] = [
    ("126", "The program could not be executed."),
    ("127", "The program was not found."),
];

/// All of them, as roff.
pub(super) fn text(command: &Command) -> String {
    let mut text = String::new();
    list(&mut text, "ENVIRONMENT", &environment(command));
    list(&mut text, "FILES", &of_options(command, &FILES));
    list(&mut text, "EXIT STATUS", &exit_status(command));
    let _ = writeln!(
        text,
        ".SH \"SEE ALSO\"\n{}",
        see_also(command)
            .iter()
            .map(|page| reference(page))
            .collect::<Vec<_>>()
            .join(",\n")
    );
    text
}

fn list(text: &mut String, heading: &str, entries: &[Entry<'_>]) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, ".SH \"{heading}\"");
    for (name, about) in entries {
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(about));
    }
}

/// Text that roff shows as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}

/// A page as others are named: bold, with the section beside it.
fn reference(page: &str) -> String {
    let (name, section) = page.split_once('(').unwrap_or((page, "1)"));
    format!("\\fB{}\\fR({section}", escaped(name))
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_hide_set())
}

fn has_option(command: &Command, long: &str) -> bool {
    shown(command).any(|argument| argument.get_long() == Some(long))
}

fn of_options(command: &Command, entries: &[OfOption]) -> Vec<Entry<'static>> {
    let belongs = entries.iter().filter(|(_, option, _)| has_option(command, option));
    belongs
        .map(|&(name, _, about)| (name.to_owned(), about.to_owned()))
        .collect()
}

/// Variables that stand for an option, and the others.
fn environment(command: &Command) -> Vec<Entry<'static>> {
    let of_option = |argument: &Arg| {
        let (name, long) = (argument.get_env()?.to_str()?, argument.get_long()?);
        Some((name.to_owned(), format!("The value of --{long}, if that is not given.")))
    };
    let mut entries: Vec<Entry<'_>> = shown(command).filter_map(of_option).collect();
    entries.extend(of_options(command, &VARIABLES));
    entries
}

fn exit_status(command: &Command) -> Vec<Entry<'static>> {
    let name = command.get_name();
    let success = match name {
        "run" => "The exit status of the program. With --pid it is 0, also if the process ends with another one.",
        "record" => "The exit status of the program; 0 with --stop.",
        "compare" => "0 after a complete comparison.",
        "learn" => "0 if the command of the learner succeeds.",
        _ => "Success. A reader of standard output that closes it early is no failure.",
    };
    let code = if matches!(name, "run" | "record") { "0-255" } else { "0" };
    let mut entries = vec![(code, success)];
    match name {
        "run" | "record" | "compare" => entries.push(("128+n", "Signal n ended the program.")),
        "events" => entries.push(("1", "No event matches, or standard output cannot be written.")),
        _ => entries.push(("1", "Standard output cannot be written.")),
    }
    entries.push(FAILED);
    if matches!(name, "run" | "record" | "compare") {
        entries.extend(OF_PROGRAMS);
    }
    entries
        .iter()
        .map(|&(code, about)| (code.to_owned(), about.to_owned()))
        .collect()
}

/// The pages of the command above, of the commands below, and of other programs.
fn see_also(command: &Command) -> Vec<String> {
    let own = command.get_display_name().unwrap_or(command.get_name());
    let above = own.rsplit_once('-').map(|(above, _)| format!("{above}(1)"));
    let below = command
        .get_subcommands()
        .filter(|one| !one.is_hide_set() && one.get_name() != "help");
    let below = below.map(|one| format!("{own}-{}(1)", one.get_name()));
    let others = OTHERS.iter().find(|(name, _)| *name == command.get_name());
    let others = others
        .into_iter()
        .flat_map(|(_, pages)| pages.iter().map(|&page| page.to_owned()));
    above.into_iter().chain(below).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ColorChoice;
    use std::collections::BTreeSet;

    fn commands() -> Vec<Command> {
        fn collect(command: &Command, found: &mut Vec<Command>) {
            found.push(command.clone());
            let shown = command
                .get_subcommands()
                .filter(|one| !one.is_hide_set() && one.get_name() != "help");
            shown.for_each(|inner| collect(inner, found));
        }
        let mut all = crate::definition(ColorChoice::Never);
        all.build();
        let mut found = vec![];
        collect(&all, &mut found);
        found
    }

    #[test]
    fn pages_of_pinfold_that_others_name_exist() {
        let commands = commands();
        let names: BTreeSet<String> = commands
            .iter()
            .map(|one| format!("{}(1)", one.get_display_name().unwrap_or(one.get_name())))
            .collect();
        for command in &commands {
            let own = see_also(command).into_iter().filter(|page| page.starts_with("pinfold"));
            own.for_each(|page| assert!(names.contains(&page), "{page} in the page of {}", command.get_name()));
        }
    }

    #[test]
    fn every_variable_and_file_belongs_to_a_command() {
        let commands = commands();
        for (name, option, _) in VARIABLES.iter().chain(&FILES) {
            assert!(
                commands.iter().any(|command| has_option(command, option)),
                "{name} of --{option}"
            );
        }
        for (name, _) in OTHERS {
            assert!(commands.iter().any(|command| command.get_name() == name), "{name}");
        }
    }

    #[test]
    fn roff_shows_dashes_and_dots_as_they_are() {
        assert_eq!(escaped(".so a-b\\c"), "\\&.so a\\-b\\ec");
        assert_eq!(reference("numactl(8)"), "\\fBnumactl\\fR(8)");
    }
}
