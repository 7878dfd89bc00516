"""The machine at hand as pinfold reads it: nodes that hwloc cannot place, memory of other kinds, failures of hwloc.

Each test describes this machine's CPUs in another form, in hwloc's XML or in a copy of `/sys`, and says that the
description is of this machine (`HWLOC_THISSYSTEM=1`).
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import CPUS, unwrapped

#: The CPUs of a described machine: two that this one has, and two more in a second package.
NEEDED = [0, 1]


@pytest.fixture(autouse=True)
def _has_two_cpus() -> None:
    if not set(NEEDED) <= set(CPUS):
        pytest.skip(f"CPUs 0 and 1 are described, and only {CPUS} may be used")


def run(binary: Path, arguments: Sequence[str], hwloc: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run pinfold in an environment in which hwloc has these variables only."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HWLOC_")}
    return subprocess.run(
        [binary, *arguments],
        env=environment | {"HWLOC_THISSYSTEM": "1", **hwloc},
        capture_output=True,
        text=True,
        check=False,
    )


def said(binary: Path, arguments: Sequence[str], hwloc: Mapping[str, str]) -> str:
    """Return what a run that succeeds prints; nothing goes to standard error."""
    done = run(binary, arguments, hwloc)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def dry(binary: Path, hwloc: Mapping[str, str], *options: str) -> str:
    """Return the system calls of a run with these options."""
    return said(binary, ["run", "--dry-run", *options, "--", "/bin/true"], hwloc)


def placed(binary: Path, hwloc: Mapping[str, str], *options: str) -> list[str]:
    """Return the CPUs of the ranks of two threads."""
    lines = dry(binary, hwloc, "--threads", "2", *options).splitlines()
    return [line.rsplit(", ", 1)[1].rstrip(")") for line in lines if line.startswith("sched_setaffinity")]


def described(folder: Path, *subtypes: str | None) -> dict[str, str]:
    """Describe two CPUs of one package and nodes with memory of these subtypes, as hwloc does: all have both CPUs."""
    sets = 'cpuset="0x3" complete_cpuset="0x3" nodeset="{0}" complete_nodeset="{0}"'
    every = sets.format(hex((1 << len(subtypes)) - 1))
    nodes = [
        f'<object type="NUMANode" os_index="{number}" {sets.format(hex(1 << number))} gp_index="{20 + number}" '
        f'local_memory="{1 << 33}" {f"subtype={chr(34)}{subtype}{chr(34)}" if subtype else ""}/>'
        for number, subtype in enumerate(subtypes)
    ]
    pus = [
        f'<object type="PU" os_index="{pu}" {every.replace("0x3", hex(1 << pu), 2)} gp_index="{10 + pu}"/>'
        for pu in NEEDED
    ]
    allowed = f'allowed_cpuset="0x3" allowed_nodeset="{hex((1 << len(subtypes)) - 1)}"'
    file = folder / "machine.xml"
    file.write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<topology version="2.0">'
        f'<object type="Machine" os_index="0" {every} {allowed} gp_index="1">{"".join(nodes)}'
        f'<object type="Package" os_index="0" {every} gp_index="2">{"".join(pus)}</object></object></topology>'
    )
    return {"HWLOC_XMLFILE": str(file)}


def copied(folder: Path, nodes: Sequence[str]) -> dict[str, str]:
    """Make a `/sys` of two packages of two CPUs each, and nodes with these CPUs."""

    def write(file: str, text: str) -> None:
        path = folder / "sys/devices/system" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    for name in ("online", "possible", "present"):
        write(f"cpu/{name}", "0-3")
    for cpu in range(4):
        first = cpu // 2 * 2
        write(f"cpu/cpu{cpu}/topology/physical_package_id", str(cpu // 2))
        write(f"cpu/cpu{cpu}/topology/core_id", str(cpu))
        write(f"cpu/cpu{cpu}/topology/thread_siblings", f"{1 << cpu:x}")
        write(f"cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))
        write(f"cpu/cpu{cpu}/topology/core_siblings", f"{3 << first:x}")
        write(f"cpu/cpu{cpu}/topology/core_siblings_list", f"{first}-{first + 1}")
    (folder / "sys/devices/system/node").mkdir()
    for number, cpus in enumerate(nodes):
        write("node/online", f"0-{number}")
        mask = sum(1 << int(cpu) for cpu in cpus.split(","))
        write(f"node/node{number}/cpumap", f"{mask:08x}")
        write(f"node/node{number}/cpulist", cpus)
        write(f"node/node{number}/meminfo", f"Node {number} MemTotal:       1048576 kB")
    return {"HWLOC_FSROOT": str(folder)}


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("GPUMemory", "gpu"),
        ("HBM", "high_bandwidth"),
        ("NVM", "persistent"),
        ("CXL-DRAM", "cxl"),
        ("SPM", "other"),
        (None, None),
    ],
)
def test_pages_go_to_memory_of_another_kind_only_where_it_is_named(
    binary: Path, tmp_path: Path, subtype: str | None, kind: str | None
) -> None:
    hwloc = described(tmp_path, None, subtype)
    nodes = json.loads(said(binary, ["topo", "--json"], hwloc))["nodes"]
    assert [(node["kind"], node["pus"]) for node in nodes] == [(None, "0-1"), (kind, "")]
    for options, expected in [
        (("--page-map", "interleave"), "set_mempolicy(MPOL_INTERLEAVE, nodes 0)"),
        (("--page-map", "interleave:all"), "set_mempolicy(MPOL_INTERLEAVE, nodes 0-1)"),
        (("--page-map", "interleave:0,1"), "set_mempolicy(MPOL_INTERLEAVE, nodes 0-1)"),
    ]:
        assert expected in dry(binary, hwloc, "--policy", "none", *options), options


def test_the_remote_node_is_not_the_memory_of_a_gpu(binary: Path, tmp_path: Path) -> None:
    hwloc = described(tmp_path, None, "GPUMemory")
    done = run(binary, ["run", "--dry-run", "--policy", "none", "--page-map", "remote", "--", "/bin/true"], hwloc)
    assert done.returncode == 125
    assert "needs a second NUMA node with main memory" in done.stderr


@pytest.mark.parametrize("policy", ["compact", "scatter", "close", "spread", "packed", "distributed"])
@pytest.mark.parametrize("subtypes", [(None, "GPUMemory"), (None, None), (None, None, "HBM")])
def test_threads_have_cpus_of_their_own_where_nodes_share_cpus(
    binary: Path, tmp_path: Path, policy: str, subtypes: tuple[str | None, ...]
) -> None:
    assert sorted(placed(binary, described(tmp_path, *subtypes), "--policy", policy)) == ["0", "1"]


def test_a_node_without_cpus_binds_nothing(binary: Path, tmp_path: Path) -> None:
    hwloc = described(tmp_path, None, "GPUMemory")
    done = run(binary, ["run", "--dry-run", "--cpunodebind", "1", "--", "/bin/true"], hwloc)
    assert done.returncode == 125
    assert "this NUMA node has memory and no CPUs; 0 have CPUs, and --membind 1" in done.stderr
    assert "0-1" not in done.stderr


def test_nodes_that_cut_across_packages_have_the_kernels_cpus_and_one_sentence_says_so(
    binary: Path, tmp_path: Path
) -> None:
    hwloc = copied(tmp_path, ["0,2", "1,3"])
    done = run(binary, ["topo", "--json"], hwloc)
    assert [node["pus"] for node in json.loads(done.stdout)["nodes"]] == ["0,2", "1,3"]
    assert unwrapped(done.stderr) == (
        "pinfold: NUMA nodes 0, 1 cut across packages or caches, so hwloc finds no place for them in the tree; their "
        "CPUs are those of /sys/devices/system/node.\n"
    )
    assert "node 0 (1 GiB, PUs 0 [2]), node 1 (1 GiB, PUs 1 [3])" in run(binary, ["topo"], hwloc).stdout


def test_quiet_is_quiet_about_nodes_that_cut_across_packages(binary: Path, tmp_path: Path) -> None:
    hwloc = copied(tmp_path, ["0,2", "1,3"])
    assert said(binary, ["run", "-qq", "--policy", "compact", "--", "echo", "it ran"], hwloc) == "it ran\n"


def test_cpunodebind_takes_the_kernels_cpus_of_a_node_that_cuts_across_packages(binary: Path, tmp_path: Path) -> None:
    hwloc = copied(tmp_path, ["0,2", "1,3"])
    command = [
        "run",
        "-qq",
        "--policy",
        "none",
        "--cpunodebind",
        "1",
        "--",
        "grep",
        "Cpus_allowed_list",
        "/proc/self/status",
    ]
    assert said(binary, command, hwloc).split() == ["Cpus_allowed_list:", "1"]
    assert placed(binary, hwloc, "--policy", "scatter") == ["0", "1"]


def test_where_hwloc_fails_the_program_runs_on_the_topology_of_sys(binary: Path, tmp_path: Path) -> None:
    # hwloc 2.9 ends with SIGABRT where this folder is empty.
    hwloc = copied(tmp_path, [])
    done = run(binary, ["topo", "--json"], hwloc)
    topology = json.loads(done.stdout)
    assert (topology["nodes"], topology["allowed_pus"]) == ([], "0-1")
    packages = [child["pus"] for child in topology["tree"]["children"] if child["kind"] == "package"]
    assert packages == ["0-1", "2-3"]
    sentence = "so its topology is what /sys/devices/system/cpu lists, without NUMA nodes.\n"
    assert done.stderr.startswith("pinfold: hwloc fails on this machine")
    assert unwrapped(done.stderr).endswith(sentence)
    assert unwrapped(done.stderr).count("\n") == 1
    ran = run(binary, ["run", "--policy", "compact", "--", "echo", "it ran"], hwloc)
    assert (ran.returncode, ran.stdout) == (0, "it ran\n")
    assert sentence in unwrapped(ran.stderr)
    assert said(binary, ["run", "-qq", "--policy", "compact", "--", "echo", "it ran"], hwloc) == "it ran\n"


def test_a_mapping_that_needs_nodes_is_refused_where_none_are_known(binary: Path, tmp_path: Path) -> None:
    done = run(binary, ["run", "--page-map", "interleave", "--", "echo", "it ran"], copied(tmp_path, []))
    assert (done.returncode, done.stdout) == (125, "")
    assert "no NUMA node of this machine is known" in done.stderr


def test_cpunodebind_is_refused_where_no_nodes_are_known(binary: Path, tmp_path: Path) -> None:
    done = run(binary, ["run", "--cpunodebind", "0", "--", "echo", "it ran"], copied(tmp_path, []))
    assert (done.returncode, done.stdout) == (125, "")
    assert "no NUMA node of this machine is known; --physcpubind names CPUs" in done.stderr
