"""The binary in root file systems of other distributions, which scripts/root-file-systems unpacks; `make test-release`.

Each program is compiled with the libraries of its distribution. So the agent is loaded by the C library of that
distribution, and counts the regions of that libgomp.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PATIENCE, QUICK, ROOT
from test_dist import made, only

FOLDER = ROOT / "target/root-file-systems"

#: The version of the C library of each.
GLIBC = {"debian-11": "2.31", "debian-12": "2.36", "debian-13": "2.41"}

#: The version of Slurm of each.
SLURM = {"debian-11": (20, 11), "debian-12": (22, 5), "debian-13": (24, 11)}

#: What bubblewrap gives each beside its files.
SYSTEM = ["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--tmpfs", "/run", "--tmpfs", "/tmp"]

#: Regions for longer than a quick search.
PROGRAM = ("/work/regions", "2")


@dataclass(frozen=True)
class Inside:
    """A root file system, which nothing changes, with the binary and a folder /work."""

    root: Path
    binary: Path
    work: Path

    def __call__(self, *words: str, path: str = "/usr/bin:/bin") -> "subprocess.CompletedProcess[str]":
        """Run a command in it."""
        command = ["bwrap", "--unshare-pid", "--die-with-parent", "--clearenv", "--tmpfs", "/"]
        for one in sorted(self.root.iterdir()):
            if one.is_symlink():
                command += ["--symlink", str(one.readlink()), f"/{one.name}"]
            elif one.is_dir():
                command += ["--ro-bind", str(one), f"/{one.name}"]
        command += [*SYSTEM, "--ro-bind", str(self.binary), "/opt/pinfold", "--bind", str(self.work), "/work"]
        command += ["--chdir", "/work", "--setenv", "PATH", path, "--setenv", "HOME", "/work", "--", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def succeeds(self, *words: str) -> str:
        """Run a command that must succeed, and return what it printed."""
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def enter(binary: Path, tmp_path: Path) -> Callable[[str], Inside]:
    """Return a function that returns a root file system by its name."""

    def find(name: str) -> Inside:
        if shutil.which("bwrap") is None:
            pytest.skip("bwrap is not installed (apt install bubblewrap)")
        if not (FOLDER / name).is_dir():
            pytest.skip(f"there is no root file system of {name}; `scripts/root-file-systems` gets it")
        inside = Inside(FOLDER / name, binary, tmp_path)
        tried = inside("/opt/pinfold", "--version")
        if tried.returncode != 0 and tried.stderr.startswith("bwrap: "):
            pytest.skip(f"no root file system can be entered here: {tried.stderr.strip()}")
        return inside

    return find


@pytest.fixture(params=GLIBC)
def debian(request: pytest.FixtureRequest, enter: Callable[[str], Inside]) -> Inside:
    """Return a root file system of Debian, with a program that its own GCC has compiled."""
    inside = enter(request.param)
    shutil.copy(ROOT / "tests/programs/regions.c", inside.work)
    inside.succeeds("gcc", "-O2", "-fopenmp", "-o", "regions", "regions.c")
    assert f" {GLIBC[request.param]}\n" in inside.succeeds("ldd", "--version")
    return inside


@pytest.fixture
def musl(enter: Callable[[str], Inside]) -> Inside:
    """Return a root file system without glibc, with a program that is linked to musl and to a libgomp for it."""
    inside = enter("musl")
    here = inside.root / "usr/lib/x86_64-linux-musl"
    specs = inside.work / "specs"
    specs.write_text(re.sub("/usr/(?=lib|include)", f"{inside.root}/usr/", (here / "musl-gcc.specs").read_text()))
    program = inside.work / "regions"
    source = ROOT / "tests/programs/regions.c"
    compiler = ["gcc", "-specs", str(specs)]
    subprocess.run([*compiler, "-O2", "-fopenmp", "-c", "-o", f"{program}.o", source], check=True)
    # libgomp is linked by its name here: with -fopenmp GCC would look for its own, which needs glibc.
    (runtime,) = here.glob("libgomp-*")
    link = [f"{program}.o", str(runtime), "-Wl,--allow-shlib-undefined", "-o", str(program)]
    subprocess.run([*compiler, *link], check=True, capture_output=True)
    return inside


def counted(inside: Inside) -> None:
    """Show that a program's regions are counted, and that the program ends well."""
    done = inside("/opt/pinfold", "run", "--json", "run.json", "--metric", "regions", *QUICK, "--", *PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "ld.so" not in done.stderr
    record = json.loads((inside.work / "run.json").read_text())
    assert record["metric"]["name"] == "regions"
    assert "the program ended with status 0" in done.stderr


def test_the_binary_works_in_debian(debian: Inside) -> None:
    assert "pinfold 0." in debian.succeeds("/opt/pinfold", "--version")
    assert "PU" in debian.succeeds("/opt/pinfold", "topo")


def test_an_old_glibc_loads_the_agent_which_counts_the_regions_of_its_libgomp(debian: Inside) -> None:
    counted(debian)


def test_a_shell_and_its_children_are_not_disturbed(debian: Inside) -> None:
    done = debian("/opt/pinfold", "run", "--policy", "none", "--", "sh", "-c", "ls / | wc -l; exec grep -c . regions.c")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2
    assert "ld.so" not in done.stderr
    assert "GLIBC" not in done.stderr


def test_without_qemu_record_names_what_to_install(debian: Inside) -> None:
    done = debian("/opt/pinfold", "record", "-o", "regions.pft", "--", *PROGRAM, path="/nowhere")
    assert done.returncode == 125
    assert "qemu-x86_64 is not there; install it: apt install qemu-user" in done.stderr
    assert not (debian.work / "regions.pft").exists()


def test_record_works_with_the_qemu_of_debian_12_and_names_it_elsewhere(debian: Inside) -> None:
    done = debian("/opt/pinfold", "record", "-o", "regions.pft", "--", "/work/regions", "0.1")
    if debian.root.name == "debian-12":
        assert done.returncode == 0, done.stderr
        assert len(json.loads(debian("/opt/pinfold", "trace", "info", "--json", "regions.pft").stdout)["threads"]) == 2
    else:
        assert done.returncode == 125
        assert "it must be qemu-user 7.2, as in Debian 12" in done.stderr
        assert not (debian.work / "regions.pft").exists()


def test_the_plugin_for_slurm_builds_with_the_slurm_of_each(debian: Inside) -> None:
    for one in ("Makefile", "pinfold_spank.c"):
        shutil.copy(ROOT / "slurm" / one, debian.work)
    (debian.work / "release.mk").write_text("release := 1.2.3\n")
    debian.succeeds("make", "CC=gcc", "CFLAGS=-O2 -Werror")
    assert (debian.work / "pinfold_spank.so").exists()
    major, minor = SLURM[debian.root.name]
    headers = (debian.root / "usr/include/slurm").glob("slurm*.h")
    assert any(f"SLURM_VERSION_NUMBER 0x{major:02x}{minor:02x}" in one.read_text() for one in headers)
    assert f"{major}.{minor:02}" in (ROOT / "docs/guide/jobs.md").read_text()


@pytest.fixture(scope="module")
def package(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Debian package of the binary that was built."""
    assert binary == ROOT / "target/release/pinfold"
    return only(made(tmp_path_factory.mktemp("dist"), "--no-wheel"), "*.deb")


def test_the_package_brings_all_that_the_demo_needs_but_a_compiler(debian: Inside, package: Path) -> None:
    """The two commands of `make demo`, shorter; the workloads find their header in the package."""
    shutil.copy(package, debian.work / "pinfold.deb")
    debian.succeeds("dpkg-deb", "--extract", "pinfold.deb", "root")
    shutil.copytree(ROOT / "workloads", debian.work / "workloads")
    for name in ("stream", "random_access"):
        compiler = ("gcc", "-O2", "-fopenmp", "-I", "root/usr/include", "-o", name)
        debian.succeeds(*compiler, f"workloads/{name}/{name}.c", "-lm")
    pinfold = "root/usr/bin/pinfold"
    two = ("--threads", "2", "--size", "256K", "--seconds", "2")
    said = debian.succeeds(pinfold, "run", "--policy", "autopin", *QUICK, "--", "./stream", *two)
    assert "stream: threads 2" in said
    assert "pinfold: metric: regions" in said
    if debian.root.name == "debian-12":  # It records the program.
        many = ("--threads", "16", "--mode", "independent", "--size", "1M", "--iterations", "1", "--init", "serial")
        simulated = ("--machine", "e5-4650x4", "--policy", "packed,auto", "--runs", "1", "--repeat", "30000")
        said = debian.succeeds(pinfold, "compare", *simulated, "--", "./random_access", *many)
        assert re.search(r"^auto .*", said, re.MULTILINE)


def test_the_binary_works_where_there_is_no_glibc(musl: Inside) -> None:
    assert not list(musl.root.rglob("ld-linux*"))
    assert "pinfold 0." in musl.succeeds("/opt/pinfold", "--version")
    assert "PU" in musl.succeeds("/opt/pinfold", "topo")


def test_musl_loads_the_agent_too_which_counts_the_regions_of_its_libgomp(musl: Inside) -> None:
    counted(musl)
