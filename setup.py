"""Builds what is not Python: the binary `pinfold`, the module of simulated machines, and the heartbeat.

The binary carries its agent and its recorder. Everything else is in pyproject.toml. The header with which C and C++
programs report progress goes to `include`.

If ``PINFOLD_BINARY`` names a binary, that one is taken with the module that `make build` has built, and nothing of Rust
is built: `scripts/dist` makes wheels so.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools_rust import Binding, RustBin, RustExtension, build_rust

NATIVE = Path("python/pinfold/_native.abi3.so")


class BuildRust(build_rust):
    """Builds the recorder before the binary, which carries it."""

    def run(self) -> None:
        """Build both."""
        target = Path("target").resolve()
        command = ["cargo", "build", "--release", "--locked", "--package", "pinfold-plugin"]
        subprocess.run(command, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(target)})
        os.environ["PINFOLD_RECORDER"] = str(target / "release" / "libpinfold_record.so")
        super().run()


class BuildPython(build_py):
    """Adds the module that was built before."""

    def run(self) -> None:
        """Copy it beside the sources."""
        super().run()
        shutil.copy(NATIVE, Path(self.build_lib, "pinfold", NATIVE.name))


BUILT = os.environ.get("PINFOLD_BINARY")
LOCKED = ["--locked"]

setup(
    cmdclass={"build_py": BuildPython} if BUILT else {"build_rust": BuildRust},
    rust_extensions=[]
    if BUILT
    else [
        RustBin("pinfold", path="crates/cli/Cargo.toml", cargo_manifest_args=LOCKED),
        RustExtension(
            "pinfold._native",
            path="crates/py/Cargo.toml",
            binding=Binding.PyO3,
            py_limited_api=True,
            cargo_manifest_args=LOCKED,
        ),
    ],
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
