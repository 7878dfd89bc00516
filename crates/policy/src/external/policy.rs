//! The loop's side of the conversation with a policy in another process.

use super::message::{Answer, Question, SampleView};
use super::wanted::note;
use crate::Policy;
use pinfold_core::{Applied, Configuration, Decision, Finding, Metric, NoteCode, Sample, TaskId, Topology};
use std::collections::BTreeMap;
use std::time::Duration;

/// The way to the other process.
pub trait Exchange {
    /// Asks, and waits for the answer. An error is a clause about the policy, such as "it has ended".
    fn ask(&mut self, question: &Question) -> Result<Answer, String>;
}

/// A policy that another process decides. After its first error the program is unpinned, and the other process is not
/// asked again.
pub struct External<E> {
    exchange: E,
    metrics: Vec<Metric>,
    /// By serial: each task that a sample had.
    tasks: BTreeMap<u64, TaskId>,
    has_failed: bool,
}

impl<E: Exchange> External<E> {
    /// The name that `--policy` takes.
    pub const NAME: &'static str = "python";

    /// The policy at the other end of `exchange`.
    pub fn new(exchange: E) -> Self {
        Self {
            exchange,
            metrics: vec![],
            tasks: BTreeMap::new(),
            has_failed: false,
        }
    }

    fn decision(&mut self, topology: &Topology, question: &Question) -> Decision {
        match self.asked(topology, question) {
            Ok(decision) => decision,
            Err(why) => self.failed(&why),
        }
    }

    fn asked(&mut self, topology: &Topology, question: &Question) -> Result<Decision, String> {
        let wanted = match self.exchange.ask(question)? {
            Answer::Decision(wanted) => wanted,
            Answer::Failed(why) => return Err(why),
            Answer::Notes(_) => return Err("it answered with notes, and a decision was due".to_owned()),
        };
        let mut decision = wanted
            .resolved(topology, &self.tasks)
            .map_err(|error| error.to_string())?;
        if wanted.done {
            decision.findings.push(Finding::Note {
                code: NoteCode::PolicyIsDone,
                text: "The policy has chosen.".to_owned(),
            });
        }
        Ok(decision)
    }

    fn failed(&mut self, why: &str) -> Decision {
        self.has_failed = true;
        Decision {
            configuration: Some(Configuration::default()),
            wait: Duration::from_secs(1),
            findings: vec![Finding::Note {
                code: NoteCode::PolicyFailed,
                text: format!("The policy has failed, so the program is unpinned: {why}"),
            }],
            function: None,
        }
    }
}

impl<E: Exchange> Policy for External<E> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        self.metrics = metrics.to_vec();
        let question = Question::Start {
            topology: Box::new(topology.clone()),
            metrics: metrics.iter().map(Into::into).collect(),
        };
        self.decision(topology, &question)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        if self.has_failed {
            return Decision {
                configuration: None,
                wait: Duration::from_secs(1),
                findings: vec![],
                function: None,
            };
        }
        self.tasks
            .extend(sample.tasks.iter().map(|task| (task.id.serial, task.id)));
        let question = Question::Decide {
            sample: SampleView::new(sample, &self.metrics),
            applied: applied.into(),
        };
        self.decision(topology, &question)
    }

    fn end(&mut self) -> Vec<Finding> {
        if self.has_failed {
            return vec![];
        }
        match self.exchange.ask(&Question::End) {
            Ok(Answer::Notes(notes)) => notes.iter().map(|text| note(text)).collect(),
            Ok(Answer::Failed(why)) | Err(why) => self.failed(&why).findings,
            Ok(Answer::Decision(_)) => self.failed("it answered with a decision, and notes were due").findings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;
    use std::collections::VecDeque;

    /// Answers from a list, and keeps the questions as JSON.
    #[derive(Default)]
    struct Scripted {
        answers: VecDeque<&'static str>,
        questions: Vec<serde_json::Value>,
    }

    impl Exchange for Scripted {
        fn ask(&mut self, question: &Question) -> Result<Answer, String> {
            self.questions.push(serde_json::to_value(question).unwrap());
            let answer = self.answers.pop_front().ok_or("it has ended")?;
            serde_json::from_str(answer).map_err(|error| error.to_string())
        }
    }

    fn policy(answers: &[&'static str]) -> External<Scripted> {
        External::new(Scripted {
            answers: answers.iter().copied().collect(),
            questions: vec![],
        })
    }

    fn decide(policy: &mut External<Scripted>) -> Decision {
        let topology = synthetic("core:2 pu:1");
        policy.decide(&topology, &Sample::default(), &Applied::default())
    }

    #[test]
    fn answers_become_decisions_and_notes() {
        let mut policy = policy(&[
            r#"{"decision": {"configuration": {"pus": [1]}, "wait": 0.5}}"#,
            r#"{"decision": {"note": "One core is enough.", "done": true}}"#,
            r#"{"notes": ["It moved once."]}"#,
        ]);
        let first = policy.start(&synthetic("core:2 pu:1"), &[]);
        assert_eq!(first.configuration.unwrap().pinning.unwrap().to_string(), "1");
        assert_eq!(first.wait, Duration::from_millis(500));
        let second = decide(&mut policy);
        assert_eq!(second.configuration, None);
        let codes: Vec<NoteCode> = second
            .findings
            .iter()
            .filter_map(|finding| match finding {
                Finding::Note { code, .. } => Some(*code),
                _ => None,
            })
            .collect();
        assert_eq!(codes, [NoteCode::Unknown, NoteCode::PolicyIsDone]);
        assert!(matches!(&policy.end()[..], [Finding::Note { text, .. }] if text == "It moved once."));
        assert_eq!(policy.exchange.questions[2], "end");
    }

    #[test]
    fn after_an_error_the_program_is_unpinned_and_nobody_is_asked() {
        for answer in [
            r#"{"failed": "division by zero"}"#,
            r#"{"decision": {"configuration": {"pus": [7]}}}"#,
            r#"{"notes": []}"#,
            "not JSON",
        ] {
            let mut policy = policy(&[r#"{"decision": {"configuration": {"pus": [1]}}}"#, answer]);
            policy.start(&synthetic("core:2 pu:1"), &[]);
            let decision = decide(&mut policy);
            assert_eq!(decision.configuration, Some(Configuration::default()), "{answer}");
            let said = matches!(
                &decision.findings[..],
                [Finding::Note { code: NoteCode::PolicyFailed, text }] if text.contains("is unpinned: ")
            );
            assert!(said, "{answer}: {:?}", decision.findings);
            let asked = policy.exchange.questions.len();
            assert_eq!(decide(&mut policy).configuration, None);
            assert!(policy.end().is_empty());
            assert_eq!(policy.exchange.questions.len(), asked);
        }
    }
}
