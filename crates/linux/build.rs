//! Generates the declarations of libpfm4 from its installed headers and links the library.
//!
//! The headers also declare `perf_event_attr`, so libpfm4 and `perf_event_open(2)` share one type. Debian's package is
//! libpfm4-dev. It has no pkg-config file, so the linker finds the library in its default directories.

#![expect(clippy::disallowed_macros, reason = "cargo reads what a build script prints")]

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-lib=pfm");
    let bindings = bindgen::Builder::default()
        .header_contents("libpfm4.h", "#include <perfmon/pfmlib_perf_event.h>\n")
        .allowlist_function(
            "pfm_(initialize|strerror|get_(pmu_info|event_next|event_info|event_attr_info|os_event_encoding))",
        )
        .derive_default(true)
        .allowlist_type("perf_event_attr|perf_event_mmap_page|pfm_perf_encode_arg_t|perf_(type_id|event_read_format|event_sample_format|event_type|sw_ids|hw_id)")
        .allowlist_var("PFM_(PLM|ERR_|SUCCESS|PMU_|ATTR_|OS_).*|PERF_(FLAG|TYPE|COUNT_HW|COUNT_SW|FORMAT|SAMPLE|RECORD)_.*")
        .prepend_enum_name(false)
        .layout_tests(false)
        .generate()
        .unwrap_or_else(|error| {
            panic!("the headers of libpfm4 cannot be read ({error}); install libpfm4-dev and libclang-dev")
        });
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("libpfm4.rs");
    bindings
        .write_to_file(&output)
        .unwrap_or_else(|error| panic!("{} cannot be written: {error}", output.display()));
}
