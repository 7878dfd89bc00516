"""Answers the questions of a pinfold about what a policy decides, one line each (docs/formats/policy.md).

``pinfold run --policy python:FILE.py`` starts this module with the file, and talks to it through pipes. `pinfold.run`
talks to a policy of its own process through a socket.
"""

from __future__ import annotations

import inspect
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import TextIO

from pinfold import _native
from pinfold._native import Decision, Topology
from pinfold.policy import Policy


class Server:
    """Asks a policy for a pinfold."""

    def __init__(self, policy: Policy) -> None:
        """Store the policy."""
        self._policy = policy
        self._topology: Topology | None = None
        self.raised: BaseException | None = None
        """What the policy has raised."""

    def answer(self, line: str) -> str:
        """Return the answer to a question, without the end of the line."""
        try:
            return self._answer(line)
        except Exception as error:
            self.raised = error
            return _native.failed_line("".join(traceback.format_exception_only(error)).strip())

    def _answer(self, line: str) -> str:
        asked = _native.question(line)
        if asked.method == "end":
            return _native.notes_line(self._policy.end())
        if asked.topology is not None and asked.metrics is not None:
            self._topology = asked.topology
            decision = self._policy.start(asked.topology, asked.metrics)
        else:
            assert self._topology is not None, "pinfold asks for the start first"
            assert asked.sample is not None, "pinfold asks about a sample"
            assert asked.applied is not None, "pinfold tells what was applied"
            decision = self._policy.decide(self._topology, asked.sample, asked.applied)
        if not isinstance(decision, Decision):
            raise TypeError(f"the policy answers with {type(decision)}, and must answer with a pinfold.Decision")
        return _native.decision_line(decision)

    def serve(self, questions: TextIO, answers: TextIO) -> None:
        """Answer until there are no more questions, or the policy has raised an exception."""
        for line in questions:
            answers.write(self.answer(line) + "\n")
            answers.flush()
            if self.raised is not None:
                return


def policy_of(file: Path, name: str | None) -> Policy:
    """Return the policy of a file: of the class of this name, or of its only policy.

    Raises:
        ValueError: there is no such class, or more than one policy.
    """
    # The modules beside the file can be imported, as in a program.
    sys.path.insert(0, str(file.resolve().parent))
    names = runpy.run_path(str(file), run_name=file.stem)
    policies = {
        known: value
        for known, value in names.items()
        if inspect.isclass(value) and issubclass(value, Policy) and value.__module__ == file.stem
    }
    known = ", ".join(policies) or "none"
    if name is None and len(policies) != 1:
        raise ValueError(f"{file} must have one policy, or its name after a colon; its subclasses of Policy: {known}")
    if name is not None and name not in policies:
        raise ValueError(f"{file} has no policy `{name}`; its subclasses of Policy: {known}")
    policy: type[Policy] = policies[name] if name is not None else next(iter(policies.values()))
    return policy()


def main() -> int:
    """Serve the policy that the command line names."""
    file, *names = sys.argv[1:]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # What a policy prints is for its user, and not an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        server = Server(policy_of(Path(file), names[0] if names else None))
    except Exception as error:
        sys.stdin.readline()
        answers.write(_native.failed_line("".join(traceback.format_exception_only(error)).strip()) + "\n")
        answers.flush()
        return 1
    server.serve(sys.stdin, answers)
    if server.raised is not None:
        traceback.print_exception(server.raised)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
