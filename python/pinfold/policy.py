"""Policies that are written in Python."""

from __future__ import annotations

from collections.abc import Sequence

from pinfold._native import Applied, Configuration, Decision, Metric, Sample, Topology


class Policy:
    """A policy of your own: it gets samples of a program, and answers with decisions.

    A subclass implements `decide`, and `start` and `end` if needed. The same policy must give the same run: read no
    clock, and draw random numbers from a seed.

    >>> class OnePackage(Policy):
    ...     def start(self, topology, metrics):
    ...         first = [pu.number for pu in topology.pus if pu.package == 0]
    ...         return Decision(Configuration(first))
    """

    name: str = ""
    """The name in the record of a run. The default is the name of the class."""

    def start(self, topology: Topology, metrics: Sequence[Metric]) -> Decision:
        """Return the decision before the program's first instruction; without this method nothing is changed.

        Args:
            topology: the machine.
            metrics: what each sample counts.
        """
        return Decision()

    def decide(self, topology: Topology, sample: Sample, applied: Applied) -> Decision:
        """Return the decision after a sample. Without this method the policy changes nothing.

        Args:
            topology: the machine.
            sample: the counts since the program began.
            applied: the part of the last decision that the machine carried out.
        """
        return Decision()

    def end(self) -> list[str]:
        """Return sentences for the record of the run, when the program has ended."""
        return []


class Kept(Policy):
    """The program in one configuration."""

    name = "kept"

    def __init__(self, configuration: Configuration) -> None:
        """Store the configuration."""
        self._configuration = configuration

    def start(self, topology: Topology, metrics: Sequence[Metric]) -> Decision:
        """Apply it."""
        return Decision(self._configuration)
