//! A safe interface to libpfm4: names of performance events, and their encodings for `perf_event_open(2)`.
//!
//! libpfm4 has tables of the events of some hundred PMUs (performance monitoring units: a processor's cores, its uncore
//! units, the kernel's own events). `Library::pmus` lists them and whether they are present, `Library::events` lists
//! the events of one, and `Library::encode` converts a name into the attributes for the kernel.
//!
//! The library is initialised once per process, in the mode that also encodes the events of absent PMUs. So an event
//! set can be checked on any machine, and an unknown name can be distinguished from one of another processor.
//!
//! Known limits: libpfm4 does not promise thread safety, so each call into it takes one lock. The mode is set through
//! the environment. So `library` must be called before C code in another thread changes the environment.

pub(crate) mod sys;

use std::env;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Makes libpfm4 encode events of absent PMUs: `LIBPFM_ENCODE_INACTIVE` of libpfm(3).
const ENCODE_INACTIVE: &str = "LIBPFM_ENCODE_INACTIVE";

/// An error of libpfm4.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PfmError {
    /// The library cannot be used.
    #[error("libpfm4 cannot be initialised: {0}")]
    Initialise(String),
    /// No table has an event of this name.
    #[error("libpfm4 knows no event `{0}`")]
    NotFound(String),
    /// The event exists, but not with these unit masks or modifiers.
    #[error("libpfm4 refuses `{name}`: {why}")]
    Attribute {
        /// The requested name.
        name: String,
        /// libpfm4's message.
        why: String,
    },
    /// Any other error.
    #[error("libpfm4 cannot encode `{name}`: {why}")]
    Other {
        /// The requested name.
        name: String,
        /// libpfm4's message.
        why: String,
    },
}

/// The part of the machine that a PMU belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmuKind {
    /// A processor core. It counts for one thread.
    Core,
    /// Units that several cores share. They count for a whole package and never for one thread.
    Uncore,
    /// The kernel's own events, and its generic names for the processor's.
    Kernel,
    /// libpfm4 does not report it.
    Unknown,
}

/// A performance monitoring unit that libpfm4 knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// The prefix of its events' names: `spr` in `spr::INSTRUCTION_RETIRED`.
    pub name: String,
    /// The description: `Intel SapphireRapid`.
    pub description: String,
    /// The part of the machine.
    pub kind: PmuKind,
    /// Whether libpfm4 found it on this machine. It checks the processor's model only: a virtual machine can have a
    /// processor model without its counters.
    pub present: bool,
    /// The number of programmable counters. 0 for the kernel's events, which need none.
    pub counters: u32,
    /// The number of counters with one fixed event each.
    pub fixed_counters: u32,
    /// The number of its events in libpfm4.
    pub event_count: usize,
    first_event: c_int,
}

/// An event of a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name without the PMU's prefix.
    pub name: String,
    /// The description.
    pub description: String,
    /// The event that this name is an alias of.
    pub alias_of: Option<String>,
    /// The attributes that can follow the name after a colon.
    pub attributes: Vec<Attribute>,
}

/// A unit mask or a modifier of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The text after the colon.
    pub name: String,
    /// The description.
    pub description: String,
    /// The kind of attribute.
    pub kind: AttributeKind,
    /// Whether a unit mask is used when none is given.
    pub default: bool,
}

/// The kind of attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    /// A unit mask, which selects a part of the event: `:NAME`.
    UnitMask,
    /// A modifier that is on or off: `:u`, `:u=0`.
    Switch,
    /// A modifier with a number: `:c=2`.
    Number,
}

/// The privilege levels of a count if the event's name does not set them by `:u` or `:k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// User space only.
    User,
    /// User space and the kernel.
    UserAndKernel,
}

/// An event for the kernel.
#[derive(Clone)]
pub struct Encoding {
    /// The name in full, with the PMU and every attribute: `spr::INSTRUCTION_RETIRED:e=0:i=0:c=0:u=1:k=0`.
    pub name: String,
    pub(crate) attributes: sys::perf_event_attr,
}

impl Encoding {
    /// The kernel's number of the PMU: `type` of `perf_event_attr`.
    pub fn event_type(&self) -> u32 {
        self.attributes.type_
    }

    /// The event of that PMU: `config` of `perf_event_attr`.
    pub fn config(&self) -> u64 {
        self.attributes.config
    }
}

/// libpfm4, initialised.
pub struct Library {
    pmus: Vec<Pmu>,
    calls: Mutex<()>,
}

/// The library, which the first call initialises.
pub fn library() -> Result<&'static Library, PfmError> {
    static LIBRARY: OnceLock<Result<Library, PfmError>> = OnceLock::new();
    LIBRARY.get_or_init(Library::initialise).as_ref().map_err(Clone::clone)
}

impl Library {
    fn initialise() -> Result<Self, PfmError> {
        let inherited = env::var_os(ENCODE_INACTIVE);
        // SAFETY: Rust code reads and writes the environment under the standard library's lock. C code in other threads
        // could read it without the lock. glibc keeps the strings and the first array alive, so in the worst case it
        // would miss a variable.
        unsafe { env::set_var(ENCODE_INACTIVE, "1") };
        // SAFETY: the call has no precondition, and `OnceLock` admits one thread.
        let status = unsafe { sys::pfm_initialize() };
        if inherited.is_none() {
            // SAFETY: as above. Programs that this process starts must not inherit the variable.
            unsafe { env::remove_var(ENCODE_INACTIVE) };
        }
        if status != sys::PFM_SUCCESS {
            return Err(PfmError::Initialise(message(status)));
        }
        Ok(Self {
            pmus: (0..sys::PMU_NUMBERS).filter_map(pmu).collect(),
            calls: Mutex::new(()),
        })
    }

    /// All PMUs that libpfm4 knows, in its order.
    pub fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    /// The events of a PMU, in libpfm4's order.
    pub fn events(&self, pmu: &Pmu) -> Vec<Event> {
        let _lock = self.lock();
        let mut events = Vec::with_capacity(pmu.event_count);
        let mut index = pmu.first_event;
        while index >= 0 {
            events.extend(event(index));
            // SAFETY: libpfm4 has returned `index`. For an invalid one it would return -1.
            index = unsafe { sys::pfm_get_event_next(index) };
        }
        events
    }

    /// Encodes `name`, which may have the PMU (`perf::`), unit masks and modifiers in libpfm4's notation. Events of
    /// absent PMUs are encoded like any other.
    pub fn encode(&self, name: &str, privilege: Privilege) -> Result<Encoding, PfmError> {
        let Ok(text) = CString::new(name) else {
            return Err(PfmError::NotFound(name.replace('\0', "\\0")));
        };
        let levels = match privilege {
            Privilege::User => sys::PFM_PLM3,
            Privilege::UserAndKernel => sys::PFM_PLM3 | sys::PFM_PLM0,
        };
        let mut attributes = empty_attributes();
        let mut full_name: *mut c_char = ptr::null_mut();
        let mut argument = sys::pfm_perf_encode_arg_t::new(&mut attributes, &mut full_name);
        let _lock = self.lock();
        // SAFETY: the string ends in NUL. `argument` and all that it points to live until the call has returned.
        let status = unsafe {
            sys::pfm_get_os_event_encoding(
                text.as_ptr(),
                levels.cast_signed(),
                sys::PFM_OS_PERF_EVENT,
                (&raw mut argument).cast(),
            )
        };
        let error = |status| {
            let why = message(status);
            let name = name.to_owned();
            match status {
                sys::PFM_ERR_NOTFOUND => PfmError::NotFound(name),
                sys::PFM_ERR_UMASK
                | sys::PFM_ERR_ATTR
                | sys::PFM_ERR_ATTR_VAL
                | sys::PFM_ERR_ATTR_SET
                | sys::PFM_ERR_FEATCOMB => PfmError::Attribute { name, why },
                _ => PfmError::Other { name, why },
            }
        };
        if status != sys::PFM_SUCCESS {
            return Err(error(status));
        }
        let name = copy(full_name).unwrap_or_default();
        // SAFETY: libpfm4 allocated the string with malloc for the caller to free (pfm_get_os_event_encoding(3)). Null
        // is allowed.
        unsafe { libc::free(full_name.cast()) };
        Ok(Encoding { name, attributes })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Attributes with only the size set.
pub(crate) fn empty_attributes() -> sys::perf_event_attr {
    sys::perf_event_attr {
        size: u32::try_from(size_of::<sys::perf_event_attr>()).expect("the structure is small"),
        ..Default::default()
    }
}

/// The PMU with this number, if the installed libpfm4 has it.
fn pmu(id: sys::pfm_pmu_t) -> Option<Pmu> {
    let mut info = sys::pfm_pmu_info_t::new();
    // SAFETY: `info` is a local that contains its size.
    let status = unsafe { sys::pfm_get_pmu_info(id, &raw mut info) };
    (status == sys::PFM_SUCCESS).then(|| Pmu {
        name: copy(info.name).unwrap_or_default(),
        description: copy(info.desc).unwrap_or_default(),
        kind: match info.type_ {
            sys::PFM_PMU_TYPE_CORE => PmuKind::Core,
            sys::PFM_PMU_TYPE_UNCORE => PmuKind::Uncore,
            sys::PFM_PMU_TYPE_OS_GENERIC => PmuKind::Kernel,
            _ => PmuKind::Unknown,
        },
        present: info.is_present(),
        counters: u32::try_from(info.num_cntrs).unwrap_or(0),
        fixed_counters: u32::try_from(info.num_fixed_cntrs).unwrap_or(0),
        event_count: usize::try_from(info.nevents).unwrap_or(0),
        first_event: info.first_event,
    })
}

/// The event with this index of libpfm4. The caller holds the lock.
fn event(index: c_int) -> Option<Event> {
    let mut info = sys::pfm_event_info_t::new();
    // SAFETY: `info` is a local that contains its size. A wrong index is refused.
    let status = unsafe { sys::pfm_get_event_info(index, sys::PFM_OS_PERF_EVENT, &raw mut info) };
    (status == sys::PFM_SUCCESS).then(|| Event {
        name: copy(info.name).unwrap_or_default(),
        description: copy(info.desc).unwrap_or_default(),
        alias_of: copy(info.equiv),
        attributes: (0..info.nattrs).filter_map(|number| attribute(index, number)).collect(),
    })
}

/// One attribute of an event. `None` for raw masks, which have no name. The caller holds the lock.
fn attribute(event: c_int, number: c_int) -> Option<Attribute> {
    let mut info = sys::pfm_event_attr_info_t::new();
    // SAFETY: `info` is a local that contains its size. Wrong numbers are refused.
    let status = unsafe { sys::pfm_get_event_attr_info(event, number, sys::PFM_OS_PERF_EVENT, &raw mut info) };
    let kind = match info.type_ {
        sys::PFM_ATTR_UMASK => AttributeKind::UnitMask,
        sys::PFM_ATTR_MOD_BOOL => AttributeKind::Switch,
        sys::PFM_ATTR_MOD_INTEGER => AttributeKind::Number,
        _ => return None,
    };
    (status == sys::PFM_SUCCESS).then(|| Attribute {
        name: copy(info.name).unwrap_or_default(),
        description: copy(info.desc).unwrap_or_default(),
        kind,
        default: info.is_default(),
    })
}

fn message(status: c_int) -> String {
    // SAFETY: any number gives a message, or null.
    copy(unsafe { sys::pfm_strerror(status) }).unwrap_or_else(|| format!("error {status}"))
}

/// A copy of a string of libpfm4. `None` for null.
fn copy(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: libpfm4's strings end in NUL and do not change while the caller holds the lock.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generic_instruction_event_has_the_kernels_encoding() {
        let encoding = library().unwrap().encode("instructions", Privilege::User).unwrap();
        assert_eq!((encoding.event_type(), encoding.config()), (sys::PERF_TYPE_HARDWARE, 1));
        assert!(
            encoding.name.starts_with("perf::PERF_COUNT_HW_INSTRUCTIONS"),
            "{}",
            encoding.name
        );
    }

    /// Intel's manual (volume 3, performance-monitoring events of the Ivy Bridge EP): event D3H, unit mask 0CH is
    /// `MEM_LOAD_UOPS_LLC_MISS_RETIRED.REMOTE_DRAM`.
    #[test]
    fn an_event_of_a_processor_that_need_not_be_here_is_encoded() {
        let name = "ivb_ep::MEM_LOAD_UOPS_LLC_MISS_RETIRED:REMOTE_DRAM";
        let encoding = library().unwrap().encode(name, Privilege::User).unwrap();
        assert_eq!(
            (encoding.event_type(), encoding.config()),
            (perf_event_open_sys::bindings::PERF_TYPE_RAW, 0x0cd3)
        );
    }

    #[test]
    fn the_mode_variable_is_not_left_in_the_environment() {
        library().unwrap();
        assert_eq!(env::var_os(ENCODE_INACTIVE), None);
    }

    #[test]
    fn privilege_levels_that_the_name_gives_win() {
        let library = library().unwrap();
        let kernel = |name, privilege| {
            let attributes = library.encode(name, privilege).unwrap().attributes;
            (attributes.exclude_user() == 0, attributes.exclude_kernel() == 0)
        };
        assert_eq!(kernel("instructions", Privilege::User), (true, false));
        assert_eq!(kernel("instructions", Privilege::UserAndKernel), (true, true));
        assert_eq!(kernel("instructions:u", Privilege::UserAndKernel), (true, false));
        assert_eq!(kernel("instructions:k", Privilege::User), (false, true));
    }

    #[test]
    fn refusals_tell_an_unknown_event_from_an_unknown_unit_mask() {
        let library = library().unwrap();
        let error = |name| library.encode(name, Privilege::User).map(|_| ()).unwrap_err();
        assert!(matches!(error("no-such-event"), PfmError::NotFound(_)));
        let unit_mask = error("ivb_ep::MEM_LOAD_UOPS_LLC_MISS_RETIRED:NOWHERE");
        assert!(matches!(unit_mask, PfmError::Attribute { .. }), "{unit_mask}");
        assert!(matches!(error("a\0b"), PfmError::NotFound(_)));
    }

    #[test]
    fn the_tables_list_what_they_can_encode() {
        let library = library().unwrap();
        let pmu = library.pmus().iter().find(|pmu| pmu.name == "ivb_ep").unwrap();
        assert_eq!((pmu.kind, pmu.fixed_counters), (PmuKind::Core, 3));
        let events = library.events(pmu);
        assert_eq!(events.len(), pmu.event_count);
        let event = events
            .iter()
            .find(|event| event.name == "MEM_LOAD_UOPS_LLC_MISS_RETIRED")
            .unwrap();
        let remote = event.attributes.iter().find(|it| it.name == "REMOTE_DRAM").unwrap();
        assert_eq!(remote.kind, AttributeKind::UnitMask);
        assert!(
            event
                .attributes
                .iter()
                .any(|it| it.name == "u" && it.kind == AttributeKind::Switch)
        );
    }
}
