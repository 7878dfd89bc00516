//! The header of the recordings that tests make.

use pinfold_trace::Header;

/// The header of a recording without a window.
pub(crate) fn header() -> Header {
    Header {
        recorder: "test".to_owned(),
        architecture: "x86_64".to_owned(),
        page_size: 4096,
        command: vec!["program".to_owned()],
        program: "/bin/program".to_owned(),
        window: None,
    }
}
