"""The emulated machine has the properties that the other tests here assume."""

import json
from pathlib import Path

import pytest
from guest_machine import CPUS, DISTANCES, NODES, Guest, libraries


def test_pinfold_sees_four_nodes_with_processors_and_one_without(guest: Guest) -> None:
    topology = json.loads(guest.check("pinfold topo --json"))
    assert len(topology["nodes"]) == len(NODES), topology


def test_the_kernel_has_what_the_tests_need(guest: Guest) -> None:
    guest.check("grep -qw cpuset /sys/fs/cgroup/cgroup.controllers")
    guest.check("test -c /dev/cpu/0/msr")
    guest.check("test -e /proc/sys/kernel/numa_balancing")
    assert guest.check("cat /sys/devices/system/cpu/online").strip() == f"0-{CPUS - 1}"


def test_the_binary_under_test_is_one_file(binary: Path, guest: Guest) -> None:
    if libraries(binary):
        pytest.skip(f"{binary} is linked to shared libraries: it was not built by `make build`")
    guest.check("cp /pinfold/bin/pinfold /tmp/alone; chroot /tmp /alone --version; rm /tmp/alone")


def test_nodes_have_the_requested_distances(guest: Guest) -> None:
    rows = guest.check("cat /sys/devices/system/node/node?/distance").splitlines()
    distances = [[int(distance) for distance in row.split()] for row in rows]
    assert {pair: distances[pair[0]][pair[1]] for pair in DISTANCES} == DISTANCES


def test_a_script_returns_its_status_and_its_output(guest: Guest) -> None:
    run = guest.run("echo out; echo err >&2; exit 3")
    assert (run.status, run.out) == (3, "out\nerr\n")
