//! `pinfold completions`: what completes pinfold's commands and options in a shell, from the definitions of `--help`.

use crate::console;
use anyhow::Result;
use clap::{Args, Command, ValueEnum};
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
    // The generators also list hidden commands.
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let mut shown = Command::new("pinfold")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown);
    let mut text = vec![];
    clap_complete::generate(shell, &mut shown, "pinfold", &mut text);
    console::print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}
