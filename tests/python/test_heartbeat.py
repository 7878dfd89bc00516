"""The heartbeat from Python programs, counted in a file with the layout of pinfold's channel."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import pinfold

# agent/pinfold.h: a header of one cache line, whose fourth number is the number of used slots, and 1024 slots of one
# cache line each, which begin with the heartbeats.
MAGIC = 0x4C4E484344464E50
VERSION = 1
LINE = 64
SLOTS = 1024


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    """Create a channel."""
    path = tmp_path / "channel"
    path.write_bytes(struct.pack("QI", MAGIC, VERSION).ljust(LINE * (1 + SLOTS), b"\0"))
    return path


def heartbeats(channel: Path) -> int:
    """Add up all slots."""
    content = channel.read_bytes()
    return sum(struct.unpack_from("Q", content, LINE * (1 + slot))[0] for slot in range(SLOTS))


def run(program: str, channel: Path | None) -> str:
    """Run a Python program that must succeed, with a channel or without, and return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PINFOLD_CHANNEL"}
    if channel is not None:
        environment["PINFOLD_CHANNEL"] = str(channel)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_heartbeats_of_four_threads_are_all_counted(channel: Path) -> None:
    run(
        "import pinfold, threading\n"
        "def beat():\n"
        "    for _ in range(20_000): pinfold.heartbeat()\n"
        "threads = [threading.Thread(target=beat) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n",
        channel,
    )
    assert heartbeats(channel) == 80_000


def test_the_heartbeats_of_forked_and_of_spawned_processes_are_all_counted(channel: Path) -> None:
    run(
        "import os, pinfold, subprocess, sys\n"
        "pinfold.heartbeat()\n"
        "child = os.fork()\n"
        "for _ in range(100): pinfold.heartbeat()\n"
        "if child == 0: os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "subprocess.run([sys.executable, '-c', 'import pinfold; pinfold.heartbeat()'], check=True)\n",
        channel,
    )
    assert heartbeats(channel) == 202


def test_without_pinfold_a_heartbeat_does_nothing() -> None:
    assert run("import pinfold; print(pinfold.heartbeat())", None) == "None\n"


def test_a_missing_channel_is_not_an_error(tmp_path: Path) -> None:
    run("import pinfold; pinfold.heartbeat()", tmp_path / "gone")


def test_a_heartbeat_takes_no_arguments() -> None:
    with pytest.raises(TypeError):
        pinfold.heartbeat(1)  # type: ignore[call-arg]


def test_the_package_is_typed() -> None:
    assert Path(pinfold.__file__).with_name("py.typed").exists()
