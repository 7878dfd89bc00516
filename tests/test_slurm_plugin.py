"""`srun --pinfold`, on a Slurm of two nodes that the tests start. The user of the jobs is not root."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT, environment
from slurm_cluster import Slurm, missing

HEADER = Path("/usr/include/slurm/spank.h")
USER = 65534
ALONE = "runs without pinfold"


@dataclass
class Site:
    """A cluster whose plugstack.conf can be changed."""

    slurm: Slurm
    folder: Path
    plugin: Path
    binary: Path

    @property
    def records(self) -> Path:
        """The folder of records, which all users may write to."""
        return self.folder / "records"

    def allows(self, *arguments: str) -> None:
        """Configure the plugin with these arguments."""
        line = " ".join(["required", str(self.plugin), *arguments])
        (self.folder / "plugstack.conf").write_text(line + "\n")

    def run(self, *command: str | Path) -> "subprocess.CompletedProcess[str]":
        """Run one of Slurm's commands as the user."""
        user = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        variables = self.slurm.variables | {"PINFOLD_DB": str(self.records / "user.db")}
        return subprocess.run(
            [*user, *map(str, command)],
            env=environment(variables),
            cwd=self.records,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


@pytest.fixture(scope="module")
def cluster(binary: Path) -> Iterator[Site]:
    """Return a running Slurm with the plugin; skip where there cannot be one."""
    why = missing()
    if not why and not HEADER.exists():
        why = f"the plugin cannot be built: there is no {HEADER} (Debian: libslurm-dev)"
    if why:
        pytest.skip(why)
    # The folders of pytest are for this user only.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        subprocess.run(["make", "-C", ROOT / "slurm", f"build={folder}"], check=True, capture_output=True)
        shutil.copy(binary, folder / "pinfold")
        prolog = folder / "prolog"
        prolog.write_text("#!/bin/sh\necho export FROM_PROLOG=yes\n")
        prolog.chmod(0o755)
        lines = f"PlugStackConfig={folder}/plugstack.conf\nTaskProlog={prolog}"
        slurm = Slurm(folder / "slurm", cpus=4, nodes=2, lines=lines)
        site = Site(slurm, folder, folder / "pinfold_spank.so", folder / "pinfold")
        site.allows()
        try:
            if why := slurm.start():
                pytest.skip(f"Slurm does not start here: {why}")
            yield site
        finally:
            slurm.stop()


@pytest.fixture
def site(cluster: Site) -> Site:
    """Return the cluster, with a plugin that allows everything and with no records."""
    shutil.rmtree(cluster.records, ignore_errors=True)
    cluster.records.mkdir()
    cluster.records.chmod(0o1777)
    cluster.allows(f"binary={cluster.binary}", f"records={cluster.records}")
    return cluster


def test_a_task_runs_under_pinfold_after_all_that_slurm_does_for_it(site: Site) -> None:
    script = 'echo "$FROM_PROLOG $TMPDIR $SLURM_PROCID $PPID $SLURM_TASK_PID $PINFOLD_CHANNEL"; exit 3'
    done = site.run("srun", "--pinfold=none", "sh", "-c", script)
    assert done.returncode == 3, done.stderr
    prolog, temporary, task, parent, its, channel = done.stdout.split()
    assert (prolog, temporary, task) == ("yes", "/tmp", "0")
    assert parent == its
    assert channel.startswith("/proc/")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("pinfold: ")]
    assert " task 0: policy none: " in line
    (record,) = site.records.glob("*.0.0.json")
    written = json.loads(record.read_text())
    assert written["command"] == ["sh", "-c", script]
    assert written["exit_status"] == 3
    assert record.stat().st_uid == USER


def test_without_the_option_nothing_happens(site: Site) -> None:
    done = site.run("srun", "sh", "-c", "echo $PINFOLD_CHANNEL; exit 3")
    assert (done.returncode, done.stdout.strip()) == (3, "")
    assert not list(site.records.glob("*.json"))


def test_the_default_policy_measures_regions(site: Site, workload: Callable[[str], Path]) -> None:
    program = site.folder / "false_sharing"
    shutil.copy(workload("false_sharing"), program)
    done = site.run("srun", "--pinfold", program, "--threads", "2", "--size", "64k", "--seconds", "3")
    assert done.returncode == 0, done.stderr
    (record,) = site.records.glob("*.json")
    written = json.loads(record.read_text())
    assert (written["policy"], written["metric"]["name"]) == ("auto", "regions")


def test_each_task_of_two_nodes_has_its_record(site: Site) -> None:
    done = site.run("srun", "-N2", "-n4", "--pinfold=none", "sh", "-c", "echo $SLURMD_NODENAME $SLURM_PROCID")
    assert done.returncode == 0, done.stderr
    assert len({line.split()[0] for line in done.stdout.splitlines()}) == 2
    tasks = {record.name.split(".", 2)[2] for record in site.records.glob("*.json")}
    assert tasks == {f"{task}.json" for task in range(4)}


def test_a_batch_job_passes_it_to_its_steps_and_a_step_can_turn_it_off(site: Site) -> None:
    script = site.records / "job.sh"
    script.write_text(
        "#!/bin/sh\necho script $PINFOLD_CHANNEL\nsrun printenv PINFOLD_CHANNEL\nsrun --pinfold=off env\n"
    )
    out = site.records / "out"
    done = site.run("sbatch", "--wait", "--pinfold=none", "--output", out, script)
    assert done.returncode == 0, done.stderr
    lines = out.read_text().splitlines()
    assert lines[0] == "script"
    assert lines[1].startswith("/proc/")
    assert not [line for line in lines[2:] if line.startswith("PINFOLD_CHANNEL=")]
    assert len(list(site.records.glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("arguments", "option", "said"),
    [
        (("deny",), "--pinfold", "this site does not allow --pinfold"),
        (("allowed=none,hints",), "--pinfold=auto", "this site allows none,hints"),
        (("denny",), "--pinfold", "plugstack.conf has the unknown argument `denny`"),
        ((), "--pinfold=a b", "a policy is one word"),
        ((), "--pinfold=nonsense", "invalid value 'nonsense'"),
        (("binary=/nowhere/pinfold",), "--pinfold", "/nowhere/pinfold cannot be executed (No such file or directory)"),
        (("binary=/bin/true",), "--pinfold", "/bin/true is not pinfold "),
    ],
)
def test_what_is_forbidden_or_does_not_work_is_said_once_and_the_job_runs(
    site: Site, arguments: tuple[str, ...], option: str, said: str
) -> None:
    site.allows(f"binary={site.binary}", *arguments)
    done = site.run("srun", option, "sh", "-c", "echo $PINFOLD_CHANNEL; exit 3")
    assert (done.returncode, done.stdout.strip()) == (3, "")
    assert done.stderr.count(said) == 1
    assert done.stderr.count(ALONE) == 1


def test_a_program_that_may_not_be_traced_runs_without_pinfold(site: Site) -> None:
    program = site.folder / "unreadable"
    shutil.copy("/bin/sh", program)
    program.chmod(0o711)
    done = site.run("srun", "--pinfold=none", program, "-c", "sleep 1; exit 3")
    assert done.returncode == 3
    assert "cannot follow" in done.stderr
    assert ALONE in done.stderr


def test_a_site_chooses_the_policy_of_the_bare_option(site: Site) -> None:
    site.allows(f"binary={site.binary}", "policy=none", "allowed=none")
    done = site.run("srun", "--pinfold", "true")
    assert "policy none" in done.stderr


def test_records_that_cannot_be_written_keep_nothing_from_running(site: Site) -> None:
    site.allows(f"binary={site.binary}", "records=/nowhere")
    done = site.run("srun", "--pinfold=none", "true")
    assert done.returncode == 0
    assert "cannot write a record to /nowhere (No such file or directory)" in done.stderr
    assert "policy none" in done.stderr
