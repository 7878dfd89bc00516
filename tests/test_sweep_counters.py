"""What the rows of `pinfold sweep` have beside times where the machine meters energy, and where it does not."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import PATIENCE, environment, unwrapped

POWERCAP = Path("/sys/class/powercap")

#: A machine whose packages and memory have energy meters, for the command that follows. `$1` is a folder.
METERED = """
    folder=$1; shift
    cp -a /sys/class "$folder/class" 2> /dev/null
    rm -rf "$folder/class/powercap"
    for package in $(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -u); do
        for domain in "intel-rapl:$package package-$package" "intel-rapl:$package:0 dram"; do
            set -- $domain "$@"
            domain="$folder/class/powercap/$1"; name=$2; shift 2
            mkdir -p "$domain"
            echo "$name" > "$domain/name"; echo 100000000000 > "$domain/max_energy_range_uj"
            echo 99999000000 > "$domain/energy_uj"
        done
    done
    mount --bind "$folder/class" /sys/class || exit 77
    exec "$@"
"""

#: The same, where only root may read the meters, and the command that follows is not allowed to read all files.
REFUSED = METERED.replace(
    'exec "$@"',
    """
    chmod 0 /sys/class/powercap/*/energy_uj
    exec setpriv --bounding-set=-dac_override,-dac_read_search "$@"
    """,
)

#: A program that takes five joules. The counter of the package begins again meanwhile. On one of the CPUs the counter
#: of the memory vanishes.
PROGRAM = """#!/bin/sh
sleep 0.3
package=/sys/class/powercap/intel-rapl:0
read before < $package/energy_uj
echo $(((before + 5000000) % 100000000000)) > $package/energy_uj
if grep -qw 'Cpus_allowed_list:.{cpu}' /proc/$$/status; then rm $package:0/energy_uj; fi
"""


def sweep(binary: Path, folder: Path, cpus: tuple[int, int], *words: str | Path, before: tuple[str, ...] = ()) -> str:
    """Sweep a program pinned to each of two CPUs. Return what pinfold said."""
    space = folder / "space.toml"
    space.write_text(f'[[configurations]]\npinnings = ["{cpus[0]}", "{cpus[1]}"]\n')
    options = ("sweep", "-o", folder / "data.parquet", "--space", space, "--runs", "1", "--threads", "1")
    command = list(map(str, (*before, binary, *options, *words)))
    done = subprocess.run(
        command, env=environment(), cwd=folder, text=True, capture_output=True, timeout=PATIENCE, check=False
    )
    if before and done.returncode == 77:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_rows_have_the_energy_that_was_measured_and_no_other(
    binary: Path, tmp_path: Path, several_cpus: list[int]
) -> None:
    one, other = several_cpus[:2]
    program = tmp_path / "program"
    program.write_text(PROGRAM.replace("{cpu}", str(other)))
    program.chmod(0o755)
    restored = "echo 0 > /sys/class/powercap/intel-rapl:0:0/energy_uj"
    metered = ("unshare", "--mount", "sh", "-c", METERED, "sh", str(tmp_path))
    said = sweep(binary, tmp_path, (one, other), "--before", restored, "--", program, before=metered)
    assert "not measured" not in said
    table = pyarrow.parquet.read_table(tmp_path / "data.parquet")
    counters = {name for name in table.column_names if name.startswith("likwid:")}
    # Neither energy of cores, which nothing meters here, nor counts of events, which only other spaces have.
    assert counters == {"likwid:Energy", "likwid:Power", "likwid:Energy DRAM", "likwid:Power DRAM"}
    rows = {row["pinning"]: row for row in table.to_pylist()}
    assert list(rows) == [None, str(one), str(other)]
    for row in rows.values():
        # The meter also measures the start and the end of pinfold.
        assert 0.1 < row["likwid:Energy"] <= 5
        assert row["likwid:Energy"] == pytest.approx(row["likwid:Power"] * row["time_s"])
    memory = {pinning: row["likwid:Energy DRAM"] for pinning, row in rows.items()}
    assert memory == {None: 0, str(one): 0, str(other): None}


def test_the_user_is_told_who_may_read_the_meters(binary: Path, tmp_path: Path, several_cpus: list[int]) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    one, other = several_cpus[:2]
    refused = ("unshare", "--mount", "sh", "-c", REFUSED, "sh", str(tmp_path))
    said = unwrapped(sweep(binary, tmp_path, (one, other), "--", "sleep", "0.3", before=refused))
    assert "the energy of runs is not measured: only root may read /sys/class/powercap/intel-rapl:0/energy_uj" in said
    columns = pyarrow.parquet.read_table(tmp_path / "data.parquet").column_names
    assert not [name for name in columns if name.startswith("likwid:")]


def test_a_machine_without_meters_and_counters_is_swept_without_their_columns(
    binary: Path, tmp_path: Path, several_cpus: list[int], workload: Callable[[str], Path]
) -> None:
    one, other = several_cpus[:2]
    sweep(binary, tmp_path, (one, other), "--", workload("compute"), "--threads", "1", "--seconds", "0.3")
    table = pyarrow.parquet.read_table(tmp_path / "data.parquet")
    assert table.num_rows == 3
    counters = [name for name in table.column_names if name.startswith("likwid:")]
    if not POWERCAP.exists():
        assert counters == []
    for name in counters:
        assert name.startswith(("likwid:Energy", "likwid:Power"))
        values = [value for value in table[name].to_pylist() if value is not None]
        assert values
        assert min(values) >= 0
