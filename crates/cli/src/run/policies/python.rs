//! `--policy python:FILE.py`: a policy that is written in Python, or that another process serves at a socket.
//!
//! `python:FILE.py[:CLASS]` starts Python beside pinfold; `python:unix:PATH` connects to a process that waits for it
//! (docs/formats/policy.md has the conversation). Either way the policy is no part of the program that it places.

use super::{Built, Parameter, PolicyEntry, PolicyRequest, Prepared};
use crate::learn;
use anyhow::{Context, Result, bail};
use pinfold_policy::external::{Answer, Exchange, External, Question};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(super) struct Python;

impl PolicyEntry for Python {
    fn name(&self) -> &'static str {
        External::<Conversation>::NAME
    }

    fn parameter(&self) -> Option<Parameter> {
        Some(Parameter {
            form: "FILE.py",
            check: |text| parse(text).map(|_| ()),
            values: || vec![],
        })
    }

    fn about(&self) -> &'static str {
        "asks a policy of your own, a class in FILE.py (docs/guide/python.md)"
    }

    fn explained(&self) -> &'static str {
        "is a policy of the user's own"
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let at = parse(request.parameter.unwrap_or_default()).map_err(anyhow::Error::msg)?;
        if let At::File { file, .. } = &at
            && !file.is_file()
        {
            bail!("--policy python:{}: there is no such file", file.display());
        }
        Ok(Prepared::new(move |_| {
            Ok(Built::new(External::new(Conversation::begin(&at)?)))
        }))
    }
}

/// Where the policy is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    /// In a file, in the class of this name; `None` for the file's only policy.
    File { file: PathBuf, class: Option<String> },
    /// In the process that listens at this socket.
    Socket(PathBuf),
}

/// The parameter of the policy.
fn parse(text: &str) -> Result<At, String> {
    if let Some(("unix", path)) = text.split_once(':') {
        return Ok(At::Socket(path.into()));
    }
    let (file, class) = match text.rsplit_once(':') {
        Some((file, class)) => (file, Some(class)),
        None => (text, None),
    };
    let has_name = |class: &str| !class.is_empty() && class.chars().all(|one| one.is_alphanumeric() || one == '_');
    if Path::new(file).extension().is_none_or(|extension| extension != "py") || !class.is_none_or(has_name) {
        return Err(format!(
            "`{text}` names no policy: give FILE.py, FILE.py:CLASS, or unix:PATH for the socket of a process"
        ));
    }
    Ok(At::File {
        file: file.into(),
        class: class.map(str::to_owned),
    })
}

/// The conversation with the process of the policy.
struct Conversation {
    questions: BufWriter<Box<dyn Write>>,
    answers: BufReader<Box<dyn io::Read>>,
    /// The process, if this one has started it.
    _process: Option<Started>,
}

/// A process that does not outlive this value.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It ends itself at the end of the questions, unless it hangs.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Conversation {
    fn begin(at: &At) -> Result<Self> {
        match at {
            At::File { file, class } => {
                let mut command = interpreter()?;
                command.args(["-m", "pinfold.policy_process"]).arg(file).args(class);
                let mut child = command
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .with_context(|| format!("`{}` cannot be started", Path::new(command.get_program()).display()))?;
                let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
                    bail!("the policy's process has no pipes");
                };
                Ok(Self::new(questions, answers, Some(Started(child))))
            }
            At::Socket(path) => {
                let failure = || format!("no policy listens at the socket {}", path.display());
                let socket = UnixStream::connect(path).with_context(failure)?;
                Ok(Self::new(socket.try_clone().with_context(failure)?, socket, None))
            }
        }
    }

    fn new(questions: impl Write + 'static, answers: impl io::Read + 'static, process: Option<Started>) -> Self {
        Self {
            questions: BufWriter::new(Box::new(questions)),
            answers: BufReader::new(Box::new(answers)),
            _process: process,
        }
    }

    fn line(&mut self, question: &Question) -> io::Result<String> {
        serde_json::to_writer(&mut self.questions, question)?;
        self.questions.write_all(b"\n")?;
        self.questions.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }
}

impl Exchange for Conversation {
    fn ask(&mut self, question: &Question) -> Result<Answer, String> {
        match self.line(question) {
            Ok(line) if line.is_empty() => Err("its process has ended".to_owned()),
            Ok(line) => serde_json::from_str(&line).map_err(|error| format!("its answer cannot be read: {error}")),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err("its process has ended".to_owned()),
            Err(error) => Err(format!("its process does not answer: {error}")),
        }
    }
}

/// Python with the package, without arguments: the interpreter beside `pinfold-learn`.
fn interpreter() -> Result<Command> {
    let learner = learn::command()?;
    let python = Path::new(learner.get_program()).with_file_name("python3");
    if !python.is_file() {
        bail!(
            "there is no {}, so policies in Python cannot run; reinstall pinfold's package",
            python.display()
        );
    }
    let mut command = Command::new(python);
    command.envs(learner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_in_a_file_or_at_a_socket() {
        let file = |class: Option<&str>| At::File {
            file: "policies/mine.py".into(),
            class: class.map(str::to_owned),
        };
        assert_eq!(parse("policies/mine.py"), Ok(file(None)));
        assert_eq!(parse("policies/mine.py:Mine"), Ok(file(Some("Mine"))));
        assert_eq!(parse("unix:/run/policy"), Ok(At::Socket("/run/policy".into())));
        for wrong in ["", "mine", "mine.so", "mine.py:", "mine.py:a b"] {
            assert!(parse(wrong).unwrap_err().contains("FILE.py:CLASS"), "{wrong}");
        }
    }

    #[test]
    fn a_process_that_ends_is_a_failed_policy() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut conversation = Conversation::new(near.try_clone().unwrap(), near, None);
        drop(far);
        assert_eq!(conversation.ask(&Question::End).unwrap_err(), "its process has ended");
    }
}
