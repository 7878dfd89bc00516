"""What `make dist` makes: each is installed into an empty file system, and works there."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import Pinfold

ROOT = Path(__file__).resolve().parents[1]
COMPLETIONS = (
    "share/bash-completion/completions/pinfold",
    "share/zsh/site-functions/_pinfold",
    "share/fish/vendor_completions.d/pinfold.fish",
)
HEADER = Path("/usr/include/slurm/spank.h")
IN_ROOT = """
mount -t proc proc "$1/proc" && mount -t sysfs sys "$1/sys" && mount -t tmpfs run "$1/run" &&
shift_root=$1 && shift && exec chroot "$shift_root" "$@"
"""


@pytest.fixture(scope="module")
def dist(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all packages of the binary that was built."""
    assert binary == ROOT / "target/release/pinfold"
    folder = tmp_path_factory.mktemp("dist")
    return made(folder)


def made(folder: Path, *options: str) -> Path:
    """Return the folder, with packages that are compressed a little."""
    command = [str(ROOT / "scripts/dist"), *options, str(folder)]
    quick = os.environ | {"DIST_LEVEL": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quick)
    assert done.returncode == 0, done.stderr
    return folder


def only(dist: Path, pattern: str) -> Path:
    """Return the one file that the pattern matches."""
    (file,) = dist.glob(pattern)
    return file


def in_root(root: Path, *words: str) -> str:
    """Run a program with this folder as root, where nothing else is."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a program in another root folder")
    for folder in ("proc", "sys", "run", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    command = ["unshare", "--mount", "sh", "-c", IN_ROOT, "sh", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def plugin_builds(source: Path, folder: Path, version: str) -> None:
    """Show that a copy of the plugin's source, alone, gives the plugin for the Slurm of this machine."""
    files = {"LICENSE-APACHE", "LICENSE-MIT", "Makefile", "pinfold_spank.c", "plugstack.conf", "release.mk"}
    assert {one.name for one in source.iterdir()} == files
    if not HEADER.exists():
        pytest.skip(f"the plugin for Slurm cannot be built: there is no {HEADER} (Debian: libslurm-dev)")
    shutil.copytree(source, folder)
    subprocess.run(["make", "-C", folder], check=True, capture_output=True)
    plugin = folder / "pinfold_spank.so"
    assert f"pinfold {version}".encode() in plugin.read_bytes(), "it starts a binary of this version only"


def works(root: Path, program: str) -> None:
    """Show that the binary runs a program in this root folder."""
    assert "pinfold 0." in in_root(root, program, "--version")
    assert "PU" in in_root(root, program, "topo")
    said = in_root(root, program, "run", "--policy", "none", "--", program, "--version")
    assert "the program ended with status 0" in said


def test_the_tarball_works_where_nothing_else_is(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(only(dist, "*-linux.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (top,) = tmp_path.iterdir()
    assert {"bin", "etc", "include", "lib", "share"} == {one.name for one in top.iterdir()}
    assert all((top / one).read_text() for one in COMPLETIONS)
    works(tmp_path, f"/{top.name}/bin/pinfold")


def test_the_tarball_has_the_source_of_the_plugin_for_slurm(dist: Path, tmp_path: Path, binary: Path) -> None:
    with tarfile.open(only(dist, "*-linux.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    version = subprocess.check_output([binary, "--version"], text=True).split()[1]
    plugin_builds(only(tmp_path, "*/share/pinfold/slurm"), tmp_path / "slurm", version)


def test_the_debian_package_is_installed_into_an_empty_file_system_and_removed(dist: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can install a package")
    database = tmp_path / "var/lib/dpkg"
    for folder in ("info", "updates"):
        (database / folder).mkdir(parents=True)
    (database / "status").touch()
    (database / "available").touch()
    dpkg = ["dpkg", f"--root={tmp_path}", "--force-not-root", "--log=/dev/null"]
    subprocess.run([*dpkg, "--install", only(dist, "*.deb")], capture_output=True, check=True)
    works(tmp_path, "/usr/bin/pinfold")
    assert (tmp_path / "lib/systemd/system/pinfold.service").exists()
    assert (tmp_path / "usr/share/man/man1/pinfold-run.1.gz").exists()
    assert all((tmp_path / "usr" / one).exists() for one in COMPLETIONS)
    assert (tmp_path / "usr/share/pinfold/slurm/pinfold_spank.c").exists()
    assert in_root(tmp_path, "/usr/bin/pinfold", "daemon", "--check-config", "--config", "/etc/pinfold/daemon.toml")
    subprocess.run([*dpkg, "--purge", "pinfold"], capture_output=True, check=True)
    assert not list(tmp_path.rglob("pinfold*"))


def test_the_wheel_needs_no_rust(dist: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    install = [*pip, "--python", str(place / "bin/python")]
    # Without the package's sources in the search path: pip takes them for an installed package.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "PATH": "/usr/bin:/bin"
    }
    wheel = str(only(dist, "*.whl"))
    subprocess.run([*install, "install", "--no-deps", "--no-index", wheel], check=True, env=environment)
    said = subprocess.check_output([place / "bin/pinfold", "--version"], text=True, cwd=tmp_path, env=environment)
    assert said.startswith("pinfold 0.")
    beat = "import pinfold; pinfold.heartbeat(); print(pinfold.__file__)"
    said = subprocess.check_output([place / "bin/python", "-c", beat], text=True, cwd=tmp_path, env=environment)
    assert said.startswith(str(place))
    assert (place / "include/pinfold.h").exists()
    machines = "from pinfold._native import machines; print(*machines())"
    said = subprocess.check_output([place / "bin/python", "-c", machines], text=True, cwd=tmp_path, env=environment)
    assert "e5-4650x4" in said


def test_checksums_and_the_bill_of_materials_are_of_what_is_there(dist: Path, pinfold: Pinfold) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    listed = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert listed == {file.name for file in dist.iterdir()} - {"SHA256SUMS"}
    bill = json.loads(only(dist, "*.cdx.json").read_text())
    named = {one["name"]: one for one in bill["components"]}
    assert {"clap", "serde_json", "pinfold-core"} <= set(named)
    assert "proptest" not in named, "it is for tests only"
    assert all(one.get("licenses") for one in named.values())
    assert len(named["clap"]["hashes"][0]["content"]) == 64
    version = subprocess.check_output([pinfold.binary, "--version"], text=True).split()[1]
    assert bill["metadata"]["component"]["version"] == version


def test_the_same_sources_give_the_same_archives(dist: Path, tmp_path: Path) -> None:
    made(tmp_path, "--no-wheel")
    for pattern in ("*.deb", "*.tar.gz", "*.cdx.json"):
        assert only(dist, pattern).read_bytes() == only(tmp_path, pattern).read_bytes(), pattern
