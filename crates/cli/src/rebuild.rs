//! From the behaviour database to rules: its samples as a data set, and `pinfold learn train hints` on that.
//!
//! Beside the database are `NAME.hints.json`, the rules in use, and `NAME.training.parquet`, a data set of a sweep,
//! which is also used for learning rules.

use crate::behaviour::{Arguments, rules_beside};
use crate::console;
use crate::learn;
use anyhow::{Context, Result, bail};
use pinfold_files::output::Output;
use pinfold_linux::child::dies_with_us;
use pinfold_store::{Afterwards, LearnedRules, Store, StoredProgram, samples};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Learns rules from all observed samples and from `data`, which is kept for the next time. The result is a message.
pub(crate) fn rebuild(store: &mut Store, behaviour: &Arguments, data: Option<&Path>) -> Result<String> {
    let training = beside(behaviour, "training.parquet")?;
    if let Some(data) = data {
        let mut read = File::open(data).with_context(|| format!("`{}` cannot be read", data.display()))?;
        let kept = Output::open("the data set", &training)?;
        kept.write_with(|kept| io::copy(&mut read, kept).map(drop))?;
    }
    let programs = store.programs(None)?;
    let exported = beside(behaviour, "samples.parquet")?;
    let rows = export(&programs, &exported)?;
    let rules = rules_beside(&behaviour.path()?);
    let made = beside(behaviour, "hints.json.new")?;
    let mut command = learn::command()?;
    command.args([
        "train",
        "hints",
        "--method",
        "paper",
        "--threads",
        "all",
        "--incomplete",
        // The user's data set may be simulated; the user has named it.
        "--mixed",
    ]);
    if training.exists() {
        command.arg("--data").arg(&training);
    }
    if rows > 0 {
        command.arg("--data").arg(&exported);
    }
    command.arg("--output").arg(&made);
    let output = dies_with_us(&mut command)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{}` cannot be started", Path::new(command.get_program()).display()));
    let _ = fs::remove_file(&exported);
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        // Not tried again at every run, but when there are more samples.
        store.built("", crate::behaviour::now())?;
        bail!("no rules could be made of what was observed: {}", said.trim());
    }
    let text = fs::read_to_string(&made).with_context(|| format!("`{}`", made.display()))?;
    let learned = LearnedRules::parse(&text).with_context(|| format!("`{}`", made.display()))?;
    fs::rename(&made, &rules).with_context(|| format!("`{}` cannot be replaced", rules.display()))?;
    store.built(&learned.version, crate::behaviour::now())?;
    Ok(format!("{said}rules: {}\n", rules.display()))
}

/// Does the work that remains after a run of `--policy hints:rules`. The result is a note for the user.
pub(crate) fn after_run(remains: Afterwards<'_>, behaviour: &Arguments) -> Option<String> {
    match remains {
        Afterwards::Nothing => None,
        Afterwards::NotWritten(why) => Some(format!("What was observed could not all be kept: {why}")),
        Afterwards::Rebuild(store) => {
            let rebuilt = rebuild(store, behaviour, None);
            Some(match rebuilt.and_then(|_| behaviour.path()) {
                Ok(database) => format!("New rules: {}", rules_beside(&database).display()),
                Err(error) => format!("The behaviour database has grown, but {}", console::whole(&error)),
            })
        }
    }
}

fn beside(behaviour: &Arguments, extension: &str) -> Result<PathBuf> {
    Ok(behaviour.path()?.with_extension(extension))
}

/// Writes the samples as a data set; the result is the number of its rows.
pub(crate) fn export(programs: &[StoredProgram], file: &Path) -> Result<usize> {
    let data_set = samples::data_set(programs);
    Output::open("--data", file)?.write_with(|file| data_set.write(file))?;
    Ok(data_set.rows.len())
}
