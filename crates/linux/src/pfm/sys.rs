//! What pinfold needs of libpfm4's C interface (`perfmon/pfmlib.h`, `perfmon/pfmlib_perf_event.h`), with the names that it
//! has there.
//!
//! libpfm4 keeps this interface: a caller says how large its structures are (`size`), numbers of PMUs and codes of errors
//! never change, and new PMUs come at the end. The kernel's structures and constants come from the crate
//! `perf-event-open-sys`.

#![expect(non_camel_case_types, reason = "the names of the C interface")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

pub(crate) use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
    PERF_COUNT_HW_REF_CPU_CYCLES, PERF_COUNT_SW_CGROUP_SWITCHES, PERF_COUNT_SW_CONTEXT_SWITCHES,
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_DUMMY, PERF_COUNT_SW_PAGE_FAULTS,
    PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_TASK_CLOCK, PERF_FLAG_FD_CLOEXEC,
    PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_RECORD_FORK,
    PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_RECORD_THROTTLE, PERF_SAMPLE_ADDR, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, perf_event_attr,
    perf_event_mmap_page,
};

pub(crate) type pfm_err_t = c_int;
pub(crate) type pfm_pmu_t = c_uint;
pub(crate) type pfm_pmu_type_t = c_uint;
pub(crate) type pfm_attr_t = c_uint;
pub(crate) type pfm_os_t = c_uint;

pub(crate) const PFM_SUCCESS: pfm_err_t = 0;
pub(crate) const PFM_ERR_NOTFOUND: pfm_err_t = -4;
pub(crate) const PFM_ERR_FEATCOMB: pfm_err_t = -5;
pub(crate) const PFM_ERR_UMASK: pfm_err_t = -6;
pub(crate) const PFM_ERR_ATTR: pfm_err_t = -8;
pub(crate) const PFM_ERR_ATTR_VAL: pfm_err_t = -9;
pub(crate) const PFM_ERR_ATTR_SET: pfm_err_t = -10;

/// Privilege levels: the kernel, and user space.
pub(crate) const PFM_PLM0: c_uint = 0x01;
pub(crate) const PFM_PLM3: c_uint = 0x08;

pub(crate) const PFM_OS_PERF_EVENT: pfm_os_t = 1;

pub(crate) const PFM_PMU_TYPE_CORE: pfm_pmu_type_t = 1;
pub(crate) const PFM_PMU_TYPE_UNCORE: pfm_pmu_type_t = 2;
pub(crate) const PFM_PMU_TYPE_OS_GENERIC: pfm_pmu_type_t = 3;

pub(crate) const PFM_ATTR_UMASK: pfm_attr_t = 1;
pub(crate) const PFM_ATTR_MOD_BOOL: pfm_attr_t = 2;
pub(crate) const PFM_ATTR_MOD_INTEGER: pfm_attr_t = 3;

/// More than any libpfm4 has (517 in 4.13). It refuses numbers that it does not know.
pub(crate) const PMU_NUMBERS: pfm_pmu_t = 2048;

#[repr(C)]
pub(crate) struct pfm_pmu_info_t {
    pub(crate) name: *const c_char,
    pub(crate) desc: *const c_char,
    size: usize,
    pmu: pfm_pmu_t,
    pub(crate) type_: pfm_pmu_type_t,
    pub(crate) nevents: c_int,
    pub(crate) first_event: c_int,
    max_encoding: c_int,
    pub(crate) num_cntrs: c_int,
    pub(crate) num_fixed_cntrs: c_int,
    flags: c_uint,
}

impl pfm_pmu_info_t {
    /// Without values, but its size.
    pub(crate) fn new() -> Self {
        Self {
            name: ptr::null(),
            desc: ptr::null(),
            size: size_of::<Self>(),
            pmu: 0,
            type_: 0,
            nevents: 0,
            first_event: 0,
            max_encoding: 0,
            num_cntrs: 0,
            num_fixed_cntrs: 0,
            flags: 0,
        }
    }

    /// The bit field `is_present`.
    pub(crate) fn is_present(&self) -> bool {
        self.flags & 1 != 0
    }
}

#[repr(C)]
pub(crate) struct pfm_event_info_t {
    pub(crate) name: *const c_char,
    pub(crate) desc: *const c_char,
    pub(crate) equiv: *const c_char,
    size: usize,
    code: u64,
    pmu: pfm_pmu_t,
    dtype: c_uint,
    idx: c_int,
    pub(crate) nattrs: c_int,
    reserved: c_int,
    flags: c_uint,
}

impl pfm_event_info_t {
    /// Without values, but its size.
    pub(crate) fn new() -> Self {
        Self {
            name: ptr::null(),
            desc: ptr::null(),
            equiv: ptr::null(),
            size: size_of::<Self>(),
            code: 0,
            pmu: 0,
            dtype: 0,
            idx: 0,
            nattrs: 0,
            reserved: 0,
            flags: 0,
        }
    }
}

#[repr(C)]
pub(crate) struct pfm_event_attr_info_t {
    pub(crate) name: *const c_char,
    pub(crate) desc: *const c_char,
    equiv: *const c_char,
    size: usize,
    code: u64,
    pub(crate) type_: pfm_attr_t,
    idx: c_int,
    ctrl: c_uint,
    flags: c_uint,
    /// A union of 64 bits: the default value of a modifier.
    default: u64,
}

impl pfm_event_attr_info_t {
    /// Without values, but its size.
    pub(crate) fn new() -> Self {
        Self {
            name: ptr::null(),
            desc: ptr::null(),
            equiv: ptr::null(),
            size: size_of::<Self>(),
            code: 0,
            type_: 0,
            idx: 0,
            ctrl: 0,
            flags: 0,
            default: 0,
        }
    }

    /// The bit field `is_dfl`.
    pub(crate) fn is_default(&self) -> bool {
        self.flags & 1 != 0
    }
}

#[repr(C)]
pub(crate) struct pfm_perf_encode_arg_t {
    attr: *mut perf_event_attr,
    fstr: *mut *mut c_char,
    size: usize,
    idx: c_int,
    cpu: c_int,
    flags: c_int,
    pad0: c_int,
}

impl pfm_perf_encode_arg_t {
    /// The encoding goes to `attr`, and the full name to `fstr`.
    pub(crate) fn new(attr: &mut perf_event_attr, fstr: &mut *mut c_char) -> Self {
        Self {
            attr,
            fstr,
            size: size_of::<Self>(),
            idx: 0,
            cpu: 0,
            flags: 0,
            pad0: 0,
        }
    }
}

#[link(name = "pfm")]
unsafe extern "C" {
    pub(crate) fn pfm_initialize() -> pfm_err_t;
    pub(crate) fn pfm_strerror(code: c_int) -> *const c_char;
    pub(crate) fn pfm_get_pmu_info(pmu: pfm_pmu_t, output: *mut pfm_pmu_info_t) -> pfm_err_t;
    pub(crate) fn pfm_get_event_next(idx: c_int) -> c_int;
    pub(crate) fn pfm_get_event_info(idx: c_int, os: pfm_os_t, output: *mut pfm_event_info_t) -> pfm_err_t;
    pub(crate) fn pfm_get_event_attr_info(
        eidx: c_int,
        aidx: c_int,
        os: pfm_os_t,
        output: *mut pfm_event_attr_info_t,
    ) -> pfm_err_t;
    pub(crate) fn pfm_get_os_event_encoding(
        str: *const c_char,
        dfl_plm: c_int,
        os: pfm_os_t,
        args: *mut c_void,
    ) -> pfm_err_t;
}
