"""The mixes and mappings of SAM's evaluation."""

from pinfold.evaluation.finished import Run, moves
from pinfold.evaluation.sam.abilities import UNBALANCED
from pinfold.evaluation.sam.limits import over_calibrated
from pinfold.evaluation.sam.mixes import relative
from pinfold.evaluation.sam.runs import CORES, static_mappings
from pinfold.evaluation.sam.workloads import ALL, MIXES, Application, mix


def test_a_static_mapping_gives_each_rank_its_own_core_while_a_package_has_enough() -> None:
    for threads in (1, 4, 8, 10, 16, 20):
        for name, pus in static_mappings(threads).items():
            assert len(set(pus)) == len(pus) == threads, name
            assert max(pus) < 2 * CORES or (threads > CORES and "siblings" in name)


def test_every_program_of_a_mix_has_a_workload() -> None:
    applications = [one for text in [*MIXES.values(), UNBALANCED] for one in mix(text)]
    assert len(MIXES) == 26
    assert {one.name for one in applications} <= set(ALL)
    assert all(one.tasks % one.processes == 0 for one in applications)


def test_programs_of_spec_are_processes_of_one_task() -> None:
    assert Application("libq", 2).processes == 2
    assert Application("SGD", 10).processes == 1


def test_an_application_of_several_processes_counts_once_by_their_mean() -> None:
    applications = [Application("libq", 2), Application("SGD", 10)]
    ran = Run(1.0, None, 12, [], [1.0, 3.0, 8.0], [{}, {}, {}], {})
    assert relative(applications, ran, {applications[0]: 4.0, applications[1]: 8.0}) == [0.5, 1.0]


def test_a_move_that_makes_room_is_not_counted() -> None:
    made = [{"reason": "coherence", "makes_room": room} for room in (False, False, True)]
    assert moves({"moves": made}) == {"coherence": 2}
    assert moves({}) == {}


def test_changed_thresholds_are_compared_with_the_measured_ones() -> None:
    rows = [
        {"thresholds": "memory", "factor": factor, "speeds": {"a": speed}} for factor, speed in ((0.1, 5.0), (1, 10.0))
    ]
    assert over_calibrated(rows) == [[0.5], [1.0]]
