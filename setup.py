"""Builds what is not Python: the binary `pinfold`, which carries its agent and its recorder, and the heartbeat.

Everything else is in pyproject.toml. The header with which C and C++ programs report progress goes to `include`.

If ``PINFOLD_BINARY`` names a binary, that one is taken and nothing of Rust is built: `scripts/dist` makes wheels so.
"""

import os
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools_rust import RustBin, build_rust


class BuildRust(build_rust):
    """Builds the recorder before the binary, which carries it."""

    def run(self) -> None:
        """Build both."""
        target = Path("target").resolve()
        command = ["cargo", "build", "--release", "--locked", "--package", "pinfold-plugin"]
        subprocess.run(command, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(target)})
        os.environ["PINFOLD_RECORDER"] = str(target / "release" / "libpinfold_record.so")
        super().run()


BUILT = os.environ.get("PINFOLD_BINARY")

setup(
    cmdclass={} if BUILT else {"build_rust": BuildRust},
    rust_extensions=[]
    if BUILT
    else [RustBin("pinfold", path="crates/cli/Cargo.toml", cargo_manifest_args=["--locked"])],
    ext_modules=[
        Extension(
            "pinfold._heartbeat",
            ["python/pinfold/_heartbeat.c"],
            include_dirs=["agent"],
            depends=["agent/pinfold.h"],
        )
    ],
    data_files=[
        ("include", ["agent/pinfold.h"]),
        *([("bin", [BUILT])] if BUILT else []),
    ],
)
