//! `pinfold topo`: the machine as pinfold sees it, as text, JSON or a picture.

pub(crate) mod json;

use crate::console;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_files::input;
use pinfold_files::output::Output;
use pinfold_page::picture::Picture;
use pinfold_runtime::RunDocument;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the machine as pinfold sees it, or draw it.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold topo
      this machine
  pinfold topo --machine xml:machine.xml
      the machine on which `lstopo machine.xml` was run
  pinfold topo --machine epyc-7763x2 machine.svg
      a picture of a machine
  pinfold run --json run.json -- ./solver input.dat
  pinfold topo --run run.json run.png
      a picture with the threads and the memory of that program")]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// Draw it to this file, as lstopo does: SVG or PNG, by the end of its name.
    #[arg(value_name = "FILE.svg|FILE.png")]
    picture: Option<PathBuf>,

    /// Draw the threads and the memory of this run on its machine, as they were before the program ended.
    ///
    /// The file is what `pinfold run --json FILE` wrote.
    #[arg(long, value_name = "RUN.json", requires = "picture", conflicts_with = "machine")]
    run: Option<PathBuf>,

    /// Print JSON.
    #[arg(long, conflicts_with = "picture")]
    json: bool,
}

/// The forms of a picture.
#[derive(Clone, Copy)]
enum Form {
    Svg,
    Png,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(file) = &arguments.picture {
        let form = form(file)?;
        let picture = picture(arguments)?;
        let bytes = match form {
            Form::Svg => picture.svg().into_bytes(),
            Form::Png => picture.png(),
        };
        Output::open("the picture", file)?.write(&bytes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let machine = arguments.machine.selected()?;
    let topology = machine.topology()?;
    let devices = machine.devices()?;
    let text = if arguments.json {
        format!("{:#}\n", json::of(&topology, &devices))
    } else {
        pinfold_view::topology::page(&topology, &devices)
    };
    console::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn form(file: &Path) -> Result<Form> {
    let end = file.extension().map(|end| end.to_string_lossy().to_lowercase());
    match end.as_deref() {
        Some("svg") => Ok(Form::Svg),
        Some("png") => Ok(Form::Png),
        _ => bail!(
            "`{}` says not which form the picture shall have; let its name end with .svg or .png",
            file.display()
        ),
    }
}

fn picture(arguments: &Arguments) -> Result<Picture> {
    let Some(run) = &arguments.run else {
        let machine = arguments.machine.selected()?;
        return Ok(Picture::from_machine(&machine.topology()?, &machine.devices()?));
    };
    let file = run.display();
    let text = input::text(run, input::MOST).with_context(|| format!("cannot read `{file}`"))?;
    let document = RunDocument::read(&text).with_context(|| format!("`{file}`"))?;
    Picture::from_run(&document).with_context(|| format!("`{file}`"))
}
