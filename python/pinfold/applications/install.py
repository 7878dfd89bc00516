"""Installs the applications' packages: Debian's by apt-get, and PyPI's into an environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pinfold.applications.description import Application
from pinfold.applications.places import Places

APT = ("apt-get", "--quiet=2", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0")

#: With a status of 101 no package starts its server.
POLICY = Path("/usr/sbin/policy-rc.d")


def install(applications: Iterable[Application], places: Places) -> dict[str, str]:
    """Install the missing packages of applications.

    Returns:
        The reason for each application that could not be installed.
    """
    applications = list(applications)
    failed = {}
    with _no_services():
        for application in applications:
            if reason := _debian(application.packages):
                failed[application.name] = reason
    wanted = sorted({package for application in applications for package in application.python})
    if reason := _python(["numpy", *wanted], places):
        failed |= {application.name: reason for application in applications if application.python}
    return failed


def is_installed(application: Application, places: Places) -> bool:
    """Return whether all packages of an application are there."""
    found = versions(application, places)
    return all(found.get(package) for package in (*application.packages, *application.python))


def versions(application: Application, places: Places) -> dict[str, str]:
    """Return the versions of an application's packages."""
    found: dict[str, str] = {}
    if application.packages:
        command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *application.packages]
        found |= dict(line.split(" ", 1) for line in _output(command).splitlines())
    pip = places.virtual_environment / "bin" / "pip"
    if application.python and pip.exists():
        listed = _output([str(pip), "list", "--format", "freeze"])
        installed = dict(line.split("==", 1) for line in listed.splitlines() if "==" in line)
        names = {name.lower().replace("_", "-"): version for name, version in installed.items()}
        found |= {name: names[name.lower()] for name in application.python if name.lower() in names}
    return found


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _debian(packages: Sequence[str]) -> str | None:
    command = ["dpkg-query", "--show", "--showformat", "${Package}=${db:Status-Status}\n", *packages]
    there = set(_output(command).split()) if packages else set()
    missing = [package for package in packages if f"{package}=installed" not in there]
    if not missing:
        return None
    if os.geteuid() != 0:
        return f"only root can install packages: apt-get install --no-install-recommends {' '.join(missing)}"
    print(f"applications: installing {' '.join(missing)}", file=sys.stderr)
    words = [*APT, "install", "--yes", "--no-install-recommends", *missing]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    return None if done.returncode == 0 else f"apt-get cannot install {' '.join(missing)}: {_last(done.stderr)}"


def _python(packages: Sequence[str], places: Places) -> str | None:
    folder = places.virtual_environment
    if not (folder / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    words = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *packages]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return None if done.returncode == 0 else f"pip cannot install {' '.join(packages)}: {_last(done.stderr)}"


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]


@contextmanager
def _no_services() -> Iterator[None]:
    """Keep packages from starting their servers, unless the machine already has such a policy."""
    if POLICY.exists() or os.geteuid() != 0:
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
