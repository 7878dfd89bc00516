"""Writes data/weka.json: WEKA's results on the data sets of learning_data.py; and compares the speed of the learners.

scripts/weka runs it. WEKA is a separate program here, whose output is stored.
"""

import argparse
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from learning_data import COMPARED, FOLDS, LOADERS, Data, folds

from pinfold.learn.hints.ripper import RipperClassifier

OUTPUT = Path(__file__).parent / "data" / "weka.json"
#: How often the ten folds are drawn. A fold of the small sets has 15 to 57 rows, of digits 180.
REPETITIONS = {"iris": 10, "wine": 10, "breast_cancer": 10, "digits": 5}
#: How often a time is measured.
PASSES = 5


def arff(name: str, data: Data) -> str:
    """Write a data set in WEKA's format, the target last."""
    lines = [f"@relation {name}"]
    for column in range(data.values.shape[1]):
        present = np.unique(data.values[~np.isnan(data.values[:, column]), column])
        kind = "{" + ",".join(f"{value:g}" for value in present) + "}" if column in data.nominal else "numeric"
        lines.append(f"@attribute a{column} {kind}")
    numeric = np.issubdtype(data.target.dtype, np.floating)
    lines.append(
        "@attribute target " + ("numeric" if numeric else "{" + ",".join(map(str, np.unique(data.target))) + "}")
    )
    lines.append("@data")
    for row, target in zip(data.values.tolist(), data.target.tolist(), strict=True):
        cells = [
            "?" if np.isnan(value) else f"{value:g}" if column in data.nominal else repr(value)
            for column, value in enumerate(row)
        ]
        lines.append(",".join([*cells, repr(target)]))
    return "\n".join(lines) + "\n"


def ask(class_path: str, passes: int, repetitions: dict[str, int]) -> dict[str, Any]:
    """Run WEKA on these data sets; JRip on the ten folds as often as each one's number says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn: dict[str, list[str]] = {}
        for data_set, load in LOADERS.items():
            data = load()
            (folder / f"{data_set}.arff").write_text(arff(data_set, data))
            if data_set in repetitions:
                drawn[data_set] = ["".join(map(str, folds(data, seed))) for seed in range(repetitions[data_set])]
                (folder / f"{data_set}.folds").write_text("\n".join(drawn[data_set]) + "\n")
        subprocess.run(["java", "-cp", class_path, "WekaReference", folder, str(passes)], check=True)
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    for data_set, folds_of_set in drawn.items():
        answer["data"][data_set]["jrip"]["folds"] = folds_of_set
    return answer


def write(class_path: str) -> None:
    """Write the reference."""
    answer = ask(class_path, 1, REPETITIONS)
    for data_set in COMPARED:
        del answer["data"][data_set]["jrip"]["seconds"]
    reference = {
        "made_by": "scripts/weka",
        **answer,
        "data": {data_set: answer["data"][data_set] for data_set in LOADERS},
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    # A list of numbers on one line.
    text = re.sub(r"\[[\d\s,]*\]", lambda numbers: re.sub(r"\s+", "", numbers[0]), json.dumps(reference, indent=1))
    OUTPUT.write_text(text + "\n")


def measure(class_path: str) -> None:
    """Print the seconds of ten fits of each data set, for both learners: the first time, and the shortest."""
    answer = ask(class_path, PASSES, dict.fromkeys(COMPARED, 1))["data"]
    columns = ("JRip, first", "fastest", "ours, first", "fastest")
    print(f"{'seconds of ten fits':20}" + "".join(f"{column:>14}" for column in columns))
    for data_set in COMPARED:
        jrip, ours = answer[data_set]["jrip"]["seconds"], [_seconds(LOADERS[data_set]()) for _ in range(PASSES)]
        times = (jrip[0], min(jrip), ours[0], min(ours))
        print(f"{data_set:20}" + "".join(f"{seconds:14.3f}" for seconds in times))


def _seconds(data: Data) -> float:
    fold = folds(data, 0)
    start = time.perf_counter()
    for number in range(FOLDS):
        train = fold != number
        RipperClassifier(random_state=0).fit(data.values[train], data.target[train])
    return time.perf_counter() - start


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--class-path", required=True, help="paths of WEKA and WekaReference for Java, separated by colons"
    )
    parser.add_argument("--time", action="store_true", help="print the times of fits instead of writing the reference")
    options = parser.parse_args()
    if options.time:
        measure(options.class_path)
    else:
        write(options.class_path)


if __name__ == "__main__":
    main()
