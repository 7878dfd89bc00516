//! Where the behaviour database is, by what a program is known in it, and what a run of `--policy hints` adds.

use crate::{console, rebuild};
use anyhow::{Context, Result};
use clap::Args;
use nix::unistd::geteuid;
use object::Object;
use pinfold_core::hint::AffinityHint;
use pinfold_core::{Finding, Pinning, Topology, content_hash};
use pinfold_policy::{Known, Rules};
use pinfold_store::{Choice, Machine, ObservedRow, Opened, ProgramKey, SampleRow, Store, StoreError, shape};
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the database is.
#[derive(Args, Clone)]
#[group(skip)]
pub(crate) struct Arguments {
    #[arg(
        long,
        env = "PINFOLD_DB",
        value_name = "FILE",
        global = true,
        help = "The behaviour database [default: /var/lib/pinfold/behaviour.db for root, else \
                $XDG_STATE_HOME/pinfold/behaviour.db]"
    )]
    db: Option<PathBuf>,
}

impl Arguments {
    /// The file.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        match &self.db {
            Some(file) => Ok(file.clone()),
            None => usual(geteuid().is_root(), |name| env::var_os(name)),
        }
    }

    /// The rules that were made of the database, beside it.
    pub(crate) fn rules_path(&self) -> Result<PathBuf> {
        Ok(self.path()?.with_extension("hints.json"))
    }

    /// The database, made where there is none; and what the user should know of it.
    pub(crate) fn open(&self) -> Result<(Store, Option<String>)> {
        let Opened { store, set_aside } = Opened::new(&self.path()?)?;
        let note = set_aside.map(|aside| {
            format!(
                "The behaviour database was damaged. It lies in `{}` now, and a new one is begun.",
                aside.display()
            )
        });
        Ok((store, note))
    }
}

/// Where the database is when nobody says. Without a home there is no folder that is the user's own and stays.
fn usual(root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    if root {
        return Ok(PathBuf::from("/var/lib/pinfold/behaviour.db"));
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let folder = absolute("XDG_STATE_HOME").or_else(home);
    let folder = folder.context(
        "there is no place for the behaviour database, since neither XDG_STATE_HOME nor HOME names a folder; name a file with --db",
    )?;
    Ok(folder.join("pinfold/behaviour.db"))
}

/// Learned rules and by what they are told from others.
pub(crate) struct LearnedRules {
    pub(crate) rules: Rules,
    pub(crate) version: String,
}

/// Reads rules. A file that nobody named may be absent.
pub(crate) fn read_rules(named: Option<&Path>, usual: &Path) -> Result<Option<LearnedRules>> {
    let file = named.unwrap_or(usual);
    if named.is_none() && !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the rules `{}`", file.display()))?;
    let rules = text
        .parse()
        .with_context(|| format!("`{}` holds no rules", file.display()))?;
    let version = version(&text);
    Ok(Some(LearnedRules { rules, version }))
}

/// By what rules are told from others: a hash of their file.
pub(crate) fn version(text: &str) -> String {
    format!("{:032x}", content_hash(text.as_bytes()))
}

/// The machine as the database knows it; `simulated` is what `--machine` is for one that is simulated.
pub(crate) fn machine(topology: &Topology, simulated: Option<&str>) -> Result<Machine> {
    // Which PUs may be used differs from run to run, and its name says nothing of its shape.
    let shape = serde_json::to_string(&(
        topology.objects(),
        topology.nodes(),
        topology.distances(),
        simulated.is_some(),
    ))?;
    Ok(Machine {
        fingerprint: format!("{:032x}", content_hash(shape.as_bytes())),
        name: simulated.unwrap_or(topology.name()).to_owned(),
        simulated: simulated.is_some(),
    })
}

/// By what a program is known: its build id, which stays when the file is copied, or a hash of the file.
pub(crate) fn program_key(file: &Path, command: &[String], machine: Machine) -> Result<ProgramKey> {
    let bytes = fs::read(file).with_context(|| format!("cannot read the program `{}`", file.display()))?;
    let id = object::File::parse(&*bytes).ok();
    let id = id.and_then(|binary| binary.build_id().ok().flatten().map(<[u8]>::to_vec));
    let identity = match id {
        Some(id) => id
            .iter()
            .fold("build-id:".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        None => format!("xxh3:{:032x}", content_hash(&bytes)),
    };
    Ok(ProgramKey {
        identity,
        name: Path::new(command.first().map_or(file.as_os_str(), OsStr::new))
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        shape: shape(command.get(1..).unwrap_or_default()),
        machine,
    })
}

/// What the database knows of a program, by its number of threads.
pub(crate) fn known(
    store: &mut Store,
    key: &ProgramKey,
    rules: Option<&LearnedRules>,
) -> Result<BTreeMap<usize, Known>, StoreError> {
    let known = store.known(key, rules.map(|rules| rules.version.as_str()))?;
    let text = |kept, pinned| match (kept, pinned) {
        (true, _) => "an earlier run was given it, and was not slower for it",
        (false, true) => "an earlier run was faster with it than with what the rules said",
        (false, false) => "an earlier run was not faster with what the rules said",
    };
    let known = known.into_iter().map(|(threads, known)| {
        let why = text(known.kept, known.hint.is_some()).to_owned();
        (threads, Known { hint: known.hint, why })
    });
    Ok(known.collect())
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Writes to the database what a run of `--policy hints` finds. What cannot be written is reported at the end, and the run
/// goes on.
pub(crate) struct Learner {
    store: Store,
    key: ProgramKey,
    /// The version of the rules.
    rules: Option<String>,
    metric: Option<String>,
    /// How many candidates there are.
    candidates: usize,
    rates: Vec<Option<f64>>,
    threads: usize,
    /// The hint that the rules asked for, and why; and the one that was before.
    asked: Option<(AffinityHint, String)>,
    before: Option<AffinityHint>,
    failed: Option<String>,
}

impl Learner {
    pub(crate) fn new(store: Store, key: ProgramKey, rules: Option<&LearnedRules>) -> Self {
        Self {
            store,
            key,
            rules: rules.map(|rules| rules.version.clone()),
            metric: None,
            candidates: 0,
            rates: vec![],
            threads: 0,
            asked: None,
            before: None,
            failed: None,
        }
    }

    /// After the run: rules are made again where the database has grown by `percent` since the last time; `None` for never.
    /// What the user should know.
    pub(crate) fn end(&mut self, behaviour: &Arguments, percent: Option<f64>) -> Option<String> {
        if let Some(failed) = &self.failed {
            return Some(format!("What was observed could not all be kept: {failed}"));
        }
        let grown = self
            .store
            .growth()
            .is_ok_and(|growth| percent.is_some_and(|percent| growth.by_percent(percent)));
        if !grown {
            return None;
        }
        let rebuilt = rebuild::rebuild(&mut self.store, behaviour, None);
        Some(match rebuilt.and_then(|_| behaviour.rules_path()) {
            Ok(rules) => format!("New rules: {}", rules.display()),
            Err(error) => format!("The behaviour database has grown, but {}", console::whole(&error)),
        })
    }

    fn keep(&mut self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    fn chosen(&mut self, candidate: usize) {
        let Some((asked, why)) = self.asked.take() else { return };
        let kept = self.candidates == 1 || candidate > 0;
        let choice = Choice {
            threads: self.threads,
            hint: if kept { Some(asked) } else { self.before },
            rules: self.rules.clone(),
            why,
            before: self.rates.first().copied().flatten(),
            after: self.rates.get(1).copied().flatten(),
            kept,
            at: now(),
        };
        let written = self.store.choose(&self.key, &choice);
        self.keep(written);
    }

    /// The policy found something.
    pub(crate) fn finding(&mut self, finding: &Finding) {
        match finding {
            Finding::MetricChosen { metric, .. } => self.metric.clone_from(metric),
            Finding::CandidatesChosen { threads, pinnings, .. } => {
                self.threads = *threads;
                self.candidates = pinnings.len();
                self.rates = vec![None; pinnings.len()];
            }
            Finding::Probed { candidate, rate, .. } => {
                if let Some(kept) = self.rates.get_mut(*candidate) {
                    *kept = *rate;
                }
            }
            Finding::Sampled {
                hint,
                pus,
                threads,
                lasts,
                rate,
                observed,
                says,
                why,
            } => {
                if let Some(says) = says {
                    self.asked = Some((*says, why.clone()));
                    self.before = *hint;
                }
                let sample = SampleRow {
                    threads: *threads,
                    at: now(),
                    hint: *hint,
                    pus: pus.as_ref().map(Pinning::to_string).unwrap_or_default(),
                    lasted: lasts.as_secs_f64(),
                    metric: self.metric.clone(),
                    rate: *rate,
                    observed: observed.iter().map(ObservedRow::from).collect(),
                };
                let written = self.store.add_sample(&self.key, &sample);
                self.keep(written);
            }
            Finding::Chosen { candidate, .. } => self.chosen(*candidate),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_place_is_the_users_own_or_there_is_none() {
        let place = |root, variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            usual(root, |name| find(name).map(|(_, value)| value.into()))
        };
        assert_eq!(place(true, &[]).unwrap(), Path::new("/var/lib/pinfold/behaviour.db"));
        let state = ("XDG_STATE_HOME", "/state");
        assert_eq!(
            place(false, &[state]).unwrap(),
            Path::new("/state/pinfold/behaviour.db")
        );
        let (home, relative) = (("HOME", "/home/a"), ("XDG_STATE_HOME", "state"));
        let expected = Path::new("/home/a/.local/state/pinfold/behaviour.db");
        assert_eq!(place(false, &[home, relative]).unwrap(), expected);
        for variables in [&[][..], &[("HOME", "")]] {
            let refused = place(false, variables).unwrap_err().to_string();
            assert!(refused.contains("HOME") && refused.contains("--db"), "{refused}");
        }
    }
}
