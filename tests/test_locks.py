"""Files of pinfold that another user, or another process of the same user, has locked.

Files that pinfold makes are private. An older pinfold made them for all to read, so a user may have opened one before,
and may keep it locked: the tests open the files to all and lock them as another user.
"""

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, Pinfold, environment, eventually, kill_with_guard, masks

#: A user who owns none of the files: nobody.
STRANGER = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that other users may search."""
    if os.geteuid() != 0:
        pytest.skip("only root can lock a file as another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def locked(file: Path, *, by: int = STRANGER) -> Iterator["subprocess.Popen[str]"]:
    """Have another user lock a file, as one who opened it when it was open to all."""
    file.chmod(0o644)
    words = ["flock", "-x", str(file), "sh", "-c", "echo locked; read end"]
    process = subprocess.Popen(
        words, user=by, group=by, extra_groups=[], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "locked\n"
        yield process
    finally:
        process.communicate("\n", timeout=PATIENCE)


def mode(file: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(file.stat().st_mode)


def listed(pinfold: Pinfold, database: Path) -> "subprocess.CompletedProcess[str]":
    """Run `pinfold db list`."""
    words = [str(pinfold.binary), "db", "--db", str(database), "list"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment())


def test_no_file_of_a_run_is_open_to_another_user(
    pinfold: Pinfold, shared: Path, compiled: Callable[..., Path]
) -> None:
    process = pinfold.start(
        "--outlive", "--policy", "fixed", "--db", shared / "b.db", "--journals", shared / "journals", "--",
        compiled("spin"), "1", "600",
    )  # fmt: skip
    assert process.stdout
    program = int(process.stdout.readline())
    pinfold.run("--db", shared / "b.db", "--", "true")
    try:
        (journal,) = (shared / "journals").glob("*.journal")
        for file in (journal, shared / "b.db", shared / "b.db.lock"):
            assert mode(file) == 0o600, file
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
        with suppress(ProcessLookupError):
            os.kill(program, 9)


def test_a_run_and_a_list_go_on_while_a_stranger_has_the_database_locked(pinfold: Pinfold, shared: Path) -> None:
    database = shared / "b.db"
    pinfold.run("--db", database, "--", "true")
    with locked(shared / "b.db.lock"):
        run = pinfold.run("--db", database, "--", "echo", "hello")
        assert (run.status, run.out) == (0, "hello\n")
        assert run.said("remembered") == 0, run.err
        assert listed(pinfold, database).returncode == 0
        assert mode(shared / "b.db.lock") == 0o600


def test_a_run_goes_on_without_a_database_that_a_process_of_its_user_keeps_locked(
    pinfold: Pinfold, shared: Path
) -> None:
    database = shared / "b.db"
    pinfold.run("--db", database, "--", "true")
    with locked(shared / "b.db.lock", by=0) as holder:
        named = f"process {holder.pid} (flock) of user 0 has locked `{database}.lock`"
        for policy in ("auto", "hints"):
            run = pinfold.run("--policy", policy, "--db", database, "--", "echo", "hello")
            assert (run.status, run.out) == (0, "hello\n"), run.err
            assert run.said(named) == 1, run.err
        refused = listed(pinfold, database)
        assert refused.returncode != 0
        assert named in refused.stderr


def test_a_lock_of_the_database_that_belongs_to_a_stranger_is_named_and_left(pinfold: Pinfold, shared: Path) -> None:
    lock = shared / "b.db.lock"
    lock.touch()
    os.chown(lock, STRANGER, STRANGER)
    run = pinfold.run("--db", shared / "b.db", "--", "echo", "hello")
    assert (run.status, run.out) == (0, "hello\n")
    assert run.said(f"`{lock}`: it belongs to user {STRANGER}") == 1, run.err
    assert not (shared / "b.db").exists()


@pytest.mark.usefixtures("several_cpus")
@pytest.mark.parametrize("guarded", [True, False], ids=["by_the_guard", "by_reset"])
def test_masks_are_restored_while_a_stranger_has_the_journal_locked(
    pinfold: Pinfold, shared: Path, compiled: Callable[..., Path], guarded: bool
) -> None:
    journals = shared / "journals"
    process = pinfold.start(
        "--outlive", "--policy", "fixed", "--journals", journals, "--", compiled("spin"), "2", "600"
    )
    assert process.stdout
    program = int(process.stdout.readline())
    try:
        eventually(lambda: all(len(mask) == 1 for mask in masks(program).values()), "the program is pinned")
        (journal,) = journals.glob("*.journal")
        journal.chmod(0o644)
        opened = os.open(journal, os.O_RDONLY)
        words = ["sh", "-c", f"flock -x {opened}; echo locked; read end"]
        # It waits for the lock that pinfold has, and gets it when pinfold has died.
        waits = subprocess.Popen(
            words,
            user=STRANGER,
            group=STRANGER,
            extra_groups=[],
            pass_fds=[opened],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        os.close(opened)
        if guarded:
            process.kill()
            process.wait()
            eventually(lambda: all(mask == set(CPUS) for mask in masks(program).values()), "the guard restores masks")
        else:
            kill_with_guard(process)
            assert waits.stdout
            assert waits.stdout.readline() == "locked\n"
            words = [str(pinfold.binary), "reset", "--journals", str(journals)]
            reset = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert reset.returncode == 0, reset
            assert all(mask == set(CPUS) for mask in masks(program).values())
        eventually(lambda: not list(journals.glob("*.journal")), "the journal is removed")
        waits.kill()
        waits.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.kill(program, 9)
