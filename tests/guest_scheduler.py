"""Where Linux runs unpinned threads on four packages, observed in the emulated machine, as JSON on standard output.

Usage: ``guest_scheduler.py CORES THREADS... --runs RUNS``. The machine has CORES cores in each package, which is a NUMA
node with one last-level cache, and all nodes are equally far from each other.

A run starts a program that computes with THREADS threads, without waiting and without other programs beside it
(tests/guest/programs/whereabouts.c). `placed` has, for each number of threads and each run, the CPUs of the threads at
each tenth of a second, and `seconds` how long each run lasts. Where there is no guest, `missing` has the reason, and
there are no other keys.

The CPUs are decisions of a real kernel. The processors are emulated and share the host's, so a thread may stand still
though the kernel sees it run. Times in the guest have no meaning.
"""

import argparse
import json
import sys

import guest_machine
from guest_machine import DISTANCES, ROOT, Guest, missing

#: The distance between two packages.
APART = 21
#: Virtual seconds of a run.
SECONDS = 1.5
#: A machine with many processors needs minutes to boot.
BOOT, PATIENCE = 600, 300


def placed(guest: Guest, threads: int) -> list[list[int]]:
    """Return the CPUs of a run's threads at each tenth of a second."""
    lines = guest.check(f"whereabouts {threads} {SECONDS}", PATIENCE).splitlines()
    return [[int(cpu) for cpu in line.split()] for line in lines]


def main() -> None:
    """Observe all numbers of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cores", type=int, help="cores of a package")
    parser.add_argument("threads", type=int, nargs="+", help="threads of a program")
    parser.add_argument("--runs", type=int, default=30, help="runs for each number of threads")
    asked = parser.parse_args()
    if why := missing():
        json.dump({"missing": why}, sys.stdout)
        return
    guest_machine.BOOT = BOOT
    target = ROOT / "target"
    guest = Guest(
        target / "release" / "pinfold",
        target / "agent" / "libpinfold_agent.so",
        target / "workloads",
        asked.cores,
        dict.fromkeys(DISTANCES, APART),
    )
    try:
        kernel = guest.check("uname -r").strip()
        runs = {threads: [placed(guest, threads) for _ in range(asked.runs)] for threads in asked.threads}
    finally:
        guest.give_up()
    json.dump({"kernel": kernel, "cores": asked.cores, "seconds": SECONDS, "placed": runs}, sys.stdout)


if __name__ == "__main__":
    main()
