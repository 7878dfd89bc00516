"""Services in four languages: each answers requests with a hash of some data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinfold.evaluation.progress.figures import Asked, Figure
from pinfold.evaluation.progress.program import SOURCES, path_of
from pinfold.evaluation.progress.programs.servers import Server, wrk
from pinfold.evaluation.progress.quota import Group


class Service(Server):
    """A service that counts its answers."""

    figure_is = "answers, by the service"

    def __init__(self, name: str, command: str, source: str) -> None:
        """Name its language, the command that runs it, and its source."""
        self.name = self.kind = f"{name} service"
        self._command, self._source = command, SOURCES / source
        self.needs = (command, "wrk")

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del folder, amount
        return [path_of(self._command), str(self._source.resolve()), str(self.port)]

    def load(self, folder: Path) -> Sequence[str]:
        """Return wrk's command line."""
        del folder
        return wrk(self.port, "/")

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of answers."""
        del folder, group
        pattern = r"answers (?P<value>\d+) at (?P<at>[\d.]+)\n"
        return Asked(self.port, b"GET /answers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", pattern)


class PythonService(Service):
    """The service in the Python that runs this module."""

    def __init__(self) -> None:
        """Describe it."""
        super().__init__("Python", "python3", "service.py")

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        return [sys.executable, *super().command(folder, amount)[1:]]


class GoService(Service):
    """The service in Go, a static program."""

    def __init__(self) -> None:
        """Describe it."""
        super().__init__("Go", "go", "service.go")

    def prepare(self, folder: Path) -> None:
        """Compile it."""
        words = [path_of("go"), "build", "-o", str(folder / "service"), str(self._source)]
        subprocess.run(words, check=True, env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"})

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del amount
        return [str(folder / "service"), str(self.port)]


class JavaService(Service):
    """The service in Java, compiled before."""

    def __init__(self) -> None:
        """Describe it."""
        super().__init__("Java", "java", "Service.java")
        self.needs = ("java", "javac", "wrk")

    def prepare(self, folder: Path) -> None:
        """Compile it."""
        subprocess.run([path_of("javac"), "-d", str(folder), str(self._source)], check=True)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del amount
        return [path_of("java"), "-cp", str(folder), "Service", str(self.port)]

    def environment(self) -> Mapping[str, str]:
        """Return nothing: the options of a caller's Java are not the service's."""
        return {"JAVA_TOOL_OPTIONS": ""} if "JAVA_TOOL_OPTIONS" in os.environ else {}


SERVICES = (PythonService(), JavaService(), GoService(), Service("node", "node", "service.js"))
