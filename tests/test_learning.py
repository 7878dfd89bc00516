"""From programs to a policy: recordings are swept on a simulated machine, and rules are learned from the data set."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, Sweep

from pinfold.learn.hints.action_table import build_action_table, rules_on_values, thresholds, training_rows
from pinfold.learn.hints.hint import HINTS, Hint
from pinfold.learn.hints.llc_domains import LlcDomains, Loads
from pinfold.learn.hints.observations import read_observations, read_table, relative_to_slowest, sensitive
from pinfold.learn.hints.ripper import RipperClassifier, first_that_holds
from pinfold.learn.hints.rule_file import rule_policy
from pinfold.learn.trained import Trained

MACHINE = "opteron-6164x4"
THREADS = 4
METRICS = ("ipc", "memory_bytes_per_s", "event:L3_CACHE_MISSES:ANY_READ")
PROGRAMS = {
    "barrier": ("--size", "100", "--iterations", "1"),
    "stream": ("--size", "256K", "--iterations", "1"),
}


@dataclass(frozen=True)
class Swept:
    """A data set of every placement of the programs' threads, and the machine's description by pinfold."""

    data: Path
    domains: LlcDomains
    placements: tuple[Loads, ...]

    def best_matches(self, machine: str, threads: int) -> Mapping[Hint, Loads]:
        """Sort all placements as in figure 5 of the paper, by the number of used packages and domains."""
        assert (machine, threads) == (MACHINE, THREADS)

        def fit(hint: Hint, loads: Loads) -> tuple[int, int]:
            packages = sum(any(package) for package in loads) * (1 if hint.spread_across_sockets else -1)
            domains = sum(load > 0 for package in loads for load in package) * (1 if hint.spread_across_llcs else -1)
            return (packages, domains) if hint.socket_option_gets_priority else (domains, packages)

        return {hint: max(self.placements, key=partial(fit, hint)) for hint in HINTS}


def _said(binary: Path, *arguments: str) -> Any:
    command = [str(binary), *arguments, "--machine", MACHINE, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE).stdout)


@pytest.fixture(scope="module")
def swept(binary: Path, sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Return every placement of a program of barriers and of one that streams."""
    data = sweep(tmp_path_factory.mktemp("swept"), PROGRAMS, THREADS, MACHINE, "threads")
    placements = _said(binary, "placements", "--threads", str(THREADS))["placements"]
    loads = tuple(tuple(map(tuple, placement["llc_loads"])) for placement in placements)
    return Swept(data, LlcDomains.of_topology(_said(binary, "topo")), loads)


def test_a_policy_is_learned_from_a_sweep(swept: Swept) -> None:
    observations, metrics = read_observations(read_table([swept.data]), METRICS, {MACHINE: swept.domains})
    assert len(observations) == len(PROGRAMS) * len(swept.placements)
    observations = relative_to_slowest(sensitive(observations))
    assert min(one.performance for one in observations) == 1
    cuts = thresholds(observations, "equal_frequency")
    table = build_action_table(observations, cuts, swept.best_matches)
    values, hints = training_rows(table)
    learned = RipperClassifier(random_state=0).fit(values, hints)
    rules = rules_on_values(learned.rules_, cuts)
    policy = json.loads(rule_policy(rules, metrics, Trained(True, [MACHINE], list(PROGRAMS), len(table), str(learned))))
    assert policy["trained"]["rows"] == len(table)
    assert {metric["name"] for metric in policy["metrics"]} <= set(METRICS)
    # The rules on values have the same result as the rules on bins.
    said = {action.behaviour: learned.predict(row[None, :])[0] for action, row in zip(table, values, strict=True)}
    assert set(said.values()) <= {str(hint) for hint in HINTS}
    counters = np.array([one.counters for one in observations])
    columns = [np.searchsorted(cut, column) for cut, column in zip(cuts, counters.T, strict=True)]
    for behaviour, rule in zip(np.array(columns).T.tolist(), first_that_holds(rules, counters), strict=True):
        assert rules[rule].target == said[tuple(behaviour)]


def test_every_placement_of_the_sweep_is_one_that_pinfold_lists(swept: Swept) -> None:
    observations, _ = read_observations(read_table([swept.data]), METRICS, {MACHINE: swept.domains})
    assert {one.loads for one in observations} == set(swept.placements)


def test_rates_of_all_threads_become_rates_per_thread(swept: Swept) -> None:
    table = read_table([swept.data])
    whole, _ = read_observations(table, ["ipc"], {MACHINE: swept.domains}, performance="memory_bytes_per_s")
    each, metrics = read_observations(table, ["memory_bytes_per_s"], {MACHINE: swept.domains})
    assert [one.counters[0] * THREADS for one in each] == pytest.approx([one.performance for one in whole])
    assert (metrics[0].unit, metrics[0].normalised) == ("byte per thread and second", "per_thread_and_second")


def test_regions_are_sample_periods_of_their_program(swept: Swept) -> None:
    table = read_table([swept.data])
    regions, _ = read_observations(
        read_table([swept.data]), METRICS, {MACHINE: swept.domains}, periods="region", performance="speed"
    )
    programs, _ = read_observations(table, METRICS, {MACHINE: swept.domains}, performance="speed")
    seconds = {(one.program, one.loads): one.seconds for one in programs}
    assert len(regions) > len(programs)
    assert all(one.period.startswith("0x") for one in regions)
    assert all(one.seconds == seconds[one.program, one.loads] for one in regions)
    assert all(one.performance == 1 / one.seconds for one in programs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["icp"]}, "has no column 'icp': did you mean 'ipc'"),
        ({"metrics": ["time_s"]}, "'time_s' does not describe behaviour"),
        ({"performance": "time_s"}, "use 'speed'"),
        ({"machines": {}}, f"has machine '{MACHINE}', whose LLC domains are missing"),
        ({"prefetch": "1111"}, "has no program with page_map 'first_touch' and prefetch '1111'"),
    ],
)
def test_missing_parts_of_the_data_set_are_named(swept: Swept, options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"metrics": METRICS, "machines": {MACHINE: swept.domains}, **options}
    with pytest.raises(ValueError, match=message):
        read_observations(read_table([swept.data]), **arguments)
