"""Records the phases of an application's runs.

1. Make the input by the description's script, once for each state of the description.
2. Record each phase in a separate run, which ends with the phase. Start the load of a server when it listens.
3. Write a description beside the recording. A recording with the same description and versions is kept.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinfold.applications import inputs
from pinfold.applications.description import Application, Phase, Run
from pinfold.applications.install import versions
from pinfold.applications.places import Places

PREPARE_SECONDS = 600
RECORD_SECONDS = 600
"""Limits for programs that hang: five times the time of the slowest."""

LEAST_ACCESSES = 200_000
"""A recording with less does not have the work of a program."""

CONTINUED = re.compile(r"\npinfold: {5,}")
"""Where a line of pinfold goes on that was too long for a terminal."""

LEAST_SHARE = 0.1
"""The least share of accesses by all threads but the busiest. A program with less is not parallel."""


class FailedError(Exception):
    """An application could not be recorded; its text is the reason."""


@dataclass(frozen=True)
class Recorder:
    """Records one application."""

    application: Application
    places: Places

    def key(self) -> str:
        """Return a hash of all that determines the recordings: description, scripts, makers of inputs, versions."""
        digest = hashlib.sha256()
        for file in sorted(self.application.file.parent.glob("*")):
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        for kind in re.findall(r"\$MAKE (\w+)", self.application.prepare):
            digest.update(inspect.getsource(inputs.KINDS[kind]).encode())
        digest.update(json.dumps(versions(self.application, self.places), sort_keys=True).encode())
        return digest.hexdigest()[:32]

    def prepare(self) -> None:
        """Make the input, unless it is there.

        Raises:
            FailedError: if the script fails.
        """
        folder = self.places.work(self.application)
        made = folder / ".made"
        if made.exists() and made.read_text() == self.key():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with self._log() as log:
            script = ["bash", "-euo", "pipefail", "-c", self.application.prepare]
            try:
                done = subprocess.run(
                    script,
                    cwd=folder,
                    env=self.places.environment(self.application),
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=PREPARE_SECONDS,
                )
            except subprocess.TimeoutExpired as error:
                raise FailedError("making its input takes too long") from error
        if done.returncode != 0:
            raise FailedError(f"its input cannot be made: {self._last_line()}")
        made.write_text(self.key())

    def record(self, run: Run, phase: Phase) -> bool:
        """Record a phase, unless its recording is there; return whether it was recorded now.

        Raises:
            FailedError: if the recording has too little in it.
        """
        file = self.places.recording(run, phase)
        described = file.with_suffix(".json")
        if file.exists() and described.exists() and json.loads(described.read_text())["key"] == self.key():
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        described.unlink(missing_ok=True)
        started = time.monotonic()
        self._run(run, phase, file)
        description = self._describe(run, phase, file)
        seconds = time.monotonic() - started
        described.write_text(json.dumps(description | {"seconds": round(seconds, 1)}, indent=2) + "\n")
        return True

    def _run(self, run: Run, phase: Phase, file: Path) -> None:
        words = self._words(run, phase)
        options = ["--from", phase.begin, "--instructions", phase.length, "--stop", "-o", str(file)]
        folder = self.places.work(self.application)
        environment = dict(self.places.environment(self.application, run))
        # For a build without the recorder in the binary.
        environment |= {name: os.environ[name] for name in ("PINFOLD_PLUGIN",) if name in os.environ}
        with self._log() as log, self.places.log(self.application).with_suffix(".out").open("wb") as output:
            print(f"$ {shlex.join(words)} # {shlex.join(options)}", file=log, flush=True)
            recorded = subprocess.Popen(
                ["nice", "-n", "10", str(self.places.pinfold), "record", *options, "--", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
            )
            with _ended(recorded), self._load(environment, log):
                try:
                    recorded.wait(RECORD_SECONDS)
                except subprocess.TimeoutExpired as error:
                    raise FailedError(f"{run.title(phase)} has not ended after {RECORD_SECONDS} s") from error

    def _words(self, run: Run, phase: Phase) -> list[str]:
        names = {
            "threads": run.threads,
            "workers": run.threads - self.application.other_threads,
            "here": self.application.file.parent.resolve(),
            "python": self.places.virtual_environment / "bin" / "python",
            "phase": phase.name,
        }
        words = [word.format_map(names) for word in shlex.split(run.command)]
        program = shutil.which(words[0], path=self.places.environment(self.application)["PATH"])
        return [program or words[0], *words[1:]]

    @contextmanager
    def _load(self, environment: Mapping[str, str], log: Any) -> Iterator[None]:
        """Run the load of a server while it is recorded."""
        if not self.application.load:
            yield
            return
        if self.application.port is not None:
            _await_port(self.application.port)
        load = subprocess.Popen(
            ["bash", "-uc", self.application.load],
            cwd=self.places.work(self.application),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        with _ended(load):
            yield

    def _describe(self, run: Run, phase: Phase, file: Path) -> dict[str, Any]:
        command = [str(self.places.pinfold), "trace", "info", "--json", str(file)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise FailedError(f"{run.title(phase)}: {done.stderr.strip() or self._last_line()}")
        info = json.loads(done.stdout)
        accesses = sorted((thread["accesses"] for thread in info["threads"]), reverse=True)
        if sum(accesses) < LEAST_ACCESSES or sum(accesses[1:]) < LEAST_SHARE * sum(accesses):
            raise FailedError(
                f"{run.title(phase)}: {sum(accesses)} accesses, {sum(accesses[1:])} of them by other threads than the "
                f"busiest: {self._last_line()}"
            )
        return {
            "key": self.key(),
            "application": run.application,
            "run": run.name,
            "threads": run.threads,
            "phase": phase.name,
            "accesses": sum(accesses),
            "working_threads": sum(one > 0 for one in accesses),
            "regions": len(info["regions"]),
            "versions": versions(self.application, self.places),
        }

    @contextmanager
    def _log(self) -> Iterator[Any]:
        file = self.places.log(self.application)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as log:
            yield log

    def _last_line(self) -> str:
        text = self.places.log(self.application).read_text(encoding="utf-8", errors="replace")
        return CONTINUED.sub(" ", text).strip().rpartition("\n")[2]


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process and all of its session in the end."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_port(port: int) -> None:
    """Wait until a server listens on the loopback address.

    Raises:
        FailedError: if it does not.
    """
    deadline = time.monotonic() + PREPARE_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise FailedError(f"its server does not listen on port {port}")
