//! The agent and the heartbeat in real programs: C and C++ programs from `agent/tests` are compiled, run with a
//! channel, and must be counted exactly.

use pinfold_core::sources::{BARRIERS, HEARTBEAT, REGIONS};
use pinfold_linux::channel::{Channel, Totals};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The folders of Debian's libomp.
const LIBOMP_FOLDERS: [&str; 2] = ["/usr/lib/llvm-14/lib", "/usr/lib/x86_64-linux-gnu"];

fn agent_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent")
}

/// Builds the agent, once.
fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        let made = Command::new("make")
            .arg("-C")
            .arg(agent_folder())
            .output()
            .expect("make must be there");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let built = agent_folder().join("../target/agent/libpinfold_agent.so");
        built.canonicalize().expect("the agent has been built")
    })
}

fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Compiles `sources` from `agent/tests` to `folder/name`.
fn compile(compiler: &str, arguments: &[&str], sources: &[&str], folder: &TempDir, name: &str) -> PathBuf {
    let binary = folder.path().join(name);
    let compiled = Command::new(compiler)
        .current_dir(agent_folder().join("tests"))
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args(sources)
        .arg("-o")
        .arg(&binary)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {compiler}: {error}"));
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{compiler} {sources:?}: {errors}");
    binary
}

/// Compiles a program with gcc, for LLVM's libomp in place of libgomp. `None` if libomp is not installed.
fn compile_for_libomp(source: &str, folder: &TempDir, name: &str) -> Option<PathBuf> {
    let mut folders = LIBOMP_FOLDERS.iter();
    let libomp = folders.find(|libomp| Path::new(libomp).join("libomp.so").exists())?;
    let object = compile("gcc", &["-fopenmp", "-c"], &[source], folder, "object.o");
    let path = format!("-Wl,-rpath,{libomp}");
    let arguments = ["-L", libomp, "-lomp", &path];
    Some(compile("gcc", &arguments, &[object.to_str().unwrap()], folder, name))
}

/// A command that runs with the channel and the agent, as started by a user who has set `variables`.
fn with_agent(channel: &Channel, program: &Path, variables: &[(&str, &Path)]) -> Command {
    let inherited = |name: &str| {
        let mut set = variables.iter();
        set.find(|(known, _)| *known == name)
            .map(|(_, value)| OsString::from(value))
    };
    let mut command = Command::new(program);
    command
        .envs(variables.iter().copied())
        .envs(channel.environment(inherited, Some(agent()), None));
    command
}

/// Runs to the end, which must be successful, and returns the output.
fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}, {errors}", output.status);
    assert_eq!(errors, "", "nothing of ours prints");
    output
}

/// Runs `program` with the agent and reads the totals.
fn totals(program: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Totals {
    let channel = Channel::create().unwrap();
    succeed(with_agent(&channel, program, variables).args(arguments));
    channel.totals()
}

/// The totals of heartbeats, regions and barriers.
fn counts(totals: &Totals) -> [Option<u64>; 3] {
    [&HEARTBEAT, &REGIONS, &BARRIERS].map(|source| totals.get(source))
}

/// The operations of `agent/tests/constructs.c` in its ten rounds: construct, regions, barriers.
const CONSTRUCTS: [(&str, u64, u64); 19] = [
    ("empty", 10, 0),
    ("static_loop", 10, 10),
    ("dynamic_loop", 10, 10),
    ("guided_loop", 10, 10),
    ("ordered_loop", 10, 10),
    ("loop_nowait", 10, 0),
    ("combined_loops", 80, 0),
    ("reduction", 10, 0),
    ("task_reduction", 10, 0),
    ("loop_with_task_reduction", 10, 10),
    ("sections", 10, 10),
    ("combined_sections", 10, 0),
    ("single", 10, 10),
    ("tasks", 10, 0),
    ("explicit_barriers", 10, 70),
    // One region of three threads, each of which opens one that has a barrier.
    ("nested", 40, 30),
    ("nested_inactive", 40, 30),
    ("team_of_one", 10, 10),
    ("barrier_outside_regions", 0, 0),
];

fn assert_constructs_are_counted(program: &Path, more: &[(&str, u64, u64)]) {
    for &(construct, regions, barriers) in CONSTRUCTS.iter().chain(more) {
        let counted = totals(program, &[construct], &[("OMP_CANCELLATION", Path::new("true"))]);
        assert_eq!(counts(&counted), [None, Some(regions), Some(barriers)], "{construct}");
    }
}

#[test]
fn every_construct_that_gcc_compiles_for_libgomp_is_counted_exactly() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &["-fopenmp"], &["constructs.c"], &folder, "constructs");
    let more = [
        ("copyprivate", 10, 10),
        ("cancelled_loop", 10, 10),
        ("league_of_teams", 20, 0),
    ];
    assert_constructs_are_counted(&program, &more);
}

#[test]
fn every_construct_that_clang_compiles_for_libomp_is_counted_exactly() {
    if !exists("clang") {
        pinfold_testing::skip("no clang");
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = compile("clang", &["-fopenmp"], &["constructs.c"], &folder, "constructs");
    // libomp reports the barriers of copyprivate as internal ones, and each initial team of a league as a region. A
    // cancelled dynamic loop fails an assertion in libomp 14, with or without the agent.
    assert_constructs_are_counted(&program, &[("copyprivate", 10, 0), ("league_of_teams", 40, 0)]);
}

#[test]
fn a_program_compiled_by_gcc_that_runs_on_libomp_is_not_counted_twice() {
    let folder = TempDir::new().unwrap();
    let Some(program) = compile_for_libomp("constructs.c", &folder, "constructs") else {
        pinfold_testing::skip("no libomp");
        return;
    };
    let more = [
        ("copyprivate", 10, 10),
        ("cancelled_loop", 10, 10),
        ("league_of_teams", 40, 0),
    ];
    assert_constructs_are_counted(&program, &more);
}

#[test]
fn regions_compiled_by_a_very_old_gcc_are_counted() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &["-fopenmp"], &["old_entry_points.c"], &folder, "old");
    assert_eq!(totals(&program, &[], &[]).get(&REGIONS), Some(10));
    match compile_for_libomp("old_entry_points.c", &folder, "old") {
        Some(program) => assert_eq!(totals(&program, &[], &[]).get(&REGIONS), Some(10)),
        None => pinfold_testing::skip("libomp is not installed"),
    }
}

#[test]
fn two_private_copies_of_libgomp_each_serve_their_own_library() {
    let folder = TempDir::new().unwrap();
    let original = Command::new("gcc").arg("-print-file-name=libgomp.so").output().unwrap();
    let original = fs::read(String::from_utf8(original.stdout).unwrap().trim()).unwrap();
    let plugins = [b'A', b'B'].map(|letter| {
        // The copy gets another name, or the linker would take both for one library.
        let mut copy = original.clone();
        let name = b"libgomp.so.1\0";
        while let Some(place) = copy.windows(name.len()).position(|bytes| bytes == name) {
            copy[place + name.len() - 2] = letter;
        }
        let letter = char::from(letter);
        let runtime = folder.path().join(format!("libgomp.so.{letter}"));
        fs::write(&runtime, copy).unwrap();
        let arguments = ["-shared", "-Wl,-rpath,$ORIGIN", runtime.to_str().unwrap()];
        let object = compile("gcc", &["-fopenmp", "-fPIC", "-c"], &["plugin.c"], &folder, "plugin.o");
        let name = format!("plugin{letter}.so");
        compile("gcc", &arguments, &[object.to_str().unwrap()], &folder, &name)
    });
    let host = compile("gcc", &["-ldl"], &["plugin_host.c"], &folder, "host");

    let counted = totals(&host, &plugins.each_ref().map(|path| path.to_str().unwrap()), &[]);
    // Five rounds of two regions, each with two barriers before its end: an explicit one and the one of `single`.
    assert_eq!(counts(&counted), [None, Some(10), Some(20)]);
}

#[test]
fn a_program_without_openmp_has_no_count_of_regions_and_not_a_count_of_zero() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &[], &["beats_and_forks.c"], &folder, "program");
    assert_eq!(counts(&totals(&program, &[], &[])), [Some(2001), None, None]);
}

#[test]
fn the_heartbeats_of_eight_threads_are_all_counted() {
    let folder = TempDir::new().unwrap();
    let arguments = ["-std=c++11", "-pthread"];
    let program = compile("g++", &arguments, &["heartbeats.cpp"], &folder, "heartbeats");
    assert_eq!(totals(&program, &["8", "100000"], &[]).get(&HEARTBEAT), Some(800_000));
}

#[test]
fn nothing_is_lost_when_there_are_more_threads_than_slots() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &["-pthread"], &["short_lived_threads.c"], &folder, "threads");
    assert_eq!(totals(&program, &[], &[]).get(&HEARTBEAT), Some(30_000));
}

#[test]
fn the_bytes_of_all_calls_of_sockets_are_counted_once() {
    let folder = TempDir::new().unwrap();
    for (name, arguments) in [("plain", &[][..]), ("fortified", &["-D_FORTIFY_SOURCE=2"][..])] {
        let program = compile("gcc", arguments, &["sockets.c"], &folder, name);
        let channel = Channel::create().unwrap();
        let output = succeed(&mut with_agent(&channel, &program, &[]));
        let moved = String::from_utf8_lossy(&output.stdout).trim().parse();
        assert_eq!(Ok(channel.socket_bytes()), moved, "{name}");
        assert_eq!(counts(&channel.totals()), [None, None, None], "{name}");
    }
}

#[test]
fn heartbeats_need_no_agent() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &[], &["beats_and_forks.c"], &folder, "program");
    let channel = Channel::create().unwrap();
    succeed(Command::new(program).envs(channel.environment(|_| None, None, None)));
    assert_eq!(channel.totals().get(&HEARTBEAT), Some(2001));
}

#[test]
fn the_header_is_free_of_warnings_in_strict_c99_and_cpp11() {
    let folder = TempDir::new().unwrap();
    let strict = ["-pedantic", "-Wconversion", "-Wshadow", "-pthread"];
    let c = ["-std=c99"];
    let cpp = ["-std=c++11", "-Wold-style-cast", "-Wzero-as-null-pointer-constant"];
    for (compiler, language, source) in [
        ("gcc", &c[..], "short_lived_threads.c"),
        ("clang", &c[..], "short_lived_threads.c"),
        ("g++", &cpp[..], "heartbeats.cpp"),
        ("clang++", &cpp[..], "heartbeats.cpp"),
    ] {
        if !exists(compiler) {
            pinfold_testing::skip(format_args!("no {compiler}"));
            continue;
        }
        compile(
            compiler,
            &[&strict[..], language].concat(),
            &[source],
            &folder,
            "program",
        );
    }
}

#[test]
fn programs_run_without_a_channel() {
    let folder = TempDir::new().unwrap();
    let beats = compile("gcc", &[], &["beats_and_forks.c"], &folder, "beats");
    succeed(Command::new(beats).env_remove("PINFOLD_CHANNEL"));
    for compiler in ["gcc", "clang"] {
        if !exists(compiler) {
            pinfold_testing::skip(format_args!("no {compiler}"));
            continue;
        }
        let regions = compile(compiler, &["-fopenmp"], &["constructs.c"], &folder, "regions");
        let mut command = Command::new(regions);
        command
            .arg("nested")
            .env_remove("PINFOLD_CHANNEL")
            .env("LD_PRELOAD", agent());
        succeed(&mut command);
    }
}

/// A file laid out as a channel, with this magic number and version, and its content.
fn channel_file(folder: &TempDir, magic: [u8; 8], version: u32) -> (PathBuf, Vec<u8>) {
    let path = folder.path().join("channel");
    let mut bytes = [magic.as_slice(), &version.to_ne_bytes()].concat();
    bytes.resize(1 << 20, 0);
    fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

#[test]
fn a_file_that_is_no_channel_of_this_version_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &[], &["beats_and_forks.c"], &folder, "program");
    let beat_into = |path: &Path| succeed(Command::new(&program).env("PINFOLD_CHANNEL", path));
    let (path, bytes) = channel_file(&folder, *b"PNFDCHNL", 1);
    beat_into(&path);
    assert!(
        fs::read(path).unwrap() != bytes,
        "the right magic number and version are accepted"
    );
    for (magic, version) in [(*b"PNFDCHNL", 2), ([0; 8], 1)] {
        let (path, bytes) = channel_file(&folder, magic, version);
        beat_into(&path);
        assert!(fs::read(path).unwrap() == bytes, "{magic:?} {version}");
    }
    let short = folder.path().join("short");
    fs::write(&short, b"PNFDCHNL\x01\0\0\0").unwrap();
    for odd in [&short, folder.path(), Path::new("/dev/null"), Path::new("/nowhere")] {
        beat_into(odd);
    }
}

#[test]
fn a_setuid_program_does_not_trust_the_environment() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &[], &["beats_and_forks.c"], &folder, "program");
    let (path, untouched) = channel_file(&folder, *b"PNFDCHNL", 1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if std::os::unix::fs::chown(&program, Some(65_534), None).is_err() {
        pinfold_testing::skip("only root can create a program of another user");
        return;
    }
    succeed(Command::new(&program).env("PINFOLD_CHANNEL", &path));
    let counted = fs::read(&path).unwrap();
    assert!(counted != untouched, "without the setuid bit it counts");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    succeed(Command::new(&program).env("PINFOLD_CHANNEL", &path));
    assert!(fs::read(&path).unwrap() == counted);
}

#[test]
fn libraries_that_the_user_preloads_stay_first() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &["-fopenmp"], &["constructs.c"], &folder, "constructs");
    let library = compile("gcc", &["-shared", "-fPIC"], &["user_preload.c"], &folder, "user.so");
    let channel = Channel::create().unwrap();
    let output = succeed(with_agent(&channel, &program, &[("LD_PRELOAD", &library)]).arg("empty"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "user's preload\n");
    assert_eq!(channel.totals().get(&REGIONS), Some(10));
}

#[test]
fn a_users_openmp_tool_goes_before_ours() {
    if !exists("clang") {
        pinfold_testing::skip("no clang");
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = compile("clang", &["-fopenmp"], &["constructs.c"], &folder, "constructs");
    let tool = compile("clang", &["-shared", "-fPIC"], &["user_tool.c"], &folder, "tool.so");

    let channel = Channel::create().unwrap();
    let output = succeed(with_agent(&channel, &program, &[("OMP_TOOL_LIBRARIES", &tool)]).arg("empty"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "user's tool\n");
    assert_eq!(channel.totals().get(&REGIONS), None, "no source counts");

    let declines = [("OMP_TOOL_LIBRARIES", &*tool), ("USER_TOOL_DECLINES", Path::new("1"))];
    assert_eq!(totals(&program, &["empty"], &declines).get(&REGIONS), Some(10));
}

#[test]
fn a_user_who_disables_openmp_tools_gets_none() {
    if !exists("clang") {
        pinfold_testing::skip("no clang");
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = compile("clang", &["-fopenmp"], &["constructs.c"], &folder, "constructs");
    let disabled = [("OMP_TOOL", Path::new("disabled"))];
    assert_eq!(totals(&program, &["empty"], &disabled), Totals::default());
}

#[test]
fn a_program_with_address_sanitizer_still_starts() {
    let sanitizer = Command::new("gcc").arg("-print-file-name=libasan.so").output().unwrap();
    if !Path::new(String::from_utf8(sanitizer.stdout).unwrap().trim()).is_absolute() {
        pinfold_testing::skip("no libasan");
        return;
    }
    let folder = TempDir::new().unwrap();
    let arguments = ["-fsanitize=address", "-fopenmp"];
    let program = compile("gcc", &arguments, &["constructs.c"], &folder, "constructs");
    assert_eq!(totals(&program, &["empty"], &[]).get(&REGIONS), Some(10));
}

#[test]
fn a_program_that_outlives_its_channel_goes_on() {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &[], &["beats_and_forks.c"], &folder, "program");
    let channel = Channel::create().unwrap();
    let environment = channel.environment(|_| None, Some(agent()), None);
    drop(channel);
    succeed(Command::new(program).envs(environment));
}

/// The numbers that a program prints with the agent.
fn answers(program: &Path, arguments: &[&str]) -> Vec<usize> {
    let output = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", agent())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// The output of `asks`: the number of PUs that it may run on, and the answers of three calls after its thread was
/// pinned on one.
fn answers_of_asks(arguments: &[&str]) -> Vec<usize> {
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &["-pthread"], &["asks.c"], &folder, "asks");
    answers(&program, arguments)
}

/// Whether this process may run on several PUs; otherwise the test is skipped.
fn several_pus() -> bool {
    let several = std::thread::available_parallelism().is_ok_and(|pus| pus.get() > 1);
    if !several {
        pinfold_testing::skip("only one PU is allowed, and two are needed");
    }
    several
}

#[test]
fn a_program_that_forbids_itself_system_calls_is_counted_and_not_killed() {
    let folder = TempDir::new().unwrap();
    for (compiler, language) in [("gcc", &[][..]), ("clang", &[]), ("g++", &["-x", "c++", "-std=c++20"])] {
        if !exists(compiler) {
            pinfold_testing::skip(format_args!("no {compiler}"));
            continue;
        }
        let source = [language, &["sandboxed.c"]].concat();
        let program = compile(compiler, &["-fopenmp", "-pthread"], &source, &folder, "sandboxed");
        let counted = totals(&program, &[], &[]);
        assert_eq!(
            [counted.get(&HEARTBEAT), counted.get(&REGIONS)],
            [Some(2), Some(2)],
            "{compiler}"
        );
    }
}

#[test]
fn a_program_that_only_includes_the_header_has_no_count_of_heartbeats() {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("silent.c");
    let header = agent_folder().canonicalize().unwrap().join("pinfold.h");
    fs::write(
        &source,
        format!("#include \"{}\"\nint main(void) {{ return 0; }}\n", header.display()),
    )
    .unwrap();
    let program = compile("gcc", &[], &[source.to_str().unwrap()], &folder, "silent");
    assert_eq!(counts(&totals(&program, &[], &[])), [None, None, None]);
}

#[test]
fn a_pinned_thread_reads_all_the_pus_of_its_process() {
    if several_pus() {
        let answers = answers_of_asks(&[]);
        assert_eq!(answers, [answers[0]; 5]);
    }
}

#[test]
fn a_process_that_sets_its_own_mask_reads_the_real_masks() {
    assert_eq!(answers_of_asks(&["sets"])[1..], [1, 1, 1, 1]);
}

/// The output of `counts`: the C library's numbers of PUs before and after its thread is pinned on one PU.
fn counted(compiler: &str, arguments: &[&str]) -> [Vec<usize>; 2] {
    let folder = TempDir::new().unwrap();
    let program = compile(compiler, &[], &["counts.c"], &folder, "counts");
    let answers = answers(&program, arguments);
    [answers[..4].to_vec(), answers[4..].to_vec()]
}

#[test]
fn a_pinned_thread_counts_as_many_pus_as_before_it_was_pinned() {
    for compiler in ["gcc", "musl-gcc"] {
        if exists(compiler) {
            let [before, after] = counted(compiler, &[]);
            assert_eq!(after, before, "{compiler}");
        } else {
            pinfold_testing::skip("no musl-gcc (apt install musl-tools)");
        }
    }
}

#[test]
fn a_process_that_sets_its_own_mask_counts_its_own_pus_with_musl() {
    if !exists("musl-gcc") {
        pinfold_testing::skip("no musl-gcc (apt install musl-tools)");
        return;
    }
    assert_eq!(counted("musl-gcc", &["sets"])[1], [1; 4]);
}

#[test]
fn a_child_that_sets_its_own_mask_before_its_exec_says_nothing_about_its_parent() {
    if !several_pus() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = compile("gcc", &[], &["pins_child.c"], &folder, "pins_child");
    for (who, parent_reads_all) in [("vfork", true), ("fork", true), ("both", false)] {
        let answers = answers(&program, &[who]);
        let parent = if parent_reads_all { answers[0] } else { 1 };
        assert_eq!(answers, [answers[0], 1, parent], "{who}");
    }
}
