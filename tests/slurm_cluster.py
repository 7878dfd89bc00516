"""A Slurm on loopback addresses and free ports, in a temporary folder, for tests.

Each of its nodes is a daemon on this machine that says it has so many CPUs. Where there is one node, it has the name of
the host. Several are n0, n1 and so on.

Its daemons are processes of the test, without systemd. They trust each other (`auth/none`), so there is no key. Ending
it ends the processes that it started, by their ids.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
PATIENCE = 120


def missing() -> str | None:
    """Return why no Slurm can be started here, or None."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=search_path()) is None]
    if absent:
        return f"Slurm is not installed: {', '.join(absent)} (Debian: slurm-wlm)"
    return "only root can start Slurm's node daemon" if os.geteuid() != 0 else None


def search_path() -> str:
    """Return PATH with the folders of daemons."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def free_ports(number: int) -> list[int]:
    """Return different ports that no process uses."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Slurm:
    """The cluster."""

    def __init__(self, folder: Path, cpus: int, nodes: int = 1, lines: str = "") -> None:
        """Write its configuration, with these further lines."""
        self.folder = folder
        for name in ("state", "spool", "run"):
            (folder / name).mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        controller, *ports = free_ports(1 + nodes)
        self.nodes = [host] if nodes == 1 else [f"n{number}" for number in range(nodes)]
        each = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN"
            for name, port in zip(self.nodes, ports, strict=True)
        )
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(
            f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
{each}
PartitionName=test Nodes={",".join(self.nodes)} Default=YES MaxTime=INFINITE State=UP
{lines}
"""
        )
        self.variables = {"SLURM_CONF": str(self.configuration), "PATH": search_path()}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> str | None:
        """Start it; return why it does not work, or None."""
        for name in self.nodes:
            (self.folder / "spool" / name).mkdir()
        for command in (("slurmctld", "-D"), *(("slurmd", "-D", "-N", name) for name in self.nodes)):
            with (self.folder / f"{command[0]}.{command[-1]}.out").open("wb") as output:
                self._daemons.append(
                    subprocess.Popen(command, env=os.environ | self.variables, stdout=output, stderr=subprocess.STDOUT)
                )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for daemon in self._daemons:
                if daemon.poll() is not None:
                    return f"a daemon ended: {self.logs()}"
            states = self.ask("sinfo", "--noheader", "--Node", "--format", "%T").split()
            if states == ["idle"] * len(self.nodes):
                return None
            time.sleep(0.2)
        return f"the nodes are not ready within {PATIENCE} s: {self.logs()}"

    def ask(self, *command: str) -> str:
        """Return the output of one of Slurm's programs."""
        done = subprocess.run(command, env=os.environ | self.variables, check=False, capture_output=True, text=True)
        return done.stdout

    def logs(self) -> str:
        """Return the end of what the daemons wrote."""
        texts = [file.read_text(errors="replace")[-800:] for file in sorted(self.folder.glob("slurm*.[lo]*"))]
        return "\n".join(texts)

    def stop(self) -> None:
        """Cancel its jobs, and end the daemons."""
        self.ask("scancel", "--user", "root")
        deadline = time.monotonic() + PATIENCE
        while self.ask("squeue", "--noheader").strip() and time.monotonic() < deadline:
            time.sleep(0.2)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
