from collections.abc import Mapping, Sequence
from os import PathLike

class Pu:
    """A processing unit.

    Attributes:
        number: the operating system's number, as ``taskset`` takes it.
        core: the position of its core among all cores of the machine.
        llc: the position of its last-level cache among all of them.
        package: the position of its package.
        node: the operating system's number of its NUMA node; None where it has none.
    """

    number: int
    core: int
    llc: int
    package: int
    node: int | None

class Node:
    """A NUMA node.

    Attributes:
        number: the operating system's number.
        memory: its memory in bytes; None where it is not known.
        pus: the numbers of its PUs.
    """

    number: int
    memory: int | None
    pus: list[int]

class Topology:
    """A machine's PUs and NUMA nodes."""

    @property
    def name(self) -> str:
        """The name of the machine."""
    @property
    def pus(self) -> list[Pu]:
        """The PUs that the program may use, by number."""
    @property
    def nodes(self) -> list[Node]:
        """The NUMA nodes."""
    def hops(self, one: int, other: int) -> int:
        """Return the steps between the cores of two PUs in hwloc's tree, 0 for PUs of the same core.

        Raises:
            ValueError: there is no such PU.
        """

class Metric:
    """A metric of the machine.

    Attributes:
        name: as ``pinfold run --metric`` takes it.
        unit: what one count is.
        per_task: whether each task has a count of its own, or the program has one.
    """

    name: str
    unit: str
    per_task: bool

class Task:
    """A task in a sample.

    Attributes:
        serial: its position in the order of creation, from 0. A decision names tasks by it.
        process: the kernel's number of the process.
        thread: the kernel's number of the thread.
        name: the thread's name.
        alive: whether it was alive when the sample was taken.
        cpu_time: the processor time that it has used, in seconds; None where it is not known.
        pu: the PU on which it last ran; None where it is not known.
        counts: by metric, the total since the task began; None for one that could not be read.
    """

    serial: int
    process: int
    thread: int
    name: str
    alive: bool
    cpu_time: float | None
    pu: int | None
    counts: dict[str, int | None]

class Sample:
    """One reading of the program.

    Attributes:
        at: when it was taken, in seconds since the start of the run.
        tasks: the living tasks, and those that ended since the last sample, in the order of their creation.
        program: by metric of the whole program, the total since it began; None for one that could not be read.
    """

    at: float
    tasks: list[Task]
    program: dict[str, int | None]
    def rate(self, earlier: Sample, metric: str) -> float | None:
        """Return the growth of a metric per second since an earlier sample.

        For a metric of tasks it is the sum over the tasks that both samples have. None where it could not be read,
        where no time has passed, and for a metric that the machine does not have.
        """

class Applied:
    """What the machine did of the last decision.

    Attributes:
        moved: the serials of the tasks whose place has changed.
        refused: what could not be done, and why.
    """

    moved: list[int]
    refused: list[str]

class Configuration:
    """Where threads and pages belong."""

    def __init__(
        self,
        pus: Sequence[int] | None = None,
        *,
        pages: str | None = None,
        prefetch: str | None = None,
        tasks: Mapping[int, int] = ...,
        left_alone: Sequence[int] = ...,
    ) -> None:
        """Store the parameters.

        Args:
            pus: the PU of each thread, in the order of their creation; threads beyond the last begin again at the
                first. None: threads are not pinned.
            pages: a page mapping, such as ``"interleave"`` or ``"bind:0"``; None: pages are left where they are.
            prefetch: four characters, 0 on and 1 off: DCU-IP, DCU, L2 adjacent, L2 streamer; None: as they are.
            tasks: by serial of a task, its PU; it is before ``pus``.
            left_alone: the serials of tasks that are not pinned.

        Raises:
            ValueError: a text that is no mapping or no setting of prefetchers, or no PU at all.
        """
    @property
    def pus(self) -> list[int] | None: ...
    @property
    def pages(self) -> str | None: ...
    @property
    def prefetch(self) -> str | None: ...
    @property
    def tasks(self) -> dict[int, int]: ...
    @property
    def left_alone(self) -> list[int]: ...

class Decision:
    """The answer of a policy to a sample."""

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        wait: float = 1.0,
        note: str | None = None,
        done: bool = False,
    ) -> None:
        """Store the parameters.

        Args:
            configuration: what to apply; None: nothing is changed. `Configuration()` unpins all threads.
            wait: the time until the next sample, in seconds of the machine.
            note: a sentence for the record of the run.
            done: whether the policy has chosen. Where the run has no number of repetitions, the program then ends when
                it has completed the present one.

        Raises:
            ValueError: a wait of no time.
        """
    @property
    def configuration(self) -> Configuration | None: ...
    @property
    def wait(self) -> float: ...
    @property
    def note(self) -> str | None: ...
    @property
    def done(self) -> bool: ...

class Question:
    """What a pinfold asks a policy of this process: the name of the method, and its arguments.

    Attributes:
        method: ``start``, ``decide`` or ``end``.
        topology: the machine, of ``start``.
        metrics: what each sample counts, of ``start``.
        sample: the counts since the program began, of ``decide``.
        applied: what the machine did of the last decision, of ``decide``.
    """

    method: str
    topology: Topology | None
    metrics: list[Metric] | None
    sample: Sample | None
    applied: Applied | None

def question(line: str) -> Question:
    """Return the question in a line of a pinfold that asks this process.

    Raises:
        ValueError: the line is no question.
    """

def decision_line(decision: Decision) -> str:
    """Return the answer to ``start`` and ``decide``."""

def notes_line(notes: Sequence[str]) -> str:
    """Return the answer to ``end``: sentences for the record of the run."""

def failed_line(why: str) -> str:
    """Return the answer of a policy that has failed, to any question."""

def machines() -> list[str]:
    """Return the names of the machine models that come with pinfold."""

def topology(machine: str) -> Topology:
    """Return the topology of a model: a name of `machines`, or the path of a ``FILE.toml``.

    Raises:
        ValueError: there is no such model, or the file describes none.
        OSError: the file cannot be read.
    """

def simulate(
    policy: object,
    name: str,
    recordings: Sequence[str | PathLike[str]],
    machine: str,
    *,
    repeat: int | None = None,
    seed: int = 0,
    noise: float = 0.0,
    kernel: str | None = None,
    numa_balancing: bool = False,
    salvage: bool = False,
) -> str:
    """Run recordings side by side under a policy, and return the record as JSON. `pinfold.simulate` calls it."""

def map_threads(
    machine: Sequence[Sequence[Sequence[int]]], threads: int, nodes: int, thread_map: str
) -> list[int] | None:
    """Return the PU of each thread that a map of threads places on the first nodes of a machine.

    Args:
        machine: by NUMA node and core, the PUs.
        threads: the number of threads.
        nodes: the number of nodes.
        thread_map: ``compact`` or ``scatter``.

    Returns:
        None if the machine has fewer nodes, or there are fewer threads than nodes.

    Raises:
        ValueError: another map of threads, or a machine without PUs.
    """

def moved_threads(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> int:
    """Return how many threads must move to other last-level caches so that one placement becomes another.

    Symmetries of the machine cost nothing: packages with equally many caches are interchangeable, and so are the caches
    of a package.

    Args:
        one: the threads of each cache, by package.
        other: the same of the other placement.

    Raises:
        ValueError: the two have different numbers of threads, of packages, or of caches in packages.
    """

def classify_features() -> list[list[str]]:
    """Return the names of the features that a model of ``classify`` sees: of a program, a machine and a strategy."""
