//! The identity of programs and machines: whether two runs are of the same program on the same machine.

use object::Object;
use pinfold_core::{Topology, content_hash};
use serde::Serialize;
use std::path::Path;

/// The identity of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineKey {
    /// The version of this identity, and a hash of the objects, NUMA nodes and distances of the machine or of its
    /// model.
    pub fingerprint: String,
    /// Its name, for people.
    pub name: String,
    /// Whether it is simulated.
    pub simulated: bool,
}

/// A program with arguments of one shape, on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramKey {
    /// The build id of its binary as `build-id:HEX`, or a hash of the file as `xxh3:HEX`.
    pub identity: String,
    /// Its name, for people.
    pub name: String,
    /// The shape of its arguments (`shape`).
    pub shape: String,
    /// The machine.
    pub machine: MachineKey,
}

impl MachineKey {
    /// The machine in the database. `simulated` is the name of the model or script of a simulated machine.
    pub fn new(topology: &Topology, simulated: Option<&str>) -> Self {
        // The hash has no allowed PUs, which differ from run to run. It has no sizes of memory, which differ from
        // kernel to kernel and with hotplug. Machines with the same name can differ in shape.
        let nodes: Vec<_> = topology
            .nodes()
            .iter()
            .map(|node| (node.id, node.attached_to, &node.pus, &node.subtype))
            .collect();
        let shape = (topology.objects(), nodes, topology.distances(), simulated.is_some());
        let shape = serde_json::to_string(&shape).expect("plain data is JSON");
        Self {
            fingerprint: format!("2-{:032x}", content_hash(shape.as_bytes())),
            name: simulated.unwrap_or(topology.name()).to_owned(),
            simulated: simulated.is_some(),
        }
    }
}

impl ProgramKey {
    /// The key of a program with this binary or recording, this name and these arguments. Its identity is the build id,
    /// which a copy keeps, or a hash of a file without build id.
    pub fn new(binary: &[u8], program: &Path, arguments: &[String], machine: MachineKey) -> Self {
        let id = object::File::parse(binary).ok();
        let id = id.and_then(|binary| binary.build_id().ok().flatten().map(<[u8]>::to_vec));
        let identity = match id {
            Some(id) => id
                .iter()
                .fold("build-id:".to_owned(), |text, byte| text + &format!("{byte:02x}")),
            None => format!("xxh3:{:032x}", content_hash(binary)),
        };
        let name = program.file_name().unwrap_or_default();
        Self {
            identity,
            name: name.to_string_lossy().into_owned(),
            shape: shape(arguments),
            machine,
        }
    }
}

/// The shape of arguments. Two runs whose arguments have the same shape are assumed to behave alike.
///
/// A number is replaced by the power of two below it, so that inputs of about the same size have the same shape. A path
/// is replaced by its extension. Everything else stays. Parts are joined by blanks:
/// `--size 12M --file /data/a.mtx -v` becomes `--size 8M --file *.mtx -v`.
pub fn shape<S: AsRef<str>>(arguments: &[S]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| word_shape(word.as_ref())).collect();
    words.join(" ")
}

fn word_shape(word: &str) -> String {
    if let Some((option, value)) = word.split_once('=').filter(|(option, _)| option.starts_with('-')) {
        return format!("{option}={}", word_shape(value));
    }
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let unit = &word[digits..];
    if digits > 0 && unit.chars().all(|letter| letter.is_ascii_alphabetic()) {
        return match word[..digits].parse::<u128>() {
            Ok(0) => format!("0{unit}"),
            Ok(number) => format!("{}{unit}", 1u128 << number.ilog2()),
            Err(_) => format!("*{unit}"),
        };
    }
    if word.contains('/') {
        let last = word.rsplit('/').next().unwrap_or_default();
        return match last.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => format!("*.{extension}"),
            _ => "*".to_owned(),
        };
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_count_by_their_magnitude_and_paths_by_their_extension() {
        assert_eq!(
            shape(&[
                "--size",
                "12M",
                "--file",
                "/data/a.mtx",
                "-v",
                "--steps=100",
                "0",
                "3.5",
                "mesh.vtk",
                "./.x"
            ]),
            "--size 8M --file *.mtx -v --steps=64 0 3.5 mesh.vtk *"
        );
        assert_eq!(shape::<&str>(&[]), "");
        assert_eq!(shape(&["99999999999999999999999999999999999999999999"]), "*");
    }

    proptest! {
        #[test]
        fn any_argument_has_a_shape_that_is_its_own_shape(word in "\\PC*") {
            let once = word_shape(&word);
            if !once.contains(['*', '/']) {
                prop_assert_eq!(word_shape(&once), once);
            }
        }

        #[test]
        fn numbers_less_than_twice_each_other_and_of_one_magnitude_are_alike(exponent in 0u32..60, a in 0u64..1 << 20, b in 0u64..1 << 20) {
            let number = |part: u64| (1u64 << exponent) + part % (1u64 << exponent);
            prop_assert_eq!(word_shape(&number(a).to_string()), word_shape(&number(b).to_string()));
        }
    }
}
