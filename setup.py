"""Builds what is not Python: the binary `pinfold`, the agent that it preloads, and the heartbeat.

Everything else is in pyproject.toml. The agent goes to `lib/pinfold` beside the `bin` that the binary goes to, where
the binary looks for it; the header with which C and C++ programs report progress goes to `include`.
"""

import subprocess

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools_rust import RustBin


class BuildWithAgent(build):
    """The usual build, and the agent before it: the files that are installed must exist when they are listed."""

    def run(self) -> None:
        """Build everything."""
        subprocess.run(["make", "-C", "agent"], check=True)
        super().run()


setup(
    cmdclass={"build": BuildWithAgent},
    rust_extensions=[RustBin("pinfold", path="crates/cli/Cargo.toml", cargo_manifest_args=["--locked"])],
    ext_modules=[
        Extension(
            "pinfold._heartbeat",
            ["python/pinfold/_heartbeat.c"],
            include_dirs=["agent"],
            depends=["agent/pinfold.h"],
        )
    ],
    data_files=[
        ("lib/pinfold", ["target/agent/libpinfold_agent.so"]),
        ("include", ["agent/pinfold.h"]),
    ],
)
