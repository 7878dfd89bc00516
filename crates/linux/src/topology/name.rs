//! The name of a machine: its processor model without trademarks and fillers, or the name of its description if it has
//! no model.

use super::Source;
use super::kernel::text;
use hwlocality::object::types::ObjectType;
use std::path::Path;

/// The name of a loaded machine.
pub(super) fn of(machine: &hwlocality::Topology, source: &Source) -> String {
    let root = machine.root_object();
    let info = |object: &hwlocality::object::TopologyObject, key: &str| {
        let value = object.info(key)?.to_string_lossy().into_owned();
        Some(short_model(&value)).filter(|name| !name.is_empty())
    };
    let model = machine
        .objects_with_type(ObjectType::Package)
        .chain([root])
        .find_map(|object| info(object, "CPUModel"));
    let file_name = |path: &Path| {
        path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        )
    };
    model.unwrap_or_else(|| match source {
        Source::Live => info(root, "DMIProductName").unwrap_or_else(|| "this machine".to_owned()),
        Source::Xml(path) => file_name(&path.with_extension("")),
        Source::FsRoot(path) => path
            .canonicalize()
            .map_or_else(|_| file_name(path), |path| file_name(&path)),
        Source::Synthetic(description) => description.clone(),
    })
}

/// The processor model in `/proc` of the file system at `root`. `None` if it names no model.
pub(super) fn of_processor(root: &Path) -> Option<String> {
    let text = text(&root.join("proc/cpuinfo"))?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut models = fields.filter(|(key, _)| matches!(key.trim(), "model name" | "cpu"));
    models
        .next()
        .map(|(_, value)| short_model(value))
        .filter(|name| !name.is_empty())
}

/// A short name of a processor model: `Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz` is `Intel Xeon E5-2680 v3`.
fn short_model(model: &str) -> String {
    let mut text = model.to_owned();
    for mark in ["(R)", "(TM)", "(tm)", "(r)"] {
        text = text.replace(mark, " ");
    }
    // The nominal frequency follows, or the instruction-set extensions that POWER lists.
    let model = text.split(['@', ',']).next().unwrap_or_default();
    model
        .split_whitespace()
        .filter(|word| !matches!(*word, "CPU" | "Processor") && !word.ends_with("-Core"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_model_loses_its_trademarks_and_filler() {
        for (model, name) in [
            ("AMD Opteron(tm) Processor 6164 HE", "AMD Opteron 6164 HE"),
            ("Intel(R) Xeon(R) CPU           E5345  @ 2.33GHz", "Intel Xeon E5345"),
            ("AMD EPYC 9654 96-Core Processor                ", "AMD EPYC 9654"),
            ("POWER9, altivec supported", "POWER9"),
            ("13th Gen Intel(R) Core(TM) i7-1370P", "13th Gen Intel Core i7-1370P"),
            ("Genuine Intel(R) CPU                  @ 2.66GHz", "Genuine Intel"),
        ] {
            assert_eq!(short_model(model), name);
        }
    }
}
