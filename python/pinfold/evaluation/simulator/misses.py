"""Miss counts of the simulator's caches compared with those of valgrind's cachegrind.

Each workload is recorded with one thread, and the recording goes through caches of a given geometry (``pinfold trace
misses``). The same program runs under cachegrind with the same geometry, in the same environment. Both count loads and
stores that miss in the first level, and those of them that miss in the last.

Differences between the two, and how they are handled:

- cachegrind's last level also holds instructions. They are few compared with the data of these programs; only its
  columns of data misses are compared.
- ``pinfold record`` preloads its agent, so the run under cachegrind also does.
- The C library chooses its string functions by the detected processor, which QEMU and valgrind show differently.
  ``GLIBC_TUNABLES`` disables the features in both that only one of them has.
- Valgrind loads its own library into the program, and stack and heap have other addresses than under QEMU. This
  difference stays: some hundred misses, and other lines that share a set.
- An instruction that reads and writes one address is one access for cachegrind and two for pinfold; the second hits. So
  accesses differ and misses do not.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinfold.evaluation.section import PINFOLD, Part, Table, output

D1 = "32768,8,64"
LL = "1048576,16,64"
AGENT = Path("target/agent/libpinfold_agent.so")
# Neither QEMU nor valgrind runs AVX-512, and QEMU does not show `erms` to recorded programs.
TUNABLES = "glibc.cpu.hwcaps=-ERMS,-FSRM,-AVX512F,-AVX512VL,-AVX512BW"

# Working sets between the two levels, and beyond the last one.
PROGRAMS: tuple[tuple[str, str, str], ...] = (
    ("stream", "384k", "20"),
    ("stream", "6M", "6"),
    ("stencil", "512k", "20"),
    ("stencil", "8M", "6"),
    ("random_access", "512k", "10"),
    ("random_access", "8M", "4"),
    ("spmv", "768k", "10"),
    ("spmv", "12M", "4"),
    ("sort", "512k", "2"),
    ("sort", "4M", "1"),
    ("hash_join", "512k", "4"),
    ("hash_join", "8M", "2"),
    ("bfs", "640k", "6"),
    ("bfs", "10M", "2"),
    ("nbody", "128k", "1"),
    ("lu", "512k", "1"),
    ("lu", "2M", "1"),
    ("fft", "512k", "3"),
    ("fft", "8M", "1"),
    ("histogram", "512k", "20"),
    ("histogram", "8M", "4"),
    ("graph_chase", "512k", "10"),
    ("graph_chase", "8M", "4"),
    ("kmeans", "512k", "2"),
    ("kmeans", "4M", "1"),
    ("multigrid", "600k", "4"),
    ("multigrid", "9M", "2"),
    ("membench", "8M", "4"),
)


@dataclass
class Count:
    """Data accesses of a program, and those that missed in each level."""

    accesses: int
    d1_misses: int
    ll_misses: int


def misses(quick: bool) -> Part:
    """Compare every program's misses."""
    rows, programs = [], []
    deviations: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        for workload, size, iterations in PROGRAMS[:: 5 if quick else 1]:
            arguments = ["--threads", "1", "--size", size, "--iterations", iterations]
            program = [f"target/workloads/{workload}", *arguments]
            ours = simulated(program, Path(directory) / "program.pft")
            theirs = cachegrind(program, Path(directory) / "cachegrind.out")
            d1 = percent(ours.d1_misses, theirs.d1_misses)
            ll = percent(ours.ll_misses, theirs.ll_misses)
            deviations += [abs(d1), abs(ll)]
            rows.append(
                [
                    f"{workload} {size}",
                    f"{theirs.accesses:,}",
                    f"{ours.accesses:,}",
                    f"{theirs.d1_misses:,}",
                    f"{ours.d1_misses:,}",
                    f"{d1:+.2f}",
                    f"{theirs.ll_misses:,}",
                    f"{ours.ll_misses:,}",
                    f"{ll:+.2f}",
                ]
            )
            programs.append(
                {
                    "workload": workload,
                    "arguments": arguments,
                    "cachegrind": vars(theirs),
                    "pinfold": vars(ours),
                    "d1_percent": d1,
                    "ll_percent": ll,
                }
            )
    worst = max(deviations)
    data: dict[str, Any] = {
        "cachegrind_worst_percent": worst,
        "cachegrind": {"d1": D1, "ll": LL, "programs": programs},
    }
    text = (
        f"Single-thread miss counts with {D1} and {LL} (bytes, ways, line), compared with those of "
        f"{output(['valgrind', '--version']).strip()}'s cachegrind on the same programs. All tested programs are "
        f"listed. The worst deviation is {worst:.2f} %. Sources of differences: the program's start, because valgrind "
        "loads its own library; the addresses of stack and heap; and instructions that read and write, which are one "
        "access for cachegrind and two for pinfold, of which the second hits."
    )
    columns = [
        "program",
        "cachegrind: accesses",
        "pinfold",
        "cachegrind: D1 misses",
        "pinfold",
        "diff [%]",
        "cachegrind: LL data misses",
        "pinfold",
        "diff [%]",
    ]
    commands = [
        "pinfold record -o FILE.pft -- target/workloads/stream --threads 1 --size 6M --iterations 6",
        f"pinfold trace misses --level {D1} --level {LL} FILE.pft",
        f"valgrind --tool=cachegrind --cache-sim=yes --I1={D1} --D1={D1} --LL={LL} target/workloads/stream …",
    ]
    return Part(data, Table(columns, rows, "Misses compared with cachegrind's"), text, commands)


def percent(ours: int, theirs: int) -> float:
    """Return the deviation in percent."""
    return 100 * (ours / theirs - 1)


def simulated(program: Sequence[str], recording: Path) -> Count:
    """Record a program and count its misses."""
    output(["env", f"GLIBC_TUNABLES={TUNABLES}", str(PINFOLD), "record", "-o", str(recording), "--", *program])
    command = [str(PINFOLD), "trace", "misses", "--level", D1, "--level", LL, "--json", str(recording)]
    (thread,) = json.loads(output(command))["threads"]
    d1, ll = thread["levels"]
    return Count(
        d1["reads"] + d1["writes"],
        d1["read_misses"] + d1["write_misses"],
        ll["read_misses"] + ll["write_misses"],
    )


def cachegrind(program: Sequence[str], file: Path) -> Count:
    """Run a program under cachegrind, in the environment of the recording, and return its counts."""
    preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(AGENT.resolve())]))
    environment = [f"GLIBC_TUNABLES={TUNABLES}", f"LD_PRELOAD={preload}", "PINFOLD_MARKS=1"]
    options = [f"--I1={D1}", f"--D1={D1}", f"--LL={LL}", f"--cachegrind-out-file={file}"]
    output(["env", *environment, "valgrind", "--tool=cachegrind", "--cache-sim=yes", *options, *program])
    lines = dict(
        line.split(": ", 1) for line in file.read_text().splitlines() if line.startswith(("events", "summary"))
    )
    total = dict(zip(lines["events"].split(), map(int, lines["summary"].split()), strict=True))
    return Count(total["Dr"] + total["Dw"], total["D1mr"] + total["D1mw"], total["DLmr"] + total["DLmw"])
