"""Programs on this machine, under policies of pinfold and policies of your own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from pinfold import binary
from pinfold._native import Configuration
from pinfold.policy import Kept, Policy
from pinfold.policy_process import Server
from pinfold.simulation import Run

SomeFile = str | os.PathLike[str]


def run(
    command: Sequence[SomeFile],
    policy: str | Policy | Configuration = "auto",
    *,
    options: Sequence[str] = (),
) -> Run:
    """Run a program on this machine. Its output goes where this process's goes.

    Args:
        command: the program and its arguments.
        policy: the name of a policy of pinfold (``pinfold run --policy help`` lists them), a `Policy` of your own, or a
            `Configuration` for the whole run.
        options: further options of ``pinfold run``, such as ``["--metric", "io"]``.

    Returns:
        what happened.

    Raises:
        PinfoldError: the program cannot be run so; the text says why.
        Exception: whatever your policy raises. The program is unpinned, and ended by SIGTERM.
    """
    return recorded(policy, options, ["--", *(os.fspath(word) for word in command)])


def recorded(policy: str | Policy | Configuration, options: Sequence[str], command: Sequence[str] = ()) -> Run:
    """Call ``pinfold run`` under a policy, and return its record.

    Args:
        policy: the name of a policy, or one of this process.
        options: the options of ``pinfold run``.
        command: the last words: what is run, if the options do not say it.

    Raises:
        PinfoldError: there is no record.
        Exception: whatever the policy raises.
    """
    if isinstance(policy, Configuration):
        policy = Kept(policy)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "run.json")
        words = [*options, "--json", str(record), *command]
        if isinstance(policy, str):
            status = subprocess.run([binary.find_binary(), "run", "--policy", policy, *words], check=False).returncode
        else:
            status = _served(policy, Path(folder, "policy"), words)
        if not record.exists() or not record.stat().st_size:
            raise binary.PinfoldError(f"pinfold ended with status {status}, and has said why on standard error")
        return Run(json.loads(record.read_text()))


def _served(policy: Policy, path: Path, words: Sequence[str]) -> int:
    """Run the binary with a policy of this process; return its exit status."""
    server = Server(policy)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        command = [str(binary.find_binary()), "run", "--policy", f"python:unix:{path}", *words]
        with subprocess.Popen(command) as child:
            answering = threading.Thread(target=_answer, args=(listener, server, child), daemon=True)
            answering.start()
            try:
                status = child.wait()
            except BaseException:
                child.terminate()
                raise
            # Without a connection the thread waits for one.
            listener.shutdown(socket.SHUT_RDWR)
            answering.join()
    if server.raised is not None:
        raise server.raised
    return status


def _answer(listener: socket.socket, server: Server, child: subprocess.Popen[bytes]) -> None:
    """Answer the questions of the binary, and end it when the policy has raised an exception."""
    try:
        connection, _ = listener.accept()
    except OSError:
        # The binary has ended before it asked anything.
        return
    with connection, connection.makefile("r") as questions, connection.makefile("w") as answers:
        try:
            server.serve(questions, answers)
        except (BrokenPipeError, ConnectionResetError) as error:
            print(f"pinfold does not wait for the policy: {error}", file=sys.stderr)
    if server.raised is not None:
        child.terminate()
