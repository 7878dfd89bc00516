"""The Python interface: recording, simulating under policies of pinfold and of one's own, sweeping into tables."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas
import polars
import pytest
from conftest import environment
from matplotlib.patches import Rectangle

import pinfold
from pinfold import Applied, Configuration, Decision, Metric, Policy, Recording, Sample, Topology

MACHINE = "e5-4650x4"


@pytest.fixture(scope="module")
def recording(workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Return a recording of four threads that write to the same cache lines."""
    file = tmp_path_factory.mktemp("notebook") / "sharing.pft"
    program = [str(workload("false_sharing")), "--threads", "4", "--size", "64k", "--iterations", "3"]
    return pinfold.record(program, file)


class Seen(Policy):
    """Puts the threads on one package, looks at three samples, and is done."""

    def __init__(self) -> None:
        self.metrics: list[str] = []
        self.samples: list[Sample] = []
        self.applied: list[Applied] = []

    def start(self, topology: Topology, metrics: Sequence[Metric]) -> Decision:
        self.metrics = [metric.name for metric in metrics]
        last = max(pu.package for pu in topology.pus)
        pus = [pu.number for pu in topology.pus if pu.package == last]
        return Decision(Configuration(pus[:4], pages="interleave"), wait=0.5, note="all on the last package")

    def decide(self, topology: Topology, sample: Sample, applied: Applied) -> Decision:
        self.samples.append(sample)
        self.applied.append(applied)
        return Decision(wait=0.25, done=len(self.samples) == 3)

    def end(self) -> list[str]:
        return ["three samples were enough"]


def test_a_recording_says_what_it_is(recording: Recording) -> None:
    assert recording.command[-2:] == ["--iterations", "3"]
    assert recording.threads.num_rows == 4
    assert recording.threads.column("accesses").to_pylist()[0] > 0
    assert Recording(recording).path == recording.path


def test_a_policy_in_python_runs_on_a_simulated_machine(recording: Recording) -> None:
    policy = Seen()
    run = pinfold.simulate(recording, MACHINE, policy)
    topology = pinfold.topology(MACHINE)
    wanted = [pu.number for pu in topology.pus if pu.package == 3][:4]
    (applied,) = run.configurations.to_pylist()
    assert applied == {"at": 0.0, "pus": wanted, "pages": "interleave", "prefetch": None}
    assert [sample.at for sample in policy.samples[:3]] == [0.5, 0.75, 1.0]
    assert [task.pu for task in policy.samples[0].tasks] == wanted
    assert run.notes == ["all on the last package", "three samples were enough"]
    assert run.policy == "Seen"
    assert run.document["simulated"] is True


def test_rates_are_growth_over_time_and_missing_where_nothing_is_counted(recording: Recording) -> None:
    policy = Seen()
    run = pinfold.simulate(recording, MACHINE, policy)
    first, second = policy.samples[:2]
    regions = [sample.program["regions"] for sample in (first, second)]
    assert regions[0] is not None
    assert regions[1] is not None
    assert second.rate(first, "regions") == pytest.approx((regions[1] - regions[0]) / 0.25)
    counts = [[task.counts["event:instructions"] or 0 for task in sample.tasks] for sample in (first, second)]
    assert second.rate(first, "event:instructions") == pytest.approx((sum(counts[1]) - sum(counts[0])) / 0.25)
    assert second.rate(second, "regions") is None
    assert second.rate(first, "nothing of this name") is None
    assert run.rates.column_names == ["at", *policy.metrics]


def test_the_same_policy_gives_the_same_run(recording: Recording) -> None:
    runs = [pinfold.simulate(recording, MACHINE, Seen(), seed=7, noise=5).document for _ in range(2)]
    assert runs[0] == runs[1]
    other = pinfold.simulate(recording, MACHINE, Seen(), seed=8, noise=5).document
    assert other != runs[0]


@pytest.mark.parametrize("policy", ["none", Seen])
def test_the_kernel_of_the_simulated_machine_can_be_another_one(
    recording: Recording, policy: str | Callable[[], Policy]
) -> None:
    chosen = policy if isinstance(policy, str) else policy()
    kernels = [
        pinfold.simulate(recording, MACHINE, chosen, repeat=20, kernel=kernel).document["simulation"]["kernel"]
        for kernel in (None, "2.6.39")
    ]
    assert kernels == ["6.1", "2.6.39"]
    with pytest.raises((ValueError, pinfold.PinfoldError), match=r"3\.10, 6\.1"):
        pinfold.simulate(recording, MACHINE, chosen, kernel="5.0")


@pytest.mark.parametrize("policy", ["none", Seen])
def test_automatic_numa_balancing_of_the_simulated_machine_can_be_on(
    recording: Recording, policy: str | Callable[[], Policy]
) -> None:
    chosen = policy if isinstance(policy, str) else policy()
    off, on = (
        pinfold.simulate(recording, MACHINE, chosen, repeat=20, numa_balancing=balances).document["simulation"]
        for balances in (False, True)
    )
    assert off["numa_balancing"] is None
    assert set(on["numa_balancing"]) == {"scans", "hint_faults", "pages_moved", "tasks_moved"}
    with pytest.raises((ValueError, pinfold.PinfoldError), match="choose a later kernel"):
        pinfold.simulate(recording, MACHINE, chosen, kernel="2.6.39", numa_balancing=True)


def test_a_configuration_is_as_fast_as_the_binary_says(recording: Recording) -> None:
    pus = [0, 8, 16, 24]
    own = pinfold.simulate(recording, MACHINE, Configuration(pus), repeat=50)
    fixed = pinfold.simulate(recording, MACHINE, "fixed", repeat=50, options=["--schedule", "0,8,16,24"])
    # Each reading of the counters takes microseconds, and the policies read them at different times.
    assert own.seconds == pytest.approx(fixed.seconds, rel=1e-3)
    together = pinfold.simulate(recording, MACHINE, Configuration([0, 1, 2, 3]), repeat=50)
    assert together.speed > own.speed


def test_several_recordings_run_side_by_side(recording: Recording) -> None:
    run = pinfold.simulate([recording, recording], MACHINE, Configuration([0, 1, 2, 3]), repeat=20)
    assert run.programs.num_rows == 2
    assert set(run.programs.column("name").to_pylist()) == {"false_sharing"}


def test_tasks_are_placed_by_their_serial(recording: Recording) -> None:
    class Swap(Policy):
        places: list[int | None]

        def decide(self, topology: Topology, sample: Sample, applied: Applied) -> Decision:
            if sample.at > 1:
                self.places = [task.pu for task in sample.tasks]
                return Decision(done=True)
            return Decision(Configuration(tasks={task.serial: 8 * task.serial for task in sample.tasks}))

    policy = Swap()
    pinfold.simulate(recording, MACHINE, policy)
    assert policy.places == [0, 8, 16, 24]


def test_a_record_is_explained_drawn_and_saved(recording: Recording, tmp_path: Path) -> None:
    run = pinfold.simulate(recording, MACHINE, "autopin", options=["--schedule", "0,1,2,3", "--schedule", "0,8,16,24"])
    assert "`autopin`" in run.explain()
    assert "T3" in run.plot()._repr_svg_()
    assert run.plot().save(tmp_path / "run.svg").read_text().startswith("<?xml")
    assert run.report(tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")
    run.save(tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text()) == run.document
    assert f"<td>{MACHINE} (simulated)</td>" in run._repr_html_()
    assert "simulated" in repr(run)


def test_an_old_record_has_no_drawing_and_that_is_said(recording: Recording) -> None:
    run = pinfold.simulate(recording, MACHINE, "none")
    del run.document["timeline"]
    with pytest.raises(ValueError, match="run the program again"):
        run.plot()


def test_a_recording_draws_which_threads_share(recording: Recording) -> None:
    pairs = recording.sharing.communications
    assert pairs.shape == (4, 4)
    assert pairs.sum() > 0
    drawn = recording.plot()._repr_svg_()
    for thread in range(4):
        assert f"T{thread}" in drawn
    assert recording.sharing._repr_svg_() == drawn


def test_a_sweep_is_drawn_with_the_fastest_first(recording: Recording) -> None:
    table = pinfold.sweep(recording, MACHINE, "placement", progress=False)
    axes = pinfold.SweepDisplay(table).plot(shown=5).figure.axes[0]
    lengths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 1.0
    # The table has a row for each region, too; they are drawn beside the program.
    assert len(lengths) == table.column("region").to_pylist().count(None) > 1
    with pytest.raises(ValueError, match="no rows"):
        pinfold.SweepDisplay(table.slice(0, 0)).plot()


def test_a_sweep_is_a_table_that_others_read(
    recording: Recording, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = pinfold.sweep(recording, [MACHINE], "hints", output=tmp_path / "hints.parquet")
    assert table.num_rows > 1
    assert "100%" in capfd.readouterr().err
    assert pandas.read_parquet(tmp_path / "hints.parquet").equals(table.to_pandas())
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    assert frame["machine"].unique().to_list() == [MACHINE]
    again = pinfold.sweep(recording, MACHINE, "hints", progress=False)
    assert again.equals(table)
    assert "configurations" not in capfd.readouterr().err


def test_the_exception_of_a_policy_ends_the_run(recording: Recording) -> None:
    class Broken(Policy):
        calls = 0

        def decide(self, topology: Topology, sample: Sample, applied: Applied) -> Decision:
            self.calls += 1
            raise ArithmeticError("a mistake of the policy")

    broken = Broken()
    with pytest.raises(ArithmeticError, match="a mistake of the policy"):
        pinfold.simulate(recording, MACHINE, broken)
    assert broken.calls == 1


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision(Configuration([64])), "wants PU 64, and e5-4650x4 has 0-63"),
        (Decision(Configuration(pages="bind:4")), "wants pages on node 4, which e5-4650x4 does not have"),
        (Decision(Configuration(tasks={99: 0})), "names task 99, which no sample has had"),
        ("packed", "answers with <class 'str'>, and must answer with a pinfold.Decision"),
    ],
)
def test_decisions_that_no_machine_can_follow_are_refused(recording: Recording, decision: Decision, said: str) -> None:
    class Wrong(Policy):
        def decide(self, topology: Topology, sample: Sample, applied: Applied) -> Decision:
            return decision

    with pytest.raises((ValueError, TypeError), match=said):
        pinfold.simulate(recording, MACHINE, Wrong())


def test_bad_values_are_named_with_the_remedy(recording: Recording, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pft"
    damaged.write_bytes(recording.path.read_bytes()[:1000])
    kept = Configuration([0])
    for call, said in (
        (lambda: Configuration([]), "give the PU of each thread"),
        (lambda: Configuration(pages="everywhere"), "pages='everywhere': `everywhere` is no page mapping"),
        (lambda: Configuration(prefetch="2"), "prefetch='2'"),
        (lambda: Decision(wait=0), "wait=0 is no time"),
        (lambda: pinfold.simulate(recording, "e5", kept), "there is no machine model 'e5'"),
        (lambda: pinfold.simulate(tmp_path / "none.pft", MACHINE, kept), "none.pft"),
        (lambda: pinfold.simulate(damaged, MACHINE, kept), "damaged.pft"),
        (lambda: pinfold.simulate([], MACHINE, kept), "no recording"),
        (lambda: pinfold.simulate(recording, MACHINE, kept, repeat=0), "repeat=0"),
        (lambda: pinfold.simulate(recording, MACHINE, kept, noise=-1), "noise=-1"),
        (lambda: pinfold.simulate(recording, MACHINE, kept, options=["-v"]), "options and db are for policies"),
        (lambda: pinfold.simulate(recording, MACHINE, kept, db="a.db"), "options and db are for policies"),
        (lambda: pinfold.simulate(recording, MACHINE, "best"), "best"),
        (lambda: pinfold.topology(str(tmp_path / "none.toml")), "cannot read the model"),
        (lambda: pinfold.topology(MACHINE).hops(0, 99), "no PU 99"),
        (lambda: pinfold.sweep(recording, MACHINE, "everything"), "everything"),
        (lambda: Recording(tmp_path / "none.pft").info, "none.pft"),
        (lambda: pinfold.record("/no/program", tmp_path / "x.pft"), "/no/program"),
    ):
        with pytest.raises((ValueError, OSError, pinfold.PinfoldError)) as raised:
            call()
        assert said in str(raised.value)


def test_control_c_ends_a_run_of_a_policy(recording: Recording) -> None:
    class Endless(Policy):
        def decide(self, topology: Topology, sample: Sample, applied: Applied) -> Decision:
            if sample.at == 1:
                signal.raise_signal(signal.SIGINT)
            return Decision()

    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        pinfold.simulate(recording, MACHINE, Endless())


def test_a_program_that_only_reports_its_progress_loads_nothing_else() -> None:
    program = "import pinfold, sys; pinfold.heartbeat(); print(*(name for name in sys.modules if 'pinfold' in name))"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment())
    assert set(loaded.split()) == {"pinfold", "pinfold._heartbeat"}
    assert {"simulate", "Policy", "heartbeat"} <= set(dir(pinfold))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pinfold.nothing
