"""pinfold for Python: heartbeats of programs, and simulated machines for notebooks.

A program calls `heartbeat` after each step of its work. pinfold compares placements by the rate of these calls.

>>> import pinfold
>>> for step in range(3):
...     # the work of one step
...     pinfold.heartbeat()

`run` starts a program on this machine under a policy of pinfold or under a `Policy` of your own. Everything else is for
trying programs on machines that are not here: `record` a program, `simulate` the recording under a policy, or `sweep`
it through many configurations. What they return has a method `plot`; `SweepDisplay` draws the table of a sweep. These
parts are loaded when they are first used, so that a program which only reports its progress starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pinfold._heartbeat import heartbeat

if TYPE_CHECKING:
    from pinfold._native import (
        Applied,
        Configuration,
        Decision,
        Metric,
        Node,
        Pu,
        Sample,
        Task,
        Topology,
        machines,
        topology,
    )
    from pinfold.binary import PinfoldError
    from pinfold.displays import Sharing, SweepDisplay
    from pinfold.launching import run
    from pinfold.policy import Policy
    from pinfold.recording import Recording, record
    from pinfold.replaying import replay
    from pinfold.simulation import Run, simulate
    from pinfold.sweeping import sweep

_PLACES = {
    "pinfold._native": (
        "Applied",
        "Configuration",
        "Decision",
        "Metric",
        "Node",
        "Pu",
        "Sample",
        "Task",
        "Topology",
        "machines",
        "topology",
    ),
    "pinfold.binary": ("PinfoldError",),
    "pinfold.displays": ("Sharing", "SweepDisplay"),
    "pinfold.launching": ("run",),
    "pinfold.policy": ("Policy",),
    "pinfold.recording": ("Recording", "record"),
    "pinfold.replaying": ("replay",),
    "pinfold.simulation": ("Run", "simulate"),
    "pinfold.sweeping": ("sweep",),
}

__all__ = [
    "Applied",
    "Configuration",
    "Decision",
    "Metric",
    "Node",
    "PinfoldError",
    "Policy",
    "Pu",
    "Recording",
    "Run",
    "Sample",
    "Sharing",
    "SweepDisplay",
    "Task",
    "Topology",
    "heartbeat",
    "machines",
    "record",
    "replay",
    "run",
    "simulate",
    "sweep",
    "topology",
]


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'pinfold' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
