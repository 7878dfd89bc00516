"""Small models of the policy `react`, written by hand, for its tests."""

from typing import Any


def configuration(threads: int, nodes: int, page_map: str, thread_map: str = "compact") -> dict[str, Any]:
    """Return a configuration as a model has it."""
    return {
        "threads": threads,
        "nodes": nodes,
        "thread_map": thread_map,
        "page_map": page_map,
        "prefetch": "0000",
    }


def react_model(
    few: dict[str, Any], many: dict[str, Any], outputs: list[dict[str, Any]], tree: list[list[float]]
) -> dict[str, Any]:
    """Return a model that profiles two configurations; `tree` looks at CPI in the first or Power in the second."""
    trained = {"simulated": True, "machines": ["any"], "programs": [], "rows": 0, "learner": "by hand"}
    return {
        "react_model": 3,
        "machine": "any",
        "counted_on": "any",
        "trained": trained,
        "score": {"nested": 0.0, "low": 0.0, "high": 0.0, "control": 0.0, "inside": 0.0, "seeds": 1},
        "baseline": many,
        "profiles": [few, many],
        "features": [
            {"profile": 0, "counter": "CPI", "least": 0.0, "greatest": 9.0},
            {"profile": 1, "counter": "Power", "least": 0.0, "greatest": 999.0},
        ],
        "outputs": outputs,
        "tree": tree,
    }
