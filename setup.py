"""Builds what is not Python: the binary `pinfold`, which carries its agent, and the heartbeat.

Everything else is in pyproject.toml. The header with which C and C++ programs report progress goes to `include`.
"""

from setuptools import Extension, setup
from setuptools_rust import RustBin

setup(
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
        ("include", ["agent/pinfold.h"]),
    ],
)
