//! The initial stack of an executed program that has not started to run: its arguments, its environment, and the
//! auxiliary vector for the dynamic linker ("Process Initialization" in the System V ABI). All are vectors of 8-byte
//! pointers or numbers. The texts lie above them.
//!
//! ```text
//! stack pointer -> number of arguments | arguments, 0 | environment, 0 | auxiliary vector, (0, 0) | texts
//! ```
//!
//! A changed stack has the new texts at the end of the old vectors, and the new vectors below. The targets of the
//! pointers stay in place, and `/proc/PID/environ` shows the old environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

const WORD: usize = size_of::<u64>();

/// The stack pointer of a starting program is a multiple of this.
const ALIGNMENT: u64 = 16;

/// The longest text that the kernel accepts (`MAX_ARG_STRLEN`).
const LONGEST_TEXT: u64 = 128 << 10;

/// The most bytes of texts and pointers that the kernel accepts: three quarters of 8 MiB (execve(2)).
const MOST_BYTES: u64 = 6 << 20;

/// The vectors, and the address of their end.
#[derive(Debug)]
pub(super) struct InitialStack {
    arguments: Vec<u64>,
    variables: Vec<Variable>,
    auxiliary: Vec<[u64; 2]>,
    end: u64,
}

/// An entry of the environment.
#[derive(Debug)]
struct Variable {
    address: u64,
    text: Vec<u8>,
}

/// A new stack pointer, and the bytes at that address.
#[derive(Debug)]
pub(super) struct NewStack {
    pub(super) pointer: u64,
    pub(super) bytes: Vec<u8>,
}

/// Reads words one after another.
struct Words<'a> {
    memory: &'a dyn FileExt,
    next: u64,
    read: Vec<u8>,
    used: usize,
}

impl Words<'_> {
    fn next(&mut self) -> io::Result<u64> {
        if self.used == self.read.len() {
            self.read.resize(4096, 0);
            let length = self.memory.read_at(&mut self.read, self.next)? / WORD * WORD;
            self.read.truncate(length);
            self.used = 0;
            self.next += length as u64;
        }
        let bytes = self.read.get(self.used..self.used + WORD);
        let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.used += WORD;
        Ok(u64::from_ne_bytes(
            bytes.try_into().expect("the slice has the length of a word"),
        ))
    }

    /// The words before the next zero.
    fn vector(&mut self) -> io::Result<Vec<u64>> {
        let mut words = vec![];
        loop {
            match self.next()? {
                0 => return Ok(words),
                word if (words.len() as u64) < MOST_BYTES => words.push(word),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

impl InitialStack {
    /// Reads the stack at `pointer` from the memory of a process.
    pub(super) fn read(memory: &dyn FileExt, pointer: u64) -> io::Result<Self> {
        let mut words = Words {
            memory,
            next: pointer,
            read: vec![],
            used: 0,
        };
        let count = words.next()?;
        let arguments = words.vector()?;
        if count != arguments.len() as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let variables = words.vector()?;
        let mut auxiliary = vec![];
        loop {
            let entry = [words.next()?, words.next()?];
            auxiliary.push(entry);
            match entry[0] {
                0 => break,
                _ if auxiliary.len() < 1000 => {}
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let vectors = 1 + arguments.len() + 1 + variables.len() + 1 + 2 * auxiliary.len();
        Ok(Self {
            variables: read_texts(memory, &variables)?,
            arguments,
            auxiliary,
            end: pointer + (WORD * vectors) as u64,
        })
    }

    /// The value of an entry of the auxiliary vector.
    pub(super) fn auxiliary(&self, kind: u64) -> Option<u64> {
        let mut entries = self.auxiliary.iter();
        entries.find(|[known, _]| *known == kind).map(|[_, value]| *value)
    }

    /// The value of a variable. If several entries have this name, the dynamic linker takes the last.
    pub(super) fn variable(&self, name: &str) -> Option<&[u8]> {
        self.variables.iter().rev().find_map(|variable| variable.value(name))
    }

    /// The stack with these variables. Each replaces the variable of the same name, or is appended.
    pub(super) fn with_variables(&self, changes: &[(&str, OsString)]) -> NewStack {
        let mut variables: Vec<u64> = self.variables.iter().map(|variable| variable.address).collect();
        let texts = changes.iter().map(|(name, value)| {
            let text = [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
            (name, text)
        });
        let texts: Vec<_> = texts.collect();
        let mut address = self.end - texts.iter().map(|(_, text)| text.len() as u64).sum::<u64>();
        let first_text = address;
        for (name, text) in &texts {
            let known = self
                .variables
                .iter()
                .rposition(|variable| variable.value(name).is_some());
            match known {
                Some(known) => variables[known] = address,
                None => variables.push(address),
            }
            address += text.len() as u64;
        }
        let mut words = vec![self.arguments.len() as u64];
        words.extend(self.arguments.iter().copied().chain([0]));
        words.extend(variables.into_iter().chain([0]));
        words.extend(self.auxiliary.as_flattened());
        let pointer = (first_text - (WORD * words.len()) as u64) / ALIGNMENT * ALIGNMENT;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(
            usize::try_from(first_text - pointer).expect("the vectors fit into the memory"),
            0,
        );
        bytes.extend(texts.into_iter().flat_map(|(_, text)| text));
        NewStack { pointer, bytes }
    }
}

impl Variable {
    /// The value, if the name matches.
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
    }
}

/// Reads the texts at these addresses. The kernel has put them side by side.
fn read_texts(memory: &dyn FileExt, addresses: &[u64]) -> io::Result<Vec<Variable>> {
    let (Some(&first), Some(&last)) = (addresses.iter().min(), addresses.iter().max()) else {
        return Ok(vec![]);
    };
    let length = last - first;
    if length > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut texts = vec![0; usize::try_from(length + LONGEST_TEXT).expect("the texts fit into the memory")];
    let mut read = 0;
    while read < texts.len() {
        match memory.read_at(&mut texts[read..], first + read as u64) {
            // The stack ends here.
            Ok(0) | Err(_) => break,
            Ok(more) => read += more,
        }
    }
    texts.truncate(read);
    let variable = |&address: &u64| {
        let begin = usize::try_from(address - first).ok()?;
        let text = texts.get(begin..)?.split(|&byte| byte == 0).next()?;
        let text = text.to_vec();
        Some(Variable { address, text })
    };
    let variables: Option<Vec<_>> = addresses.iter().map(variable).collect();
    variables.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The stack's offset in the file that stands for the memory.
    const POINTER: u64 = 0x1000;

    /// A stack with two arguments and these variables, in a file.
    fn stack(variables: &[&str]) -> std::fs::File {
        let vectors = 1 + 3 + variables.len() + 1 + 4;
        let mut words = vec![2, 0xa, 0xb, 0];
        let mut address = POINTER + (WORD * vectors) as u64;
        let mut texts = vec![];
        for text in variables {
            words.push(address);
            address += text.len() as u64 + 1;
            texts.extend_from_slice(text.as_bytes());
            texts.push(0);
        }
        words.extend([0, 23, 7, 0, 0]);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![0; usize::try_from(POINTER).unwrap()]).unwrap();
        let words: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        file.write_all(&words).unwrap();
        file.write_all(&texts).unwrap();
        file
    }

    fn texts(stack: &InitialStack) -> Vec<String> {
        let variables = stack.variables.iter();
        variables
            .map(|variable| String::from_utf8(variable.text.clone()).unwrap())
            .collect()
    }

    /// The stack after the change.
    fn changed(file: &std::fs::File, changes: &[(&str, OsString)]) -> InitialStack {
        let before = InitialStack::read(file, POINTER).unwrap();
        let new = before.with_variables(changes);
        assert_eq!(new.pointer % ALIGNMENT, 0);
        assert_eq!(new.pointer + new.bytes.len() as u64, before.end);
        file.write_all_at(&new.bytes, new.pointer).unwrap();
        InitialStack::read(file, new.pointer).unwrap()
    }

    #[test]
    fn variables_are_added_after_the_others_and_all_else_stays() {
        for more in [&[][..], &["ODD=1"]] {
            let all = [&["A=1", "LONG=of several words"], more].concat();
            let file = stack(&all);
            let after = changed(&file, &[("NEW", "value".into()), ("EMPTY", "".into())]);
            assert_eq!(texts(&after), [&all[..], &["NEW=value", "EMPTY="]].concat());
            assert_eq!(after.arguments, [0xa, 0xb]);
            assert_eq!(after.auxiliary, [[23, 7], [0, 0]]);
            assert_eq!(after.auxiliary(23), Some(7));
        }
    }

    #[test]
    fn a_variable_that_is_there_gets_another_value_in_its_place() {
        let file = stack(&["A=1", "B=2", "C=3"]);
        let after = changed(&file, &[("B", "longer than before".into())]);
        assert_eq!(texts(&after), ["A=1", "B=longer than before", "C=3"]);
        assert_eq!(after.variable("B"), Some(b"longer than before".as_slice()));
    }

    #[test]
    fn an_empty_environment_can_get_variables() {
        let file = stack(&[]);
        assert_eq!(texts(&changed(&file, &[("A", "1".into())])), ["A=1"]);
    }

    #[test]
    fn what_is_no_stack_is_refused() {
        let file = stack(&["A=1"]);
        assert!(InitialStack::read(&file, POINTER + 8).is_err());
        assert!(InitialStack::read(&file, 1 << 40).is_err());
    }
}
