"""``pinfold learn sweep --slurm``: the shards of a sweep as a job array of Slurm, and their data set.

1. Each shard whose file is not there becomes a job of one array (``submitit``), which runs ``pinfold sweep --shard``.
2. Before its time limit a job gets SIGUSR2. It ends its sweep, whose finished configurations are kept, and is put back
   into the queue: a job that hits the limit continues from its finished configurations. A job that finished nothing
   since its start fails.
3. This process shows one line for all jobs until each has a result, and merges the shards (``pinfold sweep merge``).

The state of jobs comes from their results and from ``squeue``, since not every cluster has accounting (``sacct``).
Ctrl-C cancels the jobs; the same command continues from their results.

With recordings, a shard is simulated. With a command it is measured: its job has a node for itself, so that no other
job disturbs a run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinfold.binary import find_binary
from pinfold.text import redraw

SECONDS_BETWEEN_LOOKS = 2.0
"""The interval between two looks at the jobs. Each look asks Slurm once, for all jobs."""

SECONDS_BETWEEN_WAITS = 0.2
"""The interval between a job's checks for the end of its sweep or a signal."""

LOOKS_UNTIL_LOST = 5
"""A job that is not in the queue this many times, and has no result, has ended without one. A result in a shared folder
may be seen later than the end of its job."""

MOST_SECONDS_BEFORE_LIMIT = 90
"""A job ends its sweep at most this long before its limit, or a quarter of a short limit before."""

LEAST_MINUTES = 2
"""Slurm may send the signal 60 s earlier than asked (sbatch(1), ``--signal``). It must not come before a job can
receive it."""

MEASURED = (
    ("precision", "PERCENT"),
    ("runs", "N"),
    ("warmup-runs", "N"),
    ("check", "COMMAND"),
    ("before", "COMMAND"),
    ("output-dir", "DIR"),
    ("input", "FILE"),
    ("page-options", "LIST"),
)
"""Options of ``pinfold sweep`` on the machine at hand, which every shard gets, with the names of their values."""

MOST_RESUBMISSIONS = 10_000
"""More than a sweep needs: a job that makes no progress is not resubmitted anyway."""


class ShardJob:
    """What a job does: one shard. Slurm's nodes read it from a file, by the name of this class."""

    def __init__(self, command: Sequence[str], shard: Path) -> None:
        """Store the command of the sweep, and the file that it writes."""
        self.command = list(command)
        self.shard = shard
        self._began_with = 0
        self._sweep: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Simulate or measure the shard.

        Raises:
            RuntimeError: if pinfold fails. Its messages are in the log of the job.
        """
        if self.shard.exists():
            return
        self._began_with = self._size()
        # Slurm signals all processes of a job. The sweep ends by `checkpoint` alone.
        handler = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        try:
            self._sweep = subprocess.Popen(self.command)
        finally:
            signal.signal(signal.SIGUSR2, handler)
        # Not `Popen.wait`: it holds a lock, and `checkpoint`, which interrupts it, would wait for that lock forever.
        # And not one long wait: another thread (numpy has some) may get the signal, which does not interrupt this one.
        ended, status = 0, 0
        while not ended:
            time.sleep(SECONDS_BETWEEN_WAITS)
            ended, status = os.waitpid(self._sweep.pid, os.WNOHANG)
        if status != 0:
            raise RuntimeError(f"pinfold sweep ended with status {os.waitstatus_to_exitcode(status)}")

    def checkpoint(self) -> Any:
        """End the sweep at the time limit. Return the work of the resubmitted job, or None without progress."""
        # submitit is optional, and this runs in a job only.
        from submitit.helpers import DelayedSubmission  # noqa: PLC0415

        if self._sweep is not None:
            # It may have ended, and have been waited for, just before the signal.
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._sweep.pid, signal.SIGTERM)
                os.waitpid(self._sweep.pid, 0)
        if self._size() <= self._began_with and not self.shard.exists():
            print("no configuration was finished within the time limit: give a longer one (--time)", file=sys.stderr)
            return None
        return DelayedSubmission(ShardJob(self.command, self.shard))

    def _size(self) -> int:
        try:
            return self.shard.with_name(self.shard.name + ".partial").stat().st_size
        except FileNotFoundError:
            return 0


def sweep(asked: argparse.Namespace) -> None:
    """Run ``pinfold learn sweep``.

    Raises:
        FileNotFoundError: if Slurm is not installed.
        ValueError: if submitit is not installed, the data set exists, or a shard fails.
    """
    _check(asked)
    binary = find_binary().absolute()
    folder = (asked.logs or asked.output.with_name(asked.output.name + ".slurm")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shards = [folder / f"{number}-of-{asked.shards}.shard" for number in range(1, asked.shards + 1)]
    words, program = _words(asked, binary)
    work = [
        ShardJob([*words, "--shard", f"{number}/{asked.shards}", "-o", str(shard), *program], shard)
        for number, shard in enumerate(shards, 1)
        if not shard.exists()
    ]
    if work:
        _run(asked, folder, work)
    merge = [str(binary), "sweep", "merge", "-o", str(asked.output), *(["--force"] if asked.force else [])]
    merge += ["--quiet"] if asked.quiet else []
    done = subprocess.run([*merge, *map(str, shards)], check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ValueError(f"the shards in {folder} cannot be merged: {done.stderr.strip()}")
    sys.stderr.write(done.stderr)
    for shard in shards:
        shard.unlink()


def _words(asked: argparse.Namespace, binary: Path) -> tuple[list[str], list[str]]:
    """Return the command of a shard without its number and its file, and the recordings or the program behind these."""
    words = [str(binary), "sweep", "--quiet"]
    words += [word for space in asked.space for word in ("--space", space)]
    words += ["--limit", str(asked.limit)] if asked.limit else []
    words += ["--threads", str(asked.threads)] if asked.threads else []
    if not asked.machine:
        words += [f"--{name}={value}" for name, value in _measured(asked)]
        return words, ["--", *asked.what]
    words += ["--jobs", str(asked.cpus or 1)]
    words += [word for machine in asked.machine for word in ("--machine", machine)]
    words += ["--sampled"] if asked.sampled else []
    return words, [str(Path(recording).absolute()) for recording in asked.what]


def _measured(asked: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the given options of ``MEASURED``, with their values."""
    values = [(name, getattr(asked, f"measured_{name}")) for name, _ in MEASURED]
    return [(name, value) for name, value in values if value is not None]


def _check(asked: argparse.Namespace) -> None:
    if not asked.slurm:
        raise ValueError("`pinfold learn sweep` needs --slurm; without a cluster, use `pinfold sweep`")
    _check_what(asked)
    if asked.time < LEAST_MINUTES:
        raise ValueError(
            f"--time {asked.time} is too short: Slurm announces the limit of a job up to a minute early, so "
            f"give {LEAST_MINUTES} minutes or more"
        )
    for program in ("sbatch", "srun", "squeue", "scancel"):
        if shutil.which(program) is None:
            raise FileNotFoundError(
                f"`{program}` is not found, so there is no Slurm here: run this on a login node of the cluster, or use "
                "`pinfold sweep --shard` with another scheduler"
            )
    if importlib.util.find_spec("submitit") is None:
        raise ValueError("--slurm needs the Python package submitit: `pip install submitit`")
    if asked.output.exists() and not asked.force:
        raise ValueError(f"{asked.output} exists: --force replaces it, or choose another output")


def _check_what(asked: argparse.Namespace) -> None:
    """Check that recordings come with a machine, and a command without one."""
    if asked.machine:
        if given := _measured(asked):
            option = f"--{given[0][0]}"
            raise ValueError(f"{option} is for programs that are measured: leave out --machine, or {option}")
        other = next((word for word in asked.what if not word.endswith(".pft")), None)
        if other is not None:
            raise ValueError(
                f"`{other}` is not a recording (FILE.pft): record the program once with `pinfold record`, or leave out "
                "--machine to measure it on the nodes of the cluster"
            )
    elif asked.sampled:
        raise ValueError("--sampled is for simulated machines: give --machine, or leave it out")
    elif asked.what[0].endswith(".pft"):
        raise ValueError(
            f"`{asked.what[0]}` is a recording: --machine says where it is simulated; to measure a program on the "
            "nodes of the cluster, give its command behind `--`"
        )


def _run(asked: argparse.Namespace, folder: Path, work: list[ShardJob]) -> None:
    """Run the jobs, until each shard is there; cancel them on Ctrl-C or an error."""
    import submitit  # noqa: PLC0415

    executor = submitit.SlurmExecutor(folder, max_num_timeout=MOST_RESUBMISSIONS)
    executor.update_parameters(
        job_name="pinfold-sweep",
        time=asked.time,
        # A measured program gets all CPUs of its node, unless the user wants fewer.
        **({"exclusive": True} if not asked.machine else {}),
        **({"cpus_per_task": asked.cpus or 1} if asked.cpus or asked.machine else {}),
        signal_delay_s=min(MOST_SECONDS_BEFORE_LIMIT, asked.time * 60 // 4),
        array_parallelism=len(work),
        **({"partition": asked.partition} if asked.partition else {}),
    )
    jobs = executor.submit_array(work)
    try:
        _watch(asked, list(zip(jobs, work, strict=True)))
    except BaseException:
        array = jobs[0].job_id.split("_")[0]
        subprocess.run(["scancel", array], check=False)
        print(
            f"pinfold learn: job {array} is cancelled; the same command goes on from what is kept in {folder}",
            file=sys.stderr,
        )
        raise


def _watch(asked: argparse.Namespace, running: list[tuple[Any, ShardJob]]) -> None:
    """Show the progress of the jobs until each shard is there.

    Raises:
        ValueError: if a job ends without its shard.
    """
    total, shown = len(running), ""
    jobs = [job for job, _ in running]
    absent: dict[str, int] = {}
    while running:
        queue = _queue()
        running = [(job, work) for job, work in running if not work.shard.exists()]
        for job, work in running:
            absent[job.job_id] = 0 if job.job_id in queue else absent.get(job.job_id, 0) + 1
            failed = job.paths.result_pickle.exists() and not work.shard.exists()
            if failed or absent[job.job_id] >= LOOKS_UNTIL_LOST:
                raise ValueError(f"{work.shard.stem} has failed, job {job.job_id}: see its log {job.paths.stderr}")
        active = sum(queue.get(job.job_id) == "RUNNING" for job, _ in running)
        resubmitted = sum(map(_resubmitted, jobs))
        line = f"{total - len(running)} of {total} shards done, {active} running"
        line += f", {resubmitted} resubmitted at the time limit" if resubmitted else ""
        if line != shown and not asked.quiet:
            if sys.stderr.isatty():
                redraw(f"pinfold learn: {line}")
            else:
                print(f"pinfold learn: {line}", file=sys.stderr, flush=True)
            shown = line
        if running:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if shown and sys.stderr.isatty():
        print(file=sys.stderr)


def _resubmitted(job: Any) -> int:
    """Return 1 if a job was put back into the queue at its time limit, as its log says, else 0."""
    try:
        return int("Requeued job" in job.paths.stdout.read_text(errors="replace"))
    except FileNotFoundError:
        return 0


def _queue() -> dict[str, str]:
    """Return the state of each of the user's jobs in the queue, by its id."""
    command = ["squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i %T"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"the state of the jobs is not known: {done.stderr.strip()}")
    return dict(line.split() for line in done.stdout.splitlines())
