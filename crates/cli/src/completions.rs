//! `pinfold completions`: what completes pinfold's commands and options in a shell, from the definitions of `--help`.

use crate::console;
use anyhow::Result;
use clap::{Arg, ArgGroup, Args, Command, ValueEnum};
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
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// `command` is all of the command line.
pub(crate) fn run(arguments: &Arguments, command: &Command) -> Result<ExitCode> {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut shown = Command::new("pinfold")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown_commands(command));
    let mut text = vec![];
    clap_complete::generate(shell, &mut shown, "pinfold", &mut text);
    console::print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands below this one without hidden commands and options, which the generators list too.
fn shown_commands(command: &Command) -> impl Iterator<Item = Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| {
        let (hidden, options): (Vec<&Arg>, Vec<&Arg>) = one.get_arguments().partition(|option| option.is_hide_set());
        // clap takes static names only. The few names live until the program ends, which is soon.
        let name: &str = Box::leak(one.get_name().into());
        let shown = Command::new(name)
            .args(options.into_iter().cloned())
            // Shown options may conflict with hidden ones, whose names must exist.
            .groups(hidden.into_iter().map(|option| ArgGroup::new(option.get_id().clone())))
            .subcommands(shown_commands(one));
        match one.get_about() {
            Some(about) => shown.about(about.clone()),
            None => shown,
        }
    })
}
