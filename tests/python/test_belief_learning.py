"""What is learned from times, and how trials update it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from belief_cases import BASELINE, CONFIGURATIONS, MACHINE, data, logs, rows

from pinfold.learn.belief import file
from pinfold.learn.belief.belief import Belief, Prior
from pinfold.learn.belief.choice import choose, gains_of, learner, with_doubt
from pinfold.learn.belief.data import Times, enough, read
from pinfold.learn.belief.judging import (
    BELIEF,
    CONTROL,
    NEW,
    PAIR,
    RACE,
    RANDOM,
    TRIALS,
    exchanged,
    given,
    nested,
)
from pinfold.learn.belief.kernel import similarity
from pinfold.learn.belief.learning import NEW_MACHINE, Settings, spread_of
from pinfold.learn.belief.posterior import Posterior, Start, search
from pinfold.learn.command import KIB_OF_BELIEF, main
from pinfold.learn.races import Floats


def times(folder: Path, programs: int = 8) -> Times:
    return read([data(folder, rows(programs))])


def random_prior(configurations: int, seed: int) -> Prior:
    random = np.random.default_rng(seed)
    root = random.normal(size=(configurations, configurations))
    return Prior(random.normal(size=configurations), root @ root.T)


def dense(prior: Prior, places: list[int], values: Floats, noise: float) -> Prior:
    """Condition in one step, by a solve."""
    gram = prior.covariance[np.ix_(places, places)] + noise * np.eye(len(places))
    slope = np.linalg.solve(gram, prior.covariance[places]).T
    return Prior(
        prior.mean + slope @ (values - prior.mean[places]), prior.covariance - slope @ prior.covariance[places]
    )


@pytest.mark.parametrize("seed", range(5))
def test_trials_one_by_one_equal_a_dense_solve(seed: int) -> None:
    random = np.random.default_rng(seed)
    prior, noise = random_prior(12, seed), 0.01
    # A configuration may be tried twice.
    places = random.integers(12, size=6).tolist()
    values = random.normal(size=6)
    posterior = Posterior(prior, noise)
    for place, value in zip(places, values, strict=True):
        posterior.learn(place, float(value))
    expected = dense(prior, places, values, noise)
    assert posterior.mean == pytest.approx(expected.mean)
    assert posterior.variance == pytest.approx(np.diag(expected.covariance), abs=1e-9)
    assert posterior.covariance(range(12)) == pytest.approx(expected.covariance, abs=1e-9)


def test_a_trial_makes_no_configuration_less_certain() -> None:
    posterior = Posterior(random_prior(10, 3), 0.1)
    for place in (4, 4, 0, 9):
        before = posterior.variance.copy()
        posterior.learn(place, 1.0)
        assert (posterior.variance <= before + 1e-12).all()


def test_the_expected_improvement_is_the_mean_over_draws() -> None:
    prior = random_prior(6, 1)
    draws = np.random.default_rng(0).normal(prior.mean, np.sqrt(np.diag(prior.covariance)), size=(200_000, 6))
    expected = np.maximum(0.5 - draws, 0).mean(axis=0)
    assert Posterior(prior, 0.0).improvement(0.5) == pytest.approx(expected, abs=0.03)


def test_a_trial_that_surprises_makes_all_configurations_less_certain() -> None:
    # The case of a_program_that_surprises_is_searched_further in crates/policy/src/belief/worth.rs.
    prior, noise = Prior(np.array([0.0, 0.1, 0.25]), np.diag([0.0, 0.01, 0.01])), 1e-4
    for value, spread in ((0.1, 1.0), (0.6, (4 + 0.5**2 / 0.0101) / 6)):
        posterior = Start(prior, noise, 0).posterior()
        posterior.learn(1, value)
        assert posterior.spread == pytest.approx(spread)
        wider = Prior(posterior.mean, np.diag(spread * posterior.variance))
        assert posterior.improvement(0.0) == pytest.approx(Posterior(wider, noise).improvement(0.0))


def test_two_trials_together_are_of_different_kinds() -> None:
    # Two twins are the best ones alone. The third one is fast where they are slow.
    covariance = np.array([[1.0, 0.99, -0.9], [0.99, 1.0, -0.9], [-0.9, -0.9, 1.0]])
    prior = Prior(np.array([-0.3, -0.29, -0.1]), covariance)
    assert 2 in Posterior(prior, 1e-4).best_pair(0.0)


def test_the_best_choice_of_a_known_population_is_found_in_two_trials(tmp_path: Path) -> None:
    found = times(tmp_path, programs=12)
    truth = logs(14, seed=7)[12:]
    prior = learner(Settings())(found).over(found.points, MACHINE)
    start = Start(prior, found.noise, found.baselines[0])
    # The data set orders configurations as points.
    order = [found.points.index(point_of(found, place)) for place in range(len(CONFIGURATIONS))]
    for program in truth:
        moved = np.empty(len(order))
        moved[order] = program
        gains = gains_of(search(start, moved, 4, start.pair()), moved)
        assert gains[1] > 0.8
        assert gains[3] > 0.9


def point_of(found: Times, place: int) -> object:
    threads, nodes, order, pages, prefetch = CONFIGURATIONS[place]
    return next(
        one
        for one in found.points
        if (one.threads, one.nodes) == (threads / 32, nodes / 2)
        and (one.thread_map, one.page_map, one.prefetch) == (order, pages, prefetch)
    )


def test_points_are_shares_of_the_machine_and_times_are_over_the_baseline(tmp_path: Path) -> None:
    found = times(tmp_path, programs=3)
    assert {found.points[place] for place in found.baselines} == {point_of(found, BASELINE)}
    assert found.points[found.baselines[0]][:3] == (1.0, 1.0, 1.0)
    assert not found.logs[:, found.baselines[0]].any()
    assert found.logs[1, found.points.index(point_of(found, 5))] == pytest.approx(logs(3)[1, 5])


def test_a_configuration_that_a_belief_lists_has_its_own_moments(tmp_path: Path) -> None:
    found = times(tmp_path)
    belief = learner(Settings())(found)
    prior = belief.over(found.points, MACHINE)
    assert prior.mean == pytest.approx(belief.mean)
    kernel = belief.kernel
    learned = belief.factors @ belief.factors.T + np.diag(belief.residual)
    alike = similarity(found.points, found.points, kernel.lengths)
    assert prior.covariance == pytest.approx((1 - kernel.weight) * learned + kernel.weight * kernel.variance * alike)


def test_other_configurations_and_machines_are_less_certain_and_the_covariance_stays_positive(tmp_path: Path) -> None:
    found = times(tmp_path)
    belief = learner(Settings())(found)
    other = [one._replace(threads=1.5 * one.threads, page_map="interleave") for one in found.points]
    both = belief.over([*found.points, *other], MACHINE).covariance
    assert np.linalg.eigvalsh(both).min() > -1e-9
    far = [one._replace(threads=1e-4, cores=1e-4) for one in found.points]
    assert np.diag(belief.over(far, MACHINE).covariance).min() > 0.9 * belief.kernel.variance
    known, new = (np.diag(belief.over(found.points, name).covariance) for name in (MACHINE, "another"))
    assert new == pytest.approx(known + belief.doubt)


def test_regions_that_were_not_run_everywhere_are_completed(tmp_path: Path) -> None:
    complete = times(tmp_path, programs=12)
    missing = complete.logs.copy()
    hidden = [place for place in range(0, len(complete.points), 4) if place not in complete.baselines]
    missing[np.ix_([0, 1, 2], hidden)] = np.nan
    learned = spread_of(replace(complete, logs=missing))
    expected = spread_of(complete)
    assert np.abs(learned.mean - expected.mean).max() < 0.05
    assert np.linalg.eigvalsh(learned.covariance).min() > -1e-9


def twins(found: Times, programs: int = 40) -> Times:
    """Return times of programs whose configurations that differ only by prefetchers are nearly the same."""
    random = np.random.default_rng(2)
    kinds = [one._replace(prefetch="0000") for one in found.points]
    of_kind = {kind: random.normal(size=programs) for kind in sorted(set(kinds))}
    logs = np.array([of_kind[kind] for kind in kinds]).T + random.normal(0, 0.01, size=(programs, len(kinds)))
    regions = tuple(found.regions[0]._replace(program=f"program{number}") for number in range(programs))
    baseline = found.baselines[0]
    return replace(
        found,
        regions=regions,
        baselines=np.full(programs, baseline),
        logs=logs - logs[:, [baseline]],
        weights=np.ones(programs),
    )


def half_run(found: Times) -> Times:
    """Return times of which each program lacks half of the kinds of configurations, but for that of the baseline."""
    missing = found.logs.copy()
    of_point = [one._replace(prefetch="0000") for one in found.points]
    kinds = sorted(set(of_point) - {of_point[found.baselines[0]]})
    for program in range(len(missing)):
        hidden = kinds[program % 2 :: 2]
        missing[program, [kind in hidden for kind in of_point]] = np.nan
    return replace(found, logs=missing)


def test_the_residual_is_what_no_other_configuration_shares(tmp_path: Path) -> None:
    found = times(tmp_path, programs=40)
    # Each configuration has a variance of its own of 0.05 squared. The least of 35 estimates is smaller.
    spread = spread_of(found)
    residual = spread.residual(spread.factors(2))
    others = np.delete(residual, found.baselines[0])
    assert 0.2 * 0.05**2 < others.min() < others.max() < 0.05**2
    # Two factors leave most of the variance of twelve kinds, and the configurations of a kind share it.
    kinds = spread_of(twins(found))
    left = np.diag(kinds.covariance) - (kinds.factors(2) ** 2).sum(axis=1)
    assert left.max() > 1
    assert kinds.residual(kinds.factors(2)).max() < 0.001


def test_configurations_that_are_nearly_the_same_are_not_tried_one_after_the_other(tmp_path: Path) -> None:
    complete = twins(times(tmp_path, programs=3))
    found = half_run(complete)
    belief = learner(Settings(factors=12, weight=0.01))(found)
    start = Start(belief.over(found.points, MACHINE), belief.noise, found.baselines[0])
    kinds = [
        {found.points[place]._replace(prefetch="0000") for place in search(start, truth, 6)} for truth in complete.logs
    ]
    assert np.mean([len(one) for one in kinds]) > 4.5


def test_what_few_regions_leave_uncertain_is_shared_by_factors(tmp_path: Path) -> None:
    found = half_run(twins(times(tmp_path, programs=3)))
    spread = spread_of(found)
    factors = spread.factors(12)
    assert spread.residual(factors).max() < 0.03
    assert (factors**2).sum(axis=1) == pytest.approx(np.diag(spread.covariance), abs=0.1)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    belief = learner(Settings())(times(tmp_path))
    written = tmp_path / "belief.json"
    written.write_text(file.text(belief), encoding="utf-8")
    assert same(file.read(written), belief)


def same(one: Belief, other: Belief) -> bool:
    return file.text(one) == file.text(other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.update(version=2), "belief of version 2"),
        (lambda found: found.update(pinfold="model"), "is not a belief"),
        (lambda found: found["mean"].pop(), "`mean` has 35 entries, and there are 36 points"),
        (lambda found: found["mean"].__setitem__(0, float("nan")), "the number NaN"),
        (lambda found: found["residual"].__setitem__(0, -1.0), "the covariance is not positive"),
        (lambda found: found["kernel"].update(variance=-1.0), "the covariance is not positive"),
        (lambda found: found["kernel"].update(weight=1.5), "must be from 0 to 1"),
        (lambda found: found["kernel"]["lengths"].update(cores=0.0), "the length of `cores` is 0.0"),
        (lambda found: found.update(noise=0.0), "`noise` is 0.0"),
        (lambda found: found.pop("doubt"), "the key 'doubt' is missing"),
        (lambda found: found["points"][0].update(page_map="elsewhere"), "the page map `elsewhere` is none of"),
        (lambda found: found["points"][0].update(cores=2.0), "are no shares of a machine"),
        (lambda found: found["points"].clear(), "it has no points"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    document = json.loads(file.text(learner(Settings())(times(tmp_path))))
    change(document)
    written = tmp_path / "belief.json"
    written.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        file.read(written)


def test_a_file_has_at_most_100_kib(tmp_path: Path) -> None:
    found = times(tmp_path, programs=6)
    shares = [0.01 * step for step in range(1, 26)]
    points = [one._replace(threads=share, cores=share) for share in shares for one in found.points]
    many = np.tile(found.logs, (1, len(shares)))
    belief = learner(Settings())(replace(found, points=tuple(points), logs=many))
    assert len(file.text(belief)) <= file.MOST_BYTES
    assert len(belief.points) < len(points)


def test_a_belief_of_other_programs_is_better_than_chance_and_the_control_is_not(tmp_path: Path) -> None:
    judged = nested(times(tmp_path, programs=12), lambda _: None, Settings())
    after = {way: dict(zip(TRIALS, judged.shares(way), strict=True)) for way in judged.gains}
    for way in (BELIEF, PAIR):
        assert after[way][2].share > after[RANDOM][2].share + 0.3
    assert after[BELIEF][2].share >= after[RACE][2].share - 0.02
    for trials in (1, 2, 3):
        assert after[CONTROL][trials].share < after[RANDOM][trials].share + 0.1


def test_exchanged_times_are_the_same_times_elsewhere(tmp_path: Path) -> None:
    found = times(tmp_path)
    wrong = exchanged(found, 0)
    assert not wrong.logs[:, found.baselines].any()
    assert np.sort(wrong.logs, axis=1) == pytest.approx(np.sort(found.logs, axis=1))
    assert not np.allclose(wrong.logs, found.logs)


def test_a_given_belief_is_judged_by_other_data(tmp_path: Path) -> None:
    belief = learner(Settings())(times(tmp_path, programs=12))
    judged = given(read([data(tmp_path, rows(4, "another", seed=5), "other.parquet")]), belief)
    shares = judged.shares(BELIEF)
    assert shares[TRIALS.index(3)].share > 0.8
    assert [name for name, _ in judged.losses(BELIEF, 3)] != []


def test_settings_are_chosen_among_those_given(tmp_path: Path) -> None:
    choices = (Settings(weight=0.1), Settings(weight=0.5))
    assert choose(times(tmp_path), choices) in choices


def test_what_a_new_machine_adds_is_chosen_by_machines_that_were_left_out(tmp_path: Path) -> None:
    assert with_doubt(times(tmp_path), Settings()).doubt == NEW_MACHINE
    both = read([data(tmp_path, rows(6) + rows(6, "another", seed=3))])
    assert with_doubt(both, Settings(), (0.5, 2.0)).doubt in {0.5, 2.0}


def test_trials_of_a_region_that_lacks_configurations_are_judged(tmp_path: Path) -> None:
    here, there = rows(6), rows(6, "another", seed=3)
    there = [row for row in there if row["page_map"] != "balance"]
    judged = nested(read([data(tmp_path, here + there)]), lambda _: None, Settings())
    assert judged.shares(BELIEF)[-1].share > 0.9
    assert judged.shares(NEW)[-1].share > 0.9


def test_rows_without_a_baseline_are_refused(tmp_path: Path) -> None:
    found = [row for row in rows(3) if (row["program"], row["thread_map"]) != ("program1", "scatter")]
    with pytest.raises(ValueError, match="program1, program1 , has no row in the baseline"):
        read([data(tmp_path, found)])


def test_machines_without_a_common_configuration_are_refused(tmp_path: Path) -> None:
    baseline = (32, 2, "scatter", "locality", "0000")
    here = [row for row in rows(3) if row["prefetch"] == "0000"]
    names = ("num_threads", "num_nodes", "thread_map", "page_map", "prefetch")
    there = [
        row for row in rows(3, "another") if row["prefetch"] != "0000" or tuple(row[name] for name in names) == baseline
    ]
    files = [data(tmp_path, here, "here.parquet"), data(tmp_path, there, "there.parquet")]
    with pytest.raises(ValueError, match="have no configuration in common but the baseline"):
        read(files)


def test_fewer_than_three_programs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the data is of 2 programs \(program0, program1\)"):
        enough(times(tmp_path, programs=2))


def test_times_that_are_all_the_same_are_refused(tmp_path: Path) -> None:
    found = times(tmp_path)
    with pytest.raises(ValueError, match="there is nothing to learn"):
        learner(Settings())(replace(found, logs=np.zeros_like(found.logs)))


def test_the_command_learns_and_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated, measured = rows(6), rows(6, "another", simulated=False, seed=1)
    files = [data(tmp_path, simulated, "a.parquet"), data(tmp_path, measured, "b.parquet")]
    named = [word for one in files for word in ("--data", str(one))]
    written, figures = tmp_path / "belief.json", tmp_path / "figures.json"
    assert main(["train", "belief", *named, "-o", str(written)]) == 125
    assert "give --mixed" in capsys.readouterr().err
    assert main(["train", "belief", *named, "--weight", "1", "-o", str(written)]) == 125
    assert "give --weight once for each --data" in capsys.readouterr().err
    weights = ["--weight", "1", "--weight", "3"]
    assert main(["train", "belief", *named, *weights, "-o", str(written)]) == 0
    origin = file.read(written).origin
    assert (origin.machines, origin.measured_rows, origin.simulated_rows) == (["another", MACHINE], 216, 216)
    capsys.readouterr()
    assert main(["evaluate", "belief", "--data", str(files[0]), "--belief", str(written), "--json", str(figures)]) == 0
    assert "the belief has seen programs" in capsys.readouterr().err
    assert json.loads(figures.read_text())["ways"][BELIEF]["5"]["share"] > 0.9


def test_the_file_of_a_belief_is_as_small_as_the_user_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named, written = ["--data", str(data(tmp_path, rows(4)))], tmp_path / "belief.json"
    for kib in ("0", "101", "many"):
        assert main(["train", "belief", *named, "--kib", kib, "-o", str(written)]) == 125
        assert f"{kib} is no size of a belief: give a whole number from 1 to 100" in capsys.readouterr().err
    assert main(["train", "belief", *named, "--kib", "3", "-o", str(written)]) == 0
    assert written.stat().st_size <= 3 << 10
    assert 1 < len(file.read(written).points) < 36


def test_the_limit_of_the_command_is_that_of_files() -> None:
    assert KIB_OF_BELIEF << 10 == file.MOST_BYTES
