"""The folders of `make applications`, all under ``target/applications``: packages, inputs and recordings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pinfold.applications.description import Application, Phase, Run


@dataclass(frozen=True)
class Places:
    """The folders, below the project's folder ``root``."""

    root: Path

    @property
    def target(self) -> Path:
        """The folder of everything that is made and not committed."""
        return self.root / "target" / "applications"

    @property
    def pinfold(self) -> Path:
        """The binary."""
        return Path(os.environ.get("PINFOLD", self.root / "target" / "release" / "pinfold"))

    @property
    def virtual_environment(self) -> Path:
        """The Python environment of the packages of PyPI."""
        return self.target / "python"

    @property
    def data(self) -> Path:
        """The data sets, which are committed."""
        return self.root / "applications" / "data"

    def work(self, application: Application) -> Path:
        """Return the folder with an application's inputs. The application runs there."""
        return self.target / "work" / application.name

    def log(self, application: Application) -> Path:
        """Return the file with what an application printed."""
        return self.target / "logs" / f"{application.name}.log"

    def recording(self, run: Run, phase: Phase) -> Path:
        """Return the recording of a phase. Beside it are ``.json``, which describes it, and ``.parquet``, its rows."""
        return self.target / "recordings" / run.application / f"{run.name}-{run.threads}-{phase.name}.pft"

    def environment(self, application: Application, run: Run | None = None) -> Mapping[str, str]:
        """Return the environment of an application: nothing of the caller's but PATH."""
        python = self.virtual_environment / "bin" / "python"
        path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/games:/usr/lib/postgresql/15/bin"
        own = {
            "PATH": path,
            "HOME": str(self.work(application)),
            "LC_ALL": "C.UTF-8",
            "SEED": "1",
            "HERE": str(application.file.parent.resolve()),
            "PYTHON": str(python),
            "MAKE": f"{python} {Path(__file__).with_name('inputs.py').resolve()}",
        }
        if run is None:
            return own
        threads = str(run.threads)
        # Threads that wait by spinning would be recorded: there are more of them than CPUs.
        runtime = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": threads}
        return own | runtime | dict(run.environment)
