"""`pinfold calibrate --thresholds` on four packages, with the kernel's clock of a task instead of hardware counters.

The figures have no meaning there. The tests show that all of them are measured, printed and written.
"""

import json

import pytest
from guest_machine import Guest

#: A nanosecond of processor time counts as an event of either kind, so every task has a rate of one event per
#: nanosecond.
METRIC = "inter_package_coherence=task-clock,memory_bandwidth=task-clock"

CALIBRATE = f"pinfold calibrate --thresholds --quick --metric {METRIC}"


def test_both_curves_are_measured_and_printed_without_thresholds(guest: Guest) -> None:
    run = guest.run(f"cd /tmp; rm -f t.*; {CALIBRATE} -o t.toml --json t.json --plot t.svg")
    curves = json.loads(guest.check("cat /tmp/t.json"))
    assert (curves["simulated"], curves["event_set"]) == (False, None)
    assert (curves["together"], curves["apart"], curves["apart_in"]) == ([0, 1], [0, 2], "other_package")
    assert (curves["package"], curves["package_cores"]) == ([0, 1], 2)
    assert curves["elsewhere_share"] == 0, "each task's arrays are on its own node"
    assert [point["instructions"] for point in curves["sharing"]] == [409600, 25600, 1600, 0]
    for point in curves["sharing"]:
        assert point["events_per_cycle"] == pytest.approx(1)
        low, high = point["quartiles"]["gain"]
        assert low <= point["gain"] <= high
    assert [point["tasks"] for point in curves["copying"]] == [1, 2]
    for point in curves["copying"]:
        for locality in ("high", "low"):
            assert point[locality]["misses_per_cycle"] == pytest.approx(point["tasks"])
            assert point[locality]["bytes_per_second"] > 0
    assert "2 tasks that copy" in run.out
    plot = guest.check("cat /tmp/t.svg")
    assert "</svg>" in plot
    assert "NaN" not in plot

    # A rate that does not grow with sharing does not show sharing.
    assert run.status == 125
    assert "the rate of task-clock per task-clock hardly grows" in run.out
    assert curves["thresholds"] is None
    guest.check("! test -e /tmp/t.toml")


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        # CPUs 0 and 1, and CPUs 0 and 2.
        ("3", "only CPUs 0-1 may be used, all of them under one of this machine's 4 last-level caches"),
        ("5", "only CPUs 0,2 may be used, no two of them on different cores under one last-level cache"),
    ],
)
def test_a_mask_with_too_few_cpus_is_refused_and_names_what_is_missing(guest: Guest, mask: str, says: str) -> None:
    run = guest.run(f"taskset {mask} {CALIBRATE} -o /tmp/refused.toml")
    assert run.status == 125
    assert says in run.out
    guest.check("! test -e /tmp/refused.toml")


def test_a_control_group_with_too_little_memory_is_refused_before_anything_is_killed(guest: Guest) -> None:
    group = "/sys/fs/cgroup/small"
    guest.check(f"echo +memory > /sys/fs/cgroup/cgroup.subtree_control; mkdir {group}; echo 48M > {group}/memory.max")
    run = guest.run(f"echo $$ > {group}/cgroup.procs; exec {CALIBRATE} > /dev/null")
    assert run.status == 125, run.out
    assert "MiB of memory are available, and a measurement beyond the caches needs 64 MiB" in run.out
    assert "memory.max" in run.out
    assert "measuring" not in run.out
    guest.check(f"rmdir {group}")
