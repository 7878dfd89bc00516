"""No changes of pinfold remain, after any end of pinfold or its program and after changes of the machine.

Masks are hexadecimal numbers here. Bit n is CPU n.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from guest_machine import CPUS, Guest

ALL = (1 << CPUS) - 1


def kill(name: str, signal: str = "KILL") -> str:
    """Return a script that kills the processes with this name; `killall` would also kill those of the same file."""
    return f"grep -lx {name} /proc/[0-9]*/comm | cut -d/ -f3 | xargs kill -{signal}\n"


#: Kills pinfold's guard and pinfold, as a power failure would.
KILL = kill("pinfold-guard") + kill("pinfold") + "while pidof pinfold; do usleep 10000; done"


#: Each thread stays where it is pinned at its begin. Later the policy would unpin threads that hardly work.
FROM_BIRTH = "--policy fixed --initialise 10m"


def masks(guest: Guest, program: str) -> list[int]:
    """Return the masks of all threads of the processes with this program."""
    return [int(line.split()[-1], 16) for line in guest.check(f"masks {program}").splitlines()]


def until(condition: str) -> str:
    """Return a script that waits until a condition holds."""
    return f"while ! {{ {condition}; }}; do usleep 20000; done"


def all_pinned(program: str, threads: int) -> str:
    """Return a condition: this number of threads of a program live, each on one CPU."""
    single = "|".join(f"{1 << cpu:x}" for cpu in range(CPUS))
    return f"[ $(masks {program} | grep -cE ' ({single})$') = {threads} ]"


def reset(guest: Guest, *options: str) -> Any:
    """Return the output of `pinfold reset`."""
    return json.loads(guest.check(f"pinfold reset --json {' '.join(options)}"))


def begin(guest: Guest, options: str, threads: int, first: str = "true") -> Callable[[], int]:
    """Run workers under pinfold until all are pinned; return a function that ends them and returns the status."""
    guest.check(
        f"""
        rm -f /tmp/status
        {{ set +e; {first}; pinfold run {options} -- workers /tmp/log {threads}; echo $? > /tmp/status; }} 2> /tmp/err &
        """
        + until(all_pinned("workers", threads + 1)),
        patience=600,  # A thousand threads take half a minute, and longer on a busy host.
    )

    def end() -> int:
        guest.check("killall -TERM workers; " + until("! pidof workers && [ -s /tmp/status ]"))
        return int(guest.check("cat /tmp/status"))

    return end


@pytest.fixture
def guest(guest: Guest) -> Iterator[Guest]:
    """Return the guest, and end what a test has left running there."""
    yield guest
    guest.run("killall -KILL pinfold workers forks; pinfold reset --kept; rm -rf /run/pinfold")


@contextmanager
def skylake(guest: Guest) -> Iterator[None]:
    """Give the guest the processor description of an Intel processor, and files for its registers.

    The emulated processor has no prefetchers that could be set. CPU 2 already has two of them off, and has another bit
    set that pinfold must not change.
    """
    guest.check(
        f"""
        for cpu in $(seq 0 {CPUS - 1}); do
            mkdir -p /tmp/cpu/$cpu
            head -c 1024 /dev/zero > /tmp/cpu/$cpu/msr
        done
        printf '\\106' | dd of=/tmp/cpu/2/msr bs=1 seek={0x1A4} conv=notrunc 2> /dev/null
        sed -e 's/AuthenticAMD/GenuineIntel/' \\
            -e 's/^cpu family.*/cpu family\\t: 6/' -e 's/^model\\t.*/model\\t\\t: 85/' \\
            /proc/cpuinfo > /tmp/cpuinfo
        mount --bind /tmp/cpu /dev/cpu
        mount --bind /tmp/cpuinfo /proc/cpuinfo
        """
    )
    try:
        yield
    finally:
        guest.check("umount /dev/cpu /proc/cpuinfo; rm -r /tmp/cpu /tmp/cpuinfo")


def registers(guest: Guest) -> list[int]:
    """Return the low byte of each CPU's register of the prefetchers."""
    read = f"dd if=/dev/cpu/$cpu/msr bs=1 skip={0x1A4} count=1 2> /dev/null | hexdump -e '1/1 \"%d\\n\"'"
    return [int(line) for line in guest.check(f"for cpu in $(seq 0 {CPUS - 1}); do {read}; done").splitlines()]


AS_FOUND = [0, 0, 0o106, 0, 0, 0, 0, 0]


def test_prefetchers_are_set_while_the_program_runs_and_given_back_at_its_end(guest: Guest) -> None:
    with skylake(guest):
        assert registers(guest) == AS_FOUND
        guest.check("pinfold run --policy none --prefetch 1010 -- sleep 60 2> /tmp/err & " + until("pidof sleep"))
        guest.check(until("[ $(hexdump -s 420 -n 1 -e '1/1 \"%d\"' /dev/cpu/7/msr) = 10 ]"))
        # The bit of CPU 2 that belongs to no prefetcher also stays.
        assert registers(guest) == [0b1010, 0b1010, 0b1001010, *[0b1010] * 5]
        guest.check("killall sleep; " + until("! pidof pinfold"))
        assert registers(guest) == AS_FOUND
        assert guest.check("ls /run/pinfold") == ""


def test_a_dry_run_of_run_prints_the_new_value_of_each_register(guest: Guest) -> None:
    with skylake(guest):
        said = guest.check("pinfold run --policy none --prefetch 1111 --dry-run -- true").splitlines()
        assert said[0] == "no thread is pinned"
        assert said[3] == "pwrite(/dev/cpu/2/msr, 0x4f, 0x1a4)"
        assert registers(guest) == AS_FOUND


def test_prefetchers_of_a_killed_pinfold_are_given_back_by_its_guard(guest: Guest) -> None:
    with skylake(guest):
        guest.check("pinfold run --policy none --prefetch 1111 -- sleep 60 2> /dev/null & " + until("pidof sleep"))
        guest.check(until("[ $(hexdump -s 420 -n 1 -e '1/1 \"%d\"' /dev/cpu/7/msr) = 15 ]"))
        guest.check(kill("pinfold") + until("! pidof pinfold"))
        assert registers(guest) == AS_FOUND


def test_a_dry_run_of_reset_prints_the_calls_and_makes_none(guest: Guest) -> None:
    with skylake(guest):
        guest.check("pinfold run --policy none --prefetch 1111 -- sleep 60 2> /dev/null & " + until("pidof sleep"))
        guest.check(until("[ $(hexdump -s 420 -n 1 -e '1/1 \"%d\"' /dev/cpu/7/msr) = 15 ]"))
        guest.check(KILL)
        said = guest.check("pinfold reset --dry-run")
        assert "pwrite(/dev/cpu/2/msr, 0x46, 0x1a4)" in said, said
        assert registers(guest) == [15, 15, 0b1001111, *[15] * 5]
        guest.check("pinfold reset")
        assert registers(guest) == AS_FOUND


def test_a_processor_with_unknown_prefetchers_is_named_and_the_program_runs(guest: Guest) -> None:
    run = guest.run("pinfold run --policy none --prefetch 1111 -- true")
    assert run.status == 0
    assert "AuthenticAMD" in run.out, run.out


def test_a_cpu_that_goes_offline_does_not_end_the_program(guest: Guest) -> None:
    status = begin(guest, FROM_BIRTH, 7)
    guest.check("echo 0 > /sys/devices/system/cpu/cpu5/online")
    try:
        # The kernel lets the thread of this CPU run on all other CPUs.
        guest.check(until("masks workers | grep -q ' df$'"))
        assert 1 << 5 not in masks(guest, "workers")
    finally:
        guest.check("echo 1 > /sys/devices/system/cpu/cpu5/online")
    # The thread is back in its place when the CPU is online again.
    guest.check(until(all_pinned("workers", 8)))
    assert status() == 0


def test_a_cpuset_that_shrinks_is_never_widened(guest: Guest) -> None:
    group = "/sys/fs/cgroup/shrinking"
    guest.check(f"mkdir {group}; echo 0-7 > {group}/cpuset.cpus")
    options = "--outlive -e task-clock -t 200ms --warm-up 100ms --initialise 100ms"
    status = begin(guest, options, 7, f"echo 0 > {group}/cgroup.procs")
    guest.check(f"echo 0-3 > {group}/cpuset.cpus; " + until("grep -q cpuset /tmp/err"))
    assert all(mask & ~0xF == 0 for mask in masks(guest, "workers"))
    guest.check(KILL + "; pinfold reset")
    assert masks(guest, "workers") == [0xF] * 8
    assert status() == 128 + 9
    guest.check(f"rmdir {group}")


def memory(guest: Guest, program: str) -> tuple[set[str], int]:
    """Return the memory policies of a program's areas, and its pages on node 4, where no thread runs."""
    lines = [line.split() for line in guest.check(f"cat /proc/$(pidof {program})/numa_maps").splitlines()]
    on_last = (word.partition("=")[2] for line in lines for word in line if word.startswith("N4="))
    return {line[1] for line in lines}, sum(map(int, on_last))


@pytest.mark.usefixtures("small_pages")
def test_a_running_openmp_program_is_attached_to_and_let_go_as_it_was(guest: Guest) -> None:
    guest.check(
        "stream --threads 4 --size 6M --iterations 1000000 > /dev/null 2>&1 & "
        + until("[ $(masks stream | wc -l) = 4 ]")
    )
    # All of it is in memory, so that no page comes where pinned threads touch it first.
    guest.check(until("[ $(grep ^Anonymous /proc/$(pidof stream)/smaps_rollup | tr -dc 0-9) -ge $((6 * 1024)) ]"))
    assert masks(guest, "stream") == [ALL] * 4
    policies, pages = memory(guest, "stream")
    assert pages == 0
    guest.check(
        "{ pinfold run -v -p $(pidof stream) --policy spread --page-map interleave 2> /tmp/err; "
        "echo $? > /tmp/status; } & " + until("grep -q 'pages (interleave)' /tmp/err")
    )
    guest.check(until(all_pinned("stream", 4)))
    assert memory(guest, "stream")[1] > 0
    guest.check("rm -f /tmp/status; kill -INT $(pidof pinfold); " + until("[ -s /tmp/status ]"))
    assert guest.check("cat /tmp/status") == "0\n"
    assert masks(guest, "stream") == [ALL] * 4
    assert memory(guest, "stream") == (policies, 0), guest.check("cat /tmp/err /proc/$(pidof stream)/numa_maps")
    assert guest.check("ls /run/pinfold") == ""
    guest.check("kill -KILL $(pidof stream)")


def test_a_thousand_threads_are_pinned_noted_and_given_back(guest: Guest) -> None:
    begin(guest, f"--outlive {FROM_BIRTH}", 999)
    assert int(guest.check("cat /run/pinfold/*.journal | wc -c")) < 100 * 1000
    guest.check(KILL)
    (journal,) = reset(guest)["journals"]
    assert (journal["state"], len(journal["calls"])) == ("undone", 1000)
    assert masks(guest, "workers") == [ALL] * 1000


def test_all_processes_of_a_forking_program_are_unpinned(guest: Guest) -> None:
    guest.check(
        f"rm -f /tmp/log; pinfold run --outlive {FROM_BIRTH} -- forks /tmp/log > /dev/null 2>&1 & "
        + until("[ $(masks forks | wc -l) -gt 8 ]")
    )
    guest.check(KILL)
    reset(guest)
    for _ in range(5):
        assert set(masks(guest, "forks")) == {ALL}
    guest.check("killall -TERM forks || true; " + until("! pidof forks"))
    assert guest.check("cat /tmp/log") == "end\n"


def test_a_process_with_a_reused_number_is_not_changed(guest: Guest) -> None:
    if guest.run("test -w /proc/sys/kernel/ns_last_pid").status != 0:
        pytest.skip("this kernel does not let a user choose a process's number")
    begin(guest, f"--outlive {FROM_BIRTH}", 1)
    first = guest.check("masks workers").splitlines()[0].split()
    process, mask = int(first[0]), int(first[3], 16)
    guest.check(KILL)
    guest.check(f"kill -KILL {process}; " + until(f"! test -e /proc/{process}"))
    # The other process has the number and the mask of the journal. Its creator lives and is not the program.
    guest.check(
        f"""
        (
            while ! [ -e /proc/{process} ]; do
                echo {process - 1} > /proc/sys/kernel/ns_last_pid
                taskset {mask:x} sleep 60 &
                usleep 100000
            done
            wait
        ) > /dev/null 2>&1 &
        """
        + until(f"test -e /proc/{process}")
    )
    assert "nothing to roll back" in guest.check("pinfold reset")
    assert int(guest.check(f"taskset -p {process}").split()[-1], 16) == mask
    guest.check("killall sleep")


def test_after_kills_at_random_moments_nothing_is_left(
    guest: Guest, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 31)))
    with capsys.disabled():
        print(f" CHAOS_SEED={seed} ", end="", flush=True)
    record_property("seed", seed)
    # Each round has four kills.
    rounds = int(os.environ.get("KILLS", "40")) // 4
    with skylake(guest):
        run = guest.run(f"rm -f /tmp/log; chaos {rounds} {seed} /tmp/log", patience=600)
    assert run.status == 0, f"seed {seed}: {run.out}"
    numbers = dict(word.rsplit(" ", 1) for word in run.out.splitlines()[-1].split(", "))
    # Otherwise the kills came at unsuitable moments, and the test has shown nothing.
    assert int(numbers["undone by reset"]) > rounds // 4, run.out
    assert int(numbers["begun"]) > rounds, run.out
