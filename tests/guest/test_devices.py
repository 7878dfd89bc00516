"""Devices on the buses of NUMA nodes, and programs near them."""

import json
from typing import Any

import pytest
from guest_machine import DEVICES, Guest

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


def test_a_device_of_which_the_firmware_says_nothing_is_refused(devices: list[dict[str, Any]], guest: Guest) -> None:
    unknown = [device for device in devices if device["nodes"] is None]
    if not unknown:
        pytest.skip("the firmware tells the node of each device")
    run = guest.run(f"pinfold run --near {unknown[0]['near'][0]} -- true 2>&1")
    assert run.status == 125
    assert "the firmware does not say which CPUs are near it" in run.out
