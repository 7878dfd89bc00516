#!/usr/bin/env python3
"""Print the crates in the binary as a software bill of materials: CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/).

The argument is the version of pinfold. The components are the packages on which pinfold-cli depends on this platform,
for running and for building, with the hashes of Cargo.lock. It needs Python 3.11.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomllib

ROOT = "pinfold-cli"


def metadata() -> dict[str, Any]:
    """Return what cargo knows of the packages."""
    host = next(
        line.removeprefix("host: ")
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host: ")
    )
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    found: dict[str, Any] = json.loads(subprocess.check_output(command))
    return found


def reached(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the packages that the binary is built from, by name and version."""
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    open_ids = [package["id"] for package in packages.values() if package["name"] == ROOT]
    seen: set[str] = set()
    while open_ids:
        package = open_ids.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                open_ids.append(dependency["pkg"])
    return sorted((packages[one] for one in seen), key=lambda one: (one["name"], one["version"]))


def component(package: dict[str, Any], hashes: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Describe one package."""
    name, version = package["name"], package["version"]
    described: dict[str, Any] = {"type": "library", "name": name, "version": version, "bom-ref": f"{name}@{version}"}
    if package["license"]:
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        described["purl"] = f"pkg:cargo/{name}@{version}"
    if (name, version) in hashes:
        described["hashes"] = [{"alg": "SHA-256", "content": hashes[name, version]}]
    return described


def main(version: str) -> None:
    """Print all of it."""
    lock = tomllib.loads(Path("Cargo.lock").read_text())
    hashes = {(one["name"], one["version"]): one["checksum"] for one in lock["package"] if "checksum" in one}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "pinfold", "version": version, "bom-ref": f"pinfold@{version}"}
        },
        "components": [component(package, hashes) for package in reached(metadata())],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main(*sys.argv[1:])
