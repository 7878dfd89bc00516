//! `pinfold completions`: what completes pinfold's commands, options and values in a shell, from the definitions of
//! `--help`.
//!
//! clap knows the values of an option only where they are an enumeration. `values` has those of policies, machines,
//! metrics, forms and spaces. Devices, and models in files, differ from machine to machine, so the script asks for them
//! when the user completes: a placeholder stands for them in what clap generates, and becomes a command of the shell.

use crate::console;
use crate::machine::{self, Selected};
use crate::run::policies;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgGroup, Args, Command, ValueEnum};
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::ToolForm;
use pinfold_core::{DeviceName, sources};
use std::process::ExitCode;

/// Print the completions of a shell.
///
/// Their usual files:
///
///   bash  pinfold completions bash > /usr/share/bash-completion/completions/pinfold
///   zsh   pinfold completions zsh > /usr/share/zsh/site-functions/_pinfold
///   fish  pinfold completions fish > ~/.config/fish/completions/pinfold.fish
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(required_unless_present = "devices")]
    shell: Option<Shell>,

    /// List the names of this machine's devices, which the scripts ask for.
    #[arg(long, hide = true, conflicts_with = "shell")]
    devices: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Stands for the names of the devices.
const DEVICES: &str = "PINFOLD_DEVICES";

/// Stands for the files in the working folder that may be models.
const MODELS: &str = "PINFOLD_MODELS";

/// The command that lists the devices, in every shell.
const LIST_DEVICES: &str = "pinfold completions --devices 2>/dev/null";

impl Shell {
    /// The generator of this shell.
    fn generator(self) -> clap_complete::Shell {
        match self {
            Self::Bash => clap_complete::Shell::Bash,
            Self::Zsh => clap_complete::Shell::Zsh,
            Self::Fish => clap_complete::Shell::Fish,
        }
    }

    /// The script with commands in the place of the placeholders.
    fn with_commands(self, script: &str) -> String {
        match self {
            Self::Bash => script
                .replace(DEVICES, &format!("$({LIST_DEVICES})"))
                .replace(MODELS, "$(compgen -f -X '!*.toml' -- \"${cur}\")"),
            Self::Zsh => script
                .replace(DEVICES, &format!("$({LIST_DEVICES})"))
                .replace(MODELS, "$(print -rl -- *.toml(N))"),
            // A command is a word of its own: beside other text it would be combined with each value.
            Self::Fish => [(DEVICES, LIST_DEVICES), (MODELS, "string match '*.toml' -- *")]
                .into_iter()
                .fold(script.to_owned(), |script, (placeholder, command)| {
                    let value = format!("{placeholder}\\t''");
                    let script = script.replace(&format!("\n{value}"), &format!(" ({command})"));
                    script.replace(&value, &format!("({command})"))
                }),
        }
    }
}

/// The values of an option of a command; `None` if clap knows them, or nobody does.
fn values(command: &str, option: &str) -> Option<Vec<String>> {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Some(match (command, option) {
        (_, "policy") => policies::values().collect(),
        (_, "machine") => machine::values().chain([MODELS.to_owned()]).collect(),
        ("daemon", "metric") => owned(&["counters", "sharing"]),
        ("run" | "compare", "metric") => metrics(),
        (_, "near") => owned(&[DEVICES]),
        (_, "format") => ToolForm::names().map(str::to_owned).collect(),
        (_, "hint") => AffinityHint::ALL.iter().map(ToString::to_string).collect(),
        ("sweep", "space") => pinfold_sweep::SPACES
            .iter()
            .map(|space| space.name.to_owned())
            .collect(),
        _ => return None,
    })
}

/// The metrics of `pinfold run`; of `uprobe:SYMBOL` the part that is fixed.
fn metrics() -> Vec<String> {
    let listed = sources::SOURCES.iter().filter_map(|source| source.listed);
    let fixed = |name: &str| {
        name.trim_end_matches(|letter: char| letter.is_ascii_uppercase())
            .to_owned()
    };
    ["auto".to_owned()]
        .into_iter()
        .chain(listed.map(|listed| fixed(listed.name)))
        .collect()
}

/// `command` is all of the command line.
pub(crate) fn run(arguments: &Arguments, command: &Command) -> Result<ExitCode> {
    let Some(shell) = arguments.shell else {
        let devices = Selected::Here.devices()?;
        let names = devices.iter().flat_map(|device| DeviceName::of(device, &devices));
        let lines: Vec<String> = names.map(|name| format!("{name}\n")).collect();
        console::print(&lines.concat())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut shown = Command::new("pinfold")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown_commands(command));
    let mut text = vec![];
    clap_complete::generate(shell.generator(), &mut shown, "pinfold", &mut text);
    let text = String::from_utf8(text).context("the completions are no text")?;
    console::print(&shell.with_commands(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The commands below this one without hidden commands and options, which the generators list too.
fn shown_commands(command: &Command) -> impl Iterator<Item = Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| {
        let (hidden, options): (Vec<&Arg>, Vec<&Arg>) = one.get_arguments().partition(|option| option.is_hide_set());
        // clap takes static texts only. The few names and values live until the program ends, which is soon.
        let name: &str = Box::leak(one.get_name().into());
        let shown = Command::new(name)
            .args(options.into_iter().map(|option| with_values(name, option)))
            // Shown options may conflict with hidden ones, whose names must exist.
            .groups(hidden.into_iter().map(|option| ArgGroup::new(option.get_id().clone())))
            .subcommands(shown_commands(one));
        match one.get_about() {
            Some(about) => shown.about(about.clone()),
            None => shown,
        }
    })
}

/// The option, with the values that it takes.
fn with_values(command: &str, option: &Arg) -> Arg {
    let known = option.get_long().and_then(|long| values(command, long));
    match known {
        Some(values) => {
            let values = values.into_iter().map(|value| &*value.leak());
            option.clone().value_parser(PossibleValuesParser::new(values))
        }
        None => option.clone(),
    }
}
