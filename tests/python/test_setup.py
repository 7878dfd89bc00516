"""scripts/setup, run in a separate folder with stubs for every command that would read or change the machine.

A stub is a shell script with the command's name in `bin/`; it appends its command line to the file `calls`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CARGO = '[ "$1" = --version ] && echo "cargo {version} (0 2025-01-01)"; exit 0'
#: A python3 whose venvs contain a python that is this interpreter, except for pip.
PYTHON3 = f"""
case "$*" in
-c*) echo 3.11.2 ;;
"-m venv"*)
    mkdir -p .venv/bin .venv/lib/python3.11/site-packages
    cat > .venv/bin/python <<'END'
#!/bin/sh
[ "$1" = - ] && exec {sys.executable} -
echo "pip $*" >> calls
END
    chmod +x .venv/bin/python ;;
esac"""


class Place:
    """A folder with the script, its inputs, and a PATH that has every command."""

    def __init__(self, folder: Path) -> None:
        """Create everything in this folder."""
        self.folder = folder
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/setup", folder / "scripts/setup")
        (folder / "Cargo.toml").write_text('[workspace.package]\nrust-version = "1.88"\n')
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["builder"]\n[project]\nrequires-python = ">=3.11"\n'
            'dependencies = ["needed"]\n[project.optional-dependencies]\ndev = ["checker>=2"]\n'
        )
        self.provide("dpkg-query", 'shift 2; for package; do printf "%s=installed " "$package"; done')
        self.provide("apt-get")
        self.provide("id", "echo 0")
        self.provide("uname", "echo x86_64")
        self.kernel = folder / "target/guest/kernel"
        self.kernel.mkdir(parents=True)
        self.scheduler_kernel = folder / "target/guest/scheduler-kernel"
        self.scheduler_kernel.mkdir()
        self.provide("curl", "exit 6")
        self.provide("cargo", CARGO.format(version="1.88.0"))
        self.provide("python3", PYTHON3)
        for tool in ("bash", "sh", "cat", "chmod", "cut", "dirname", "head", "mkdir", "mktemp", "printf", "rm", "sed"):
            self.lend(tool)
        for tool in ("sha256sum", "sort"):
            self.lend(tool)

    def provide(self, command: str, body: str = "") -> None:
        """Put a stub in place of this command."""
        (self.folder / "bin").mkdir(exist_ok=True)
        path = self.folder / "bin" / command
        path.write_text(f'#!/bin/sh\necho "{command} $*" >> {self.folder}/calls\n{body}\n')
        path.chmod(0o755)

    def lend(self, tool: str) -> None:
        """Make the machine's own tool available."""
        found = shutil.which(tool)
        assert found, tool
        (self.folder / "bin" / tool).symlink_to(found)

    def take(self, command: str) -> None:
        """Remove this command."""
        (self.folder / "bin" / command).unlink()

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            ["scripts/setup", *arguments],
            cwd=self.folder,
            env={"PATH": str(self.folder / "bin"), "HOME": str(self.folder / "home"), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def calls(self, command: str) -> list[str]:
        """Return the arguments of each call of this command."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.removeprefix(f"{command} ") for line in lines if line.startswith(f"{command} ")]

    def lack(self, *packages: str) -> None:
        """Mark these packages as missing: one that dpkg knew before, and others that it never knew."""
        known, *unheard_of = packages
        cases = f"{known}) printf '%s=not-installed ' {known} ;;"
        for package in unheard_of:
            cases += f" {package}) status=1 ;;"
        self.provide(
            "dpkg-query",
            f"""shift 2; status=0
            for package; do case $package in {cases} *) printf "%s=installed " "$package" ;; esac; done
            exit $status""",
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_where_nothing_is_missing_only_the_python_environment_is_made(place: Place) -> None:
    completed = place.setup()
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == "setup: making a Python environment in .venv\n"
    assert place.calls("apt-get") == []
    assert place.calls("curl") == []
    assert len(place.calls("pip")) == 1
    assert (place.folder / ".venv/requirements.txt").read_text().split() == ["builder", "needed", "checker>=2"]


def test_a_part_does_its_own_and_no_more(place: Place) -> None:
    place.lack("clang", "chromium")
    assert place.setup("build").returncode == 0
    update, install = place.calls("apt-get")
    assert update.startswith("update ")
    assert "clang" in install.split()
    assert "chromium" not in install.split()
    assert not (place.folder / ".venv").exists()
    completed = place.setup("python")
    assert completed.stderr == "setup: making a Python environment in .venv\n"
    assert place.calls("apt-get") == [update, install]


def test_the_lists_of_packages_are_got_once_in_a_run(place: Place) -> None:
    place.lack("clang", "chromium", "bubblewrap")
    assert place.setup().returncode == 0
    assert [call.split()[0] for call in place.calls("apt-get")] == ["update", "install", "install", "install"]


def test_an_unknown_part_is_an_error(place: Place) -> None:
    completed = place.setup("everything")
    assert completed.returncode == 1
    assert completed.stderr == (
        "setup: there is no part 'everything'\nsetup: The parts are build, tests, python and aarch64.\n"
    )


def test_the_environment_imports_the_package_from_its_folder(place: Place) -> None:
    place.setup()
    path = (place.folder / ".venv/lib/python3.11/site-packages/pinfold.pth").read_text()
    assert path == f"{place.folder}/python\n"


def test_the_second_time_there_is_nothing_to_do(place: Place) -> None:
    place.setup()
    completed = place.setup()
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")
    assert len(place.calls("pip")) == 1


def test_other_requirements_make_another_environment(place: Place) -> None:
    place.setup()
    project = place.folder / "pyproject.toml"
    project.write_text(project.read_text().replace("checker>=2", "checker>=3"))
    place.setup()
    assert len(place.calls("pip")) == 2
    assert "checker>=3" in (place.folder / ".venv/requirements.txt").read_text()


def test_root_gets_the_missing_packages_and_no_others(place: Place) -> None:
    place.lack("libhwloc-dev", "clang", "bzip2")
    assert place.setup().returncode == 0
    update, install = place.calls("apt-get")
    assert update.startswith("update ")
    assert [word for word in install.split() if word in ("libhwloc-dev", "clang", "bzip2", "git", "python3")] == [
        "bzip2",
        "libhwloc-dev",
        "clang",
    ]
    assert "--yes" in install


def test_a_failed_installation_is_an_error(place: Place) -> None:
    place.lack("libhwloc-dev")
    place.provide("apt-get", '[ "$1" != install ]')
    completed = place.setup()
    assert completed.returncode == 1
    assert "Please try by hand: apt-get install --yes --no-install-recommends libhwloc-dev\n" in completed.stderr


def test_others_are_told_what_root_must_install(place: Place) -> None:
    place.lack("libhwloc-dev", "clang")
    place.provide("id", "echo 1000")
    completed = place.setup()
    assert completed.returncode == 1
    assert "    apt-get install --yes --no-install-recommends libhwloc-dev clang\n" in completed.stderr
    assert not (place.folder / ".venv").exists()


INSTALLER = """
while [ "$1" != --output ]; do shift; done
cat > "$2" <<'END'
mkdir -p "$HOME/.cargo/bin"
printf '#!/bin/sh\\necho "cargo {version} (0 2025-01-01)"\\n' > "$HOME/.cargo/bin/cargo"
chmod +x "$HOME/.cargo/bin/cargo"
END
"""


@pytest.mark.parametrize("found", [None, "1.63.0"])
def test_rust_is_installed_by_rustup_where_it_is_missing_or_old(place: Place, found: str | None) -> None:
    if found is None:
        place.take("cargo")
    else:
        place.provide("cargo", CARGO.format(version=found))
    place.provide("curl", INSTALLER.format(version="1.90.0"))
    completed = place.setup()
    assert completed.returncode == 0, completed.stderr
    assert f"Rust is {found or 'missing'}, 1.88 is needed" in completed.stderr
    assert (place.folder / "home/.cargo/bin/cargo").exists()


def test_without_rustup_and_network_the_remedy_is_named(place: Place) -> None:
    place.take("cargo")
    completed = place.setup()
    assert completed.returncode == 1
    assert "rustup could not be downloaded from https://sh.rustup.rs" in completed.stderr
    assert "Please install Rust 1.88 or later" in completed.stderr


def test_an_old_default_toolchain_of_rustup_is_not_changed(place: Place) -> None:
    place.provide("cargo", CARGO.format(version="1.80.1"))
    place.provide("rustup")
    completed = place.setup()
    assert place.calls("rustup") == ["toolchain install stable --profile minimal --component rustfmt,clippy"]
    assert completed.returncode == 1
    assert "is still 1.80.1, 1.88 is needed" in completed.stderr
    assert "rustup default stable" in completed.stderr


def test_missing_rustfmt_and_clippy_are_added_by_rustup(place: Place) -> None:
    place.provide("cargo", '[ "$1" = --version ] && echo "cargo 1.88.0 (0 2025-01-01)"')
    place.provide("rustup")
    assert place.setup().returncode == 0
    assert place.calls("rustup") == ["component add rustfmt clippy"]


def test_missing_rustfmt_without_rustup_is_an_error(place: Place) -> None:
    place.provide("cargo", '[ "$1" = --version ] && echo "cargo 1.88.0 (0 2025-01-01)"')
    completed = place.setup()
    assert completed.returncode == 1
    assert "Please install rustfmt and Clippy" in completed.stderr


def test_an_old_python_is_an_error(place: Place) -> None:
    place.provide("python3", "echo 3.9.2")
    completed = place.setup()
    assert completed.returncode == 1
    assert "python3 in PATH is 3.9.2, 3.11 is needed" in completed.stderr


def test_a_failed_pip_is_an_error_and_is_tried_again(place: Place) -> None:
    place.provide("python3", PYTHON3.replace('echo "pip $*" >> calls', 'echo "pip $*" >> calls; exit 1'))
    for _ in range(2):
        completed = place.setup()
        assert completed.returncode == 1
        assert "pip could not install" in completed.stderr
    assert len(place.calls("pip")) == 2


def test_the_place_is_taken_from_the_script_and_not_from_the_caller(place: Place) -> None:
    completed = subprocess.run(
        [place.folder / "scripts/setup"],
        cwd="/",
        env={"PATH": str(place.folder / "bin"), "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert completed.returncode == 0, completed.stderr
    assert (place.folder / ".venv/requirements.txt").exists()


def test_without_a_kernel_for_the_guest_the_rest_is_set_up_and_it_is_reported(place: Place) -> None:
    place.kernel.rmdir()
    place.provide("apt-cache")
    completed = place.setup()
    assert completed.returncode == 0, completed.stderr
    assert "setup: no kernel is available; the tests in an emulated machine will be skipped" in completed.stderr
    assert (place.folder / ".venv/requirements.txt").exists()


def test_without_a_kernel_that_can_load_schedulers_the_rest_is_set_up_and_it_is_reported(place: Place) -> None:
    place.scheduler_kernel.rmdir()
    place.provide("apt-cache")
    place.lend("touch")
    completed = place.setup()
    assert completed.returncode == 0, completed.stderr
    assert "setup: none is available; these tests will be skipped" in completed.stderr
    assert not place.scheduler_kernel.exists()
    assert (place.folder / ".venv/requirements.txt").exists()


def test_on_another_architecture_no_guest_is_prepared(place: Place) -> None:
    place.kernel.rmdir()
    place.provide("uname", "echo aarch64")
    completed = place.setup()
    assert completed.stderr == "setup: making a Python environment in .venv\n"


#: An apt-get that downloads one package, and a dpkg that unpacks a static library and the name of a shared one.
DOWNLOAD = 'case "$*" in *" download "*) : > libhwloc-dev_arm64.deb ;; esac'
UNPACK = 'mkdir -p "$3/usr/lib" && : > "$3/usr/lib/libhwloc.a" && : > "$3/usr/lib/libhwloc.so"'


@pytest.fixture
def cross(place: Place) -> Place:
    """Return a place where everything for aarch64 is there but its libraries."""
    (place.folder / "rust/lib/rustlib/aarch64-unknown-linux-gnu").mkdir(parents=True)
    place.provide("rustc", f"echo {place.folder}/rust")
    place.provide("apt-get", DOWNLOAD)
    place.provide("dpkg", UNPACK)
    for tool in ("find", "mv", "touch"):
        place.lend(tool)
    return place


def test_for_aarch64_libraries_are_unpacked_once_and_not_installed(cross: Place) -> None:
    for _ in range(2):
        completed = cross.setup("aarch64")
        assert completed.returncode == 0, completed.stderr
    update, download = cross.calls("apt-get")
    assert update.endswith(" update")
    assert download.endswith(" download libhwloc-dev libpfm4-dev libsqlite3-dev")
    assert all(
        "APT::Architectures=arm64" in call and f"Dir::State={cross.folder}" in call for call in (update, download)
    )
    sysroot = cross.folder / "target/aarch64/sysroot"
    assert [file.name for file in (sysroot / "usr/lib").iterdir()] == ["libhwloc.a"]
    assert [entry.name for entry in sysroot.parent.iterdir()] == ["sysroot"]


def test_without_an_archive_for_arm64_the_reason_is_named(cross: Place) -> None:
    cross.provide("apt-get", 'case "$*" in *" download "*) exit 100 ;; esac')
    completed = cross.setup("aarch64")
    assert completed.returncode == 1
    assert "the libraries for aarch64 cannot be had" in completed.stderr
    assert not (cross.folder / "target/aarch64/sysroot").exists()


def test_the_cross_compiler_removes_no_package(cross: Place) -> None:
    cross.lack("gcc-aarch64-linux-gnu")
    assert cross.setup("aarch64").returncode == 0
    (install,) = (call for call in cross.calls("apt-get") if call.startswith("install "))
    assert "--no-remove gcc-aarch64-linux-gnu" in install


def test_rustup_adds_the_standard_library_for_aarch64(cross: Place) -> None:
    cross.provide("rustc", "echo /nowhere")
    cross.provide("rustup")
    assert cross.setup("aarch64").returncode == 0
    assert cross.calls("rustup") == ["target add aarch64-unknown-linux-gnu"]
