//! Adapts the text of an hwloc XML file to hwloc 2, which pinfold is linked with.
//!
//! hwloc 3 marks its files `version="3.0"`, and hwloc 2 refuses this number. hwloc 2 ignores the attributes and
//! elements that hwloc 3 added to the objects that pinfold reads (`cache_inclusive`, the machine's infos after the root
//! object). So such a file is read as one of version 2. Known limit: if a later hwloc 3 changes the meaning of elements
//! that both versions write, that is not detected.

use super::ReadError;
use std::path::Path;

/// The text of an XML file that looks like a topology. Other texts are refused here, because hwloc reports the same
/// error for an unreadable file and for a file that is not a topology.
pub(super) fn text(path: &Path) -> Result<String, ReadError> {
    let bytes = std::fs::read(path).map_err(|source| ReadError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let refused = |why: &str| ReadError::NotXml {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not text"))?;
    if text.contains('\0') {
        return Err(refused("it is not text"));
    }
    as_version_2(&text).ok_or_else(|| refused("it has no element `topology`"))
}

/// The same topology with the version number that hwloc 2 accepts. `None` if there is no topology.
fn as_version_2(text: &str) -> Option<String> {
    let start = text.find("<topology")?;
    let end = start + text[start..].find('>')?;
    let tag = text[start..end].replace("version=\"3.0\"", "version=\"2.0\"");
    Some([&text[..start], &tag, &text[end..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_topology_is_rewritten() {
        let text = r#"<?xml version="1.0"?><topology version="3.0"><info name="version" value="3.0"/></topology>"#;
        let expected = r#"<?xml version="1.0"?><topology version="2.0"><info name="version" value="3.0"/></topology>"#;
        assert_eq!(as_version_2(text).as_deref(), Some(expected));
        assert_eq!(as_version_2(expected).as_deref(), Some(expected));
    }

    #[test]
    fn a_text_without_a_topology_is_none() {
        assert_eq!(as_version_2("<?xml version=\"1.0\"?><html></html>"), None);
        assert_eq!(as_version_2("<topology"), None);
    }
}
