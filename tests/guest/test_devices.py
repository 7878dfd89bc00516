"""Devices on the buses of NUMA nodes, and programs near them."""

import json
from typing import Any

import pytest
from guest_machine import CPUS, DEVICES, Guest

KINDS = {"e1000": "network", "secondary-vga": "gpu"}


@pytest.fixture
def devices(guest: Guest) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(guest.check("pinfold topo --json"))["devices"]
    return listed


def test_devices_are_shown_with_the_node_of_their_bus(devices: list[dict[str, Any]], guest: Guest) -> None:
    nodes = {device["kind"]: device["nodes"] for device in devices if device["nodes"] is not None}
    assert nodes == {KINDS[device]: [node] for node, device in DEVICES.items()}, devices
    assert "GPU      node 2: 4-5" in guest.check("pinfold topo")


def test_a_program_near_a_device_has_its_cpus_and_prefers_its_memory(
    devices: list[dict[str, Any]], guest: Guest
) -> None:
    gpu = next(device for device in devices if device["kind"] == "gpu")
    name = f"pci:{gpu['pci']}"
    script = "grep Cpus_allowed_list /proc/self/status; head -n 1 /proc/self/numa_maps"
    run = guest.run(f"pinfold run --near {name} --policy none -- sh -c '{script}'")
    assert run.status == 0, run.out
    assert "Cpus_allowed_list:\t4-5" in run.out
    assert "prefer:2" in run.out
    several = guest.run(f"pinfold run --near {name} --near net:none --policy none -- true")
    assert several.status == 125


@pytest.mark.quiet
def test_the_default_policy_begins_near_a_device_and_compares_it_with_the_whole_machine(
    devices: list[dict[str, Any]], guest: Guest
) -> None:
    gpu = next(device for device in devices if device["kind"] == "gpu")
    # Times in the guest mean nothing, so either may be faster, and the noise may leave the comparison open for minutes.
    # The first mask is read while the program initialises.
    near, whole = "4-5", f"0-{CPUS - 1}"
    run = guest.check(
        f"pinfold run -v --initialise 2s --near pci:{gpu['pci']} --json /tmp/near.json -- "
        "compute --threads 2 --size 64k --seconds 300 > /tmp/out 2> /tmp/err &\n"
        "until program=$(pidof compute); do kill -0 $!; sleep 0.1; done\n"
        "head -n 1 /proc/$program/numa_maps\n"
        f"for mask in {near} {whole} {near}; do\n"
        '  until grep -h "Cpus_allowed_list:[[:space:]]*$mask$" /proc/$program/task/*/status; do\n'
        "    kill -0 $program || { cat /tmp/err; exit 1; }; sleep 0.1\n"
        "  done\n"
        "done\n"
        "kill $program; wait $! || true; grep -c 'on the whole machine\\|times as fast as' /tmp/err",
        patience=310,
    )
    first, *masks, lines = run.splitlines()
    assert "prefer:2" in first
    order = list(dict.fromkeys(mask.split()[1] for mask in masks))
    assert order == [near, whole]
    assert int(lines) > 0
    record = json.loads(guest.check("cat /tmp/near.json"))
    candidates = [(one["pus"], one.get("within")) for one in record["candidates"][:2]]
    assert candidates == [(None, None), (None, near)]
    assert record["proposals"][0]["by"] == "user"
    for compared in record.get("comparisons", []):
        assert (compared["candidate"], compared["with"], compared["turns"] > 0) == (0, 1, True)
    explained = guest.check("pinfold explain /tmp/near.json")
    assert f"unpinned within {near}" in explained
    assert f"unpinned, on the CPUs {near} alone" in explained


def test_a_device_of_which_the_firmware_says_nothing_is_refused(devices: list[dict[str, Any]], guest: Guest) -> None:
    unknown = [device for device in devices if device["nodes"] is None]
    if not unknown:
        pytest.skip("the firmware tells the node of each device")
    run = guest.run(f"pinfold run --near {unknown[0]['near'][0]} -- true 2>&1")
    assert run.status == 125
    assert "the firmware does not say which CPUs are near it" in run.out
