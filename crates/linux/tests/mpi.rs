//! The interposer that counts MPI calls, with the implementations of MPI that are installed: programs from `agent/tests`
//! are compiled, run with two ranks and a channel, and must be counted exactly.

use pinfold_core::sources::MPI;
use pinfold_linux::channel::Channel;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The ranks of each program.
const RANKS: u64 = 2;

/// An implementation of MPI: the suffix of its commands in Debian.
#[derive(Clone, Copy)]
struct Implementation(&'static str);

/// Those whose launcher and compiler are installed. The others are reported as skipped.
fn implementations(compiler: &str) -> impl Iterator<Item = Implementation> {
    ["openmpi", "mpich"].into_iter().map(Implementation).filter(move |mpi| {
        let missing = ["mpirun", compiler]
            .map(|name| mpi.command(name))
            .into_iter()
            .find(|command| {
                let version = Command::new(command).arg("--version").output();
                !version.is_ok_and(|version| version.status.success())
            });
        if let Some(command) = &missing {
            pinfold_testing::skip(format_args!("no {command}, or it does not work"));
        }
        missing.is_none()
    })
}

fn agent_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent")
}

/// Builds the interposer, once.
fn interposer() -> &'static Path {
    static INTERPOSER: OnceLock<PathBuf> = OnceLock::new();
    INTERPOSER.get_or_init(|| {
        let made = Command::new("make").arg("-C").arg(agent_folder()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let built = agent_folder().join("../target/agent/libpinfold_mpi.so");
        built.canonicalize().expect("the interposer has been built")
    })
}

impl Implementation {
    fn command(self, name: &str) -> String {
        format!("{name}.{}", self.0)
    }

    /// Compiles a file of `agent/tests` to `folder/name`.
    fn compile(self, compiler: &str, source: &str, arguments: &[&str], folder: &TempDir, name: &str) -> PathBuf {
        compile(&self.command(compiler), source, arguments, folder, name)
    }

    /// Runs two ranks of a program that load `preloaded` and the interposer. Returns the count and the output.
    fn run(self, program: &Path, arguments: &[&str], preloaded: Option<&Path>) -> (Option<u64>, String) {
        let channel = Channel::create().unwrap();
        let libraries = preloaded.into_iter().chain([interposer()]).map(Path::to_string_lossy);
        let libraries = libraries.collect::<Vec<_>>().join(":");
        let mut command = Command::new(self.command("mpirun"));
        if self.0 == "openmpi" {
            // More ranks than cores, started by root.
            command.args(["--oversubscribe", "--allow-run-as-root", "--mca", "btl", "self,vader"]);
        }
        command.args(["-n", "2", "env"]).arg(format!("LD_PRELOAD={libraries}"));
        command.args(channel.variables(|_| None, None).into_iter().map(|(name, value)| {
            let mut variable = name;
            variable.push("=");
            variable.push(value);
            variable
        }));
        let output = succeed(command.arg(program).args(arguments));
        let text = String::from_utf8(output.stdout).unwrap();
        (channel.totals().get(&MPI), text)
    }

    fn count(self, program: &Path, arguments: &[&str]) -> Option<u64> {
        self.run(program, arguments, None).0
    }
}

fn compile(compiler: &str, source: &str, arguments: &[&str], folder: &TempDir, name: &str) -> PathBuf {
    let binary = folder.path().join(name);
    let compiled = Command::new(compiler)
        .current_dir(agent_folder().join("tests"))
        .args(["-O2", "-Wall", "-Wextra", "-Werror", source, "-o"])
        .arg(&binary)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {compiler}: {error}"));
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{compiler} {source}: {errors}");
    binary
}

/// Runs to the end, which must be successful, and returns the output.
fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}, {errors}", output.status);
    output
}

/// The count of a program that runs alone, with the interposer and further variables.
fn count_of(program: &Path, variables: &[(&str, &Path)]) -> Option<u64> {
    let channel = Channel::create().unwrap();
    succeed(
        Command::new(program)
            .env("LD_PRELOAD", interposer())
            .envs(channel.variables(|_| None, None))
            .envs(variables.iter().copied()),
    );
    channel.totals().get(&MPI)
}

#[test]
fn arguments_in_registers_and_on_the_stack_and_results_pass_through() {
    let folder = TempDir::new().unwrap();
    for optimisation in ["-O0", "-O2"] {
        let shared = [optimisation, "-shared", "-fPIC"];
        let library = compile("cc", "mpi_fake.c", &shared, &folder, "libfake.so");
        let arguments = [optimisation, library.to_str().unwrap()];
        let program = compile("cc", "mpi_fake_user.c", &arguments, &folder, "user");
        succeed(&mut Command::new(&program));
        assert_eq!(count_of(&program, &[]), Some(60), "{optimisation}");
    }
}

#[test]
fn a_program_runs_without_a_channel() {
    let folder = TempDir::new().unwrap();
    let library = compile("cc", "mpi_fake.c", &["-shared", "-fPIC"], &folder, "libfake.so");
    let program = compile("cc", "mpi_fake_user.c", &[library.to_str().unwrap()], &folder, "user");
    succeed(Command::new(&program).env("LD_PRELOAD", interposer()));
    assert_eq!(count_of(&program, &[("PINFOLD_CHANNEL", Path::new("/nowhere"))]), None);
}

#[test]
fn a_function_that_no_library_defines_is_named() {
    let folder = TempDir::new().unwrap();
    let program = compile("cc", "../../tests/programs/mpi_weak.c", &["-ldl"], &folder, "weak");
    let mut command = Command::new(program);
    let output = command.arg("call").env("LD_PRELOAD", interposer()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("calls MPI_Allreduce, and no loaded library defines it"),
        "{errors}"
    );
}

#[test]
fn functions_of_mpi_4_are_not_found_where_the_library_may_lack_them() {
    let folder = TempDir::new().unwrap();
    let program = compile("cc", "../../tests/programs/mpi_weak.c", &["-ldl"], &folder, "weak");
    let output = succeed(Command::new(program).env("LD_PRELOAD", interposer())).stdout;
    assert_eq!(
        String::from_utf8(output).unwrap(),
        "weak references: 1, dlsym: 1, MPI 4: 0\n"
    );
}

#[test]
fn each_call_that_stands_for_progress_counts_once() {
    let folder = TempDir::new().unwrap();
    for mpi in implementations("mpicc") {
        let program = mpi.compile("mpicc", "mpi_calls.c", &["-pthread"], &folder, mpi.0);
        let file = format!("MPI_FILE={}", folder.path().join("file").display());
        for (kind, calls) in [
            ("nothing", 0),
            ("blocking", 20),
            ("sendrecv", 10),
            ("nonblocking", 30),
            ("polls", 10),
            ("collectives", 40),
            ("one_sided", 31),
            ("threads", 4000),
            ("profiling", 20),
        ] {
            assert_eq!(mpi.count(&program, &[kind]), Some(RANKS * calls), "{}: {kind}", mpi.0);
        }
        let program = [file.as_str(), program.to_str().unwrap(), "files"];
        assert_eq!(
            mpi.count(Path::new("env"), &program),
            Some(RANKS * 20),
            "{}: files",
            mpi.0
        );
    }
}

#[test]
fn calls_through_fortran_bindings_count_once() {
    let folder = TempDir::new().unwrap();
    for mpi in implementations("mpif90") {
        for bindings in ["F77", "F90", "F08"] {
            let define = format!("-D{bindings}");
            // The compiler warns of the arguments that it cannot check.
            let options = ["-cpp", &define, "-Wno-error", "-fallow-argument-mismatch"];
            let program = mpi.compile("mpif90", "mpi_calls.f90", &options, &folder, bindings);
            assert_eq!(mpi.count(&program, &[]), Some(RANKS * 60), "{}: {bindings}", mpi.0);
        }
    }
}

#[test]
fn an_exception_passes_through_a_call() {
    let folder = TempDir::new().unwrap();
    for mpi in implementations("mpicxx") {
        let program = mpi.compile("mpicxx", "mpi_throws.cpp", &["-Wno-cast-function-type"], &folder, mpi.0);
        assert_eq!(mpi.count(&program, &[]), Some(RANKS * 3), "{}", mpi.0);
    }
}

#[test]
fn a_profiling_tool_and_the_interposer_both_count_each_call_once() {
    let folder = TempDir::new().unwrap();
    let sum = |output: &str| -> u64 {
        let counts = output.lines().filter_map(|line| line.strip_prefix("tool: "));
        counts.map(|count| count.parse::<u64>().unwrap()).sum()
    };
    for mpi in implementations("mpicc") {
        let tool = mpi.compile("mpicc", "mpi_tool.c", &["-shared", "-fPIC"], &folder, "tool.so");
        let alone = mpi.compile("mpicc", "mpi_calls.c", &["-pthread"], &folder, "alone");
        let (tool_path, inside) = (tool.to_str().unwrap(), "-Wl,--whole-archive");
        let linked = mpi.compile("mpicc", "mpi_calls.c", &["-pthread", tool_path], &folder, "linked");
        let part = ["-pthread", inside, "mpi_tool.c", "-Wl,--no-whole-archive"];
        let part = mpi.compile("mpicc", "mpi_calls.c", &part, &folder, "part");
        for (place, program, preloaded) in [
            ("before the interposer", &alone, Some(tool.as_path())),
            ("behind the interposer", &linked, None),
            ("in the program", &part, None),
        ] {
            // Of the four calls of a round, the tool replaces two.
            let (count, output) = mpi.run(program, &["collectives"], preloaded);
            assert_eq!(
                (count, sum(&output)),
                (Some(RANKS * 40), RANKS * 20),
                "{}: {place}",
                mpi.0
            );
        }
    }
}

#[test]
fn a_plugin_that_brings_its_own_mpi_library_is_counted() {
    let folder = TempDir::new().unwrap();
    let host = compile("gcc", "mpi_host.c", &["-ldl"], &folder, "host");
    for mpi in implementations("mpicc") {
        let plugin = mpi.compile("mpicc", "mpi_plugin.c", &["-shared", "-fPIC"], &folder, "plugin.so");
        assert_eq!(
            mpi.count(&host, &[plugin.to_str().unwrap()]),
            Some(RANKS * 20),
            "{}",
            mpi.0
        );
    }
}

#[test]
fn a_program_without_mpi_has_no_count_and_not_a_count_of_zero() {
    for mpi in implementations("mpicc") {
        assert_eq!(mpi.count(Path::new("true"), &[]), None, "{}", mpi.0);
    }
}
