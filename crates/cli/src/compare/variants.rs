//! The variants of a comparison, with the words of their command lines.

use super::arguments::Arguments;
use super::passed::Passed;
use crate::run::{checked, policies};
use anyhow::{Context, Result, bail};
use pinfold_compare::{LeftOut, Role};
use std::ffi::OsString;

/// The policy that leaves threads to the operating system.
const UNPINNED: &str = "none";

/// One variant before its runs.
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) role: Role,
    /// The words after `pinfold run`, without the program and without words that differ by run; `None` for the program
    /// itself.
    pub(super) words: Option<Vec<OsString>>,
    /// Whether it has a policy that decides something.
    pub(super) decides: bool,
}

/// The variants, in the order of their runs, and the policies that are left out.
pub(super) fn plan(arguments: &Arguments) -> Result<(Vec<Planned>, Vec<LeftOut>)> {
    let machine = arguments.machine.machine.as_ref();
    let machine: Vec<OsString> = machine
        .map(|name| format!("--machine={name}").into())
        .into_iter()
        .collect();
    let under = |text: &str| words(text, &arguments.passed).map(|words| [machine.clone(), words].concat());
    let unpinned = under(UNPINNED)?;
    let mut variants = vec![Planned {
        name: "alone".to_owned(),
        role: Role::Alone,
        words: arguments.is_simulated().then(|| unpinned.clone()),
        decides: false,
    }];
    if !arguments.is_simulated() {
        variants.push(Planned {
            name: "unpinned".to_owned(),
            role: Role::Unpinned,
            words: Some(unpinned),
            decides: false,
        });
    }
    let mut left_out = vec![];
    let named = named(&arguments.policy)?;
    if named.is_empty() {
        for policy in policies::deciding() {
            let words = under(policy)?;
            match checked::ready(&complete(&words, arguments)) {
                Ok(()) => variants.push(Planned::policy(policy, words)),
                Err(error) => left_out.push(LeftOut {
                    policy: policy.to_owned(),
                    why: crate::console::whole(&error),
                }),
            }
        }
    }
    for text in named.iter().filter(|text| *text != UNPINNED) {
        variants.push(Planned::policy(text, under(text)?));
    }
    for variant in &variants {
        variant.check(arguments)?;
    }
    Ok((variants, left_out))
}

impl Planned {
    fn policy(name: &str, words: Vec<OsString>) -> Self {
        Self {
            name: name.to_owned(),
            role: Role::Policy,
            words: Some(words),
            decides: policies::deciding().any(|policy| Some(policy) == name.split_whitespace().next()),
        }
    }

    /// Checks the command line before anything runs.
    fn check(&self, arguments: &Arguments) -> Result<()> {
        let Some(words) = &self.words else { return Ok(()) };
        checked::check(&complete(words, arguments)).with_context(|| format!("the variant `{}`", self.name))
    }
}

/// The words of a whole command line that are known before the first run.
fn complete(words: &[OsString], arguments: &Arguments) -> Vec<OsString> {
    let mut words = words.to_vec();
    words.extend(["-qq", "--json=record.json"].map(OsString::from));
    if arguments.is_simulated() {
        words.extend(["--repeat=1", "--seed=0"].map(OsString::from));
        words.extend((!arguments.is_table()).then(|| OsString::from("recording.pft")));
    } else {
        words.push("--".into());
        words.extend(arguments.command.iter().cloned());
    }
    words
}

/// The policies that the user names. A text with a space is one policy with its options.
fn named(given: &[String]) -> Result<Vec<String>> {
    let mut named = vec![];
    for text in given {
        let policies: Vec<&str> = if text.trim().contains(char::is_whitespace) {
            vec![text.trim()]
        } else {
            text.split(',').map(str::trim).collect()
        };
        if policies
            .iter()
            .any(|policy| policy.is_empty() || policy.starts_with('-'))
        {
            bail!("--policy `{text}` lacks a name; write policies with commas between them, or one with its options");
        }
        named.extend(policies.into_iter().map(str::to_owned));
    }
    Ok(named)
}

/// The words of a policy with its options.
fn words(text: &str, passed: &Passed) -> Result<Vec<OsString>> {
    let mut parts = text.split_whitespace();
    let Some(policy) = parts.next() else {
        bail!("--policy `{text}` lacks a name");
    };
    let mut words = vec![OsString::from(format!("--policy={policy}"))];
    words.extend(passed.words(policy));
    words.extend(parts.map(OsString::from));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_several_policies_and_a_policy_with_options_is_one() {
        let given = [
            "autopin,hint:SLP".to_owned(),
            "sam --without hysteresis,validation".to_owned(),
        ];
        let expected = ["autopin", "hint:SLP", "sam --without hysteresis,validation"];
        assert_eq!(named(&given).unwrap(), expected);
        for wrong in ["", "autopin,,sam", "--candidates 3"] {
            let error = named(&[wrong.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("lacks a name"), "{error}");
        }
    }

    #[test]
    fn options_of_a_policy_follow_those_for_all() {
        let words = words("autopin --search racing", &Passed::default()).unwrap();
        let expected = ["--policy=autopin", "--search", "racing"];
        assert_eq!(words, expected.map(OsString::from));
    }
}
