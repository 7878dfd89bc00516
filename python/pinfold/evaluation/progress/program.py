"""A real program: how it is prepared and started, who asks it for work, and what shows its own progress."""

from __future__ import annotations

import os
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinfold.evaluation.progress.figures import Figure
from pinfold.evaluation.progress.quota import Group

SOURCES = Path("evaluation/progress")
"""The programs of the table that are the project's own."""


class Program(ABC):
    """A program of the table.

    Attributes
    ----------
    name : str
        What it is called in the table.
    kind : str
        What it is.
    figure_is : str
        Its own figure of progress, in words.
    needs : tuple of str
        The commands that must be installed.
    user : str or None
        The user that root starts it as; None for root.
    """

    name: str
    kind: str
    figure_is: str
    needs: tuple[str, ...] = ()
    user: str | None = None

    def missing(self) -> list[str]:
        """Return the commands that are not installed."""
        return [command for command in self.needs if not found(command)]

    def prepare(self, folder: Path) -> None:
        """Make what it reads, once."""
        del folder

    def clear(self, folder: Path) -> None:
        """Remove what an earlier run has made."""
        del folder

    def clean(self, folder: Path) -> None:
        """Remove what takes room after the last run."""
        del folder

    @abstractmethod
    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return its command line.

        Args:
            folder: the prepared folder, in which it runs.
            amount: the progress after which it ends, in units of its figure; None for more than a minute of work.
        """

    def environment(self) -> Mapping[str, str]:
        """Return variables that it needs."""
        return {}

    @property
    def ends(self) -> bool:
        """Whether it can end after an amount of progress. A server cannot."""
        return True

    def is_ready(self, folder: Path) -> bool:
        """Return whether it takes requests."""
        del folder
        return True

    def load(self, folder: Path) -> Sequence[str] | None:
        """Return the command line of its load generator, which pinfold does not see; None without one."""
        del folder
        return None

    @abstractmethod
    def figure(self, folder: Path, group: Group) -> Figure:
        """Return its own figure of progress.

        Args:
            folder: the folder in which it runs.
            group: the group with its processes.
        """


def found(command: str) -> str | None:
    """Return the path of an installed command. Debian has PostgreSQL's and the administrator's out of ``PATH``."""
    places = [os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]
    places += map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
    return shutil.which(command, path=os.pathsep.join(places))


def path_of(command: str) -> str:
    """Return the path of a command that is installed."""
    path = found(command)
    if path is None:
        raise FileNotFoundError(f"`{command}` is not installed")
    return path


def as_user(user: str | None) -> Sequence[str]:
    """Return the words that start a command as another user. Only root needs them, and only root can use them."""
    if user is None or os.geteuid() != 0:
        return []
    return [path_of("setpriv"), "--reuid", user, "--regid", user, "--init-groups"]


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    """Return whether a server takes connections at this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
