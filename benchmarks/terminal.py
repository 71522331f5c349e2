"""The whole terminal tool, against starting bash directly."""

from __future__ import annotations

import json
import subprocess

from benchmarks.core import CannotMeasureError, Figure, median_of_each, once


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms."""
    import model_tools

    def tool() -> str:
        return model_tools.handle_function_call("terminal", {"command": "true"}, task_id="bench")

    answer = json.loads(tool())
    if answer.get("error"):
        raise CannotMeasureError(f"{answer['error']}")
    runs = {
        "bash": once(lambda: subprocess.run(["bash", "-c", "true"], check=True)),
        "terminal": once(tool),
    }
    took = median_of_each(runs, 5 if quick else 200)
    against = 'subprocess.run(["bash", "-c", "true"])'
    return [Figure("terminal.local", took["terminal"] * 1e3, "ms", took["bash"] * 1e3, 2.5, "ratio", against)]
