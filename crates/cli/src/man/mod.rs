//! `pinfold man`: the manual pages, from the definitions of `--help`, with the sections that a page has beside these
//! (`sections`).

mod sections;

use crate::console;
use anyhow::{Context, Result, bail};
use clap::{Args, Command};
use clap_mangen::Man;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print a manual page, or write all of them.
///
/// `pinfold man run | man -l -` shows that of `pinfold run`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The command, such as `run` or `trace metrics`; without it, the page of pinfold itself.
    #[arg(conflicts_with = "output")]
    command: Vec<String>,

    /// Write the pages of all commands into this folder, such as /usr/share/man/man1.
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// `command` is all of the command line.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<ExitCode> {
    // The names of pages follow from the names of the commands above.
    command.build();
    let Some(folder) = &arguments.output else {
        let wanted = found(&command, &arguments.command)?;
        console::print(&String::from_utf8(page(wanted)?)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    let number = write(&command, folder)?;
    console::say(format!("{number} manual pages are in `{}`", folder.display()));
    Ok(ExitCode::SUCCESS)
}

fn found<'a>(command: &'a Command, words: &[String]) -> Result<&'a Command> {
    let mut wanted = command;
    for word in words {
        let Some(next) = wanted
            .get_subcommands()
            .find(|one| one.get_name() == word && !one.is_hide_set())
        else {
            let name = wanted.get_bin_name().unwrap_or("pinfold");
            bail!("`{name}` has no command `{word}`; `{name} --help` lists them");
        };
        wanted = next;
    }
    Ok(wanted)
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    // Without this the synopsis lists every option.
    let page = Man::new(command.clone().override_usage(usage)).manual("pinfold");
    let mut text = vec![];
    page.source(concat!("pinfold ", env!("CARGO_PKG_VERSION")))
        .render(&mut text)?;
    let text = String::from_utf8(text).context("the page is no text")?;
    // What clap calls extra are examples here. The version is the last section.
    let text = text
        .replace(".SH EXTRA\n", ".SH EXAMPLES\n")
        .replace("\nExamples:\n", "\n");
    let (help, version) = text.split_once(".SH VERSION").context("the page has no version")?;
    Ok([help, &sections::text(command), ".SH VERSION", version]
        .concat()
        .into_bytes())
}

/// Writes the pages of a command and of those below it; their number.
fn write(command: &Command, folder: &Path) -> Result<usize> {
    let file = folder.join(format!(
        "{}.1",
        command.get_display_name().unwrap_or(command.get_name())
    ));
    fs::write(&file, page(command)?).with_context(|| format!("cannot write `{}`", file.display()))?;
    let shown = command.get_subcommands();
    let shown = shown.filter(|one| !one.is_hide_set() && one.get_name() != "help");
    shown
        .map(|one| write(one, folder))
        .sum::<Result<usize>>()
        .map(|below| below + 1)
}
