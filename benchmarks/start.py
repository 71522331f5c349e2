"""What starting costs, against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.core import CannotMeasureError, Figure, clean_environment, median_of_each, once

DEFINITIONS = "import model_tools; model_tools.get_tool_definitions()"
# VmHWM rather than ru_maxrss, which a child inherits from its parent.
PEAK = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"


def measure(*, quick: bool) -> list[Figure]:
    """Wall time and peak memory of fresh processes."""
    command = Path(sys.executable).with_name("toolcrib")
    if not command.exists():
        raise CannotMeasureError(f"{command} is missing; install the project first (pip install -e .)")
    providers = _provider_modules()
    runs = {
        "pass": _process([sys.executable, "-c", "pass"]),
        "version": _process([str(command), "--version"]),
        "definitions": _process([sys.executable, "-c", DEFINITIONS]),
        **{module: _process([sys.executable, "-c", f"import {module}"]) for module in providers},
    }
    for run in runs.values():
        run()  # compiles what is not compiled yet
    took = median_of_each(runs, 3 if quick else 40)
    rounds = 1 if quick else 5
    peak = median_of_each({"pass": _peak(PEAK), "definitions": _peak(f"{DEFINITIONS}; {PEAK}")}, rounds)
    nothing = "python -c pass"
    worst = max(providers, key=took.__getitem__)
    against = f"{nothing}; the worst: {worst.rpartition('.')[2]}"
    return [
        Figure("start.version", took["version"] * 1e3, "ms", took["pass"] * 1e3, 6, "ratio", nothing),
        Figure("start.definitions", took["definitions"] * 1e3, "ms", took["pass"] * 1e3, 15, "ratio", nothing),
        Figure("start.definitions_rss", peak["definitions"], "MiB", peak["pass"], 40, "value", nothing),
        Figure("start.provider", took[worst] * 1e3, "ms", took["pass"] * 1e3, 14, "ratio", against),
    ]


def _provider_modules() -> list[str]:
    from agent.providers.factory import PROVIDERS

    return sorted({provider.module for provider in PROVIDERS.values()})


def _process(command: Sequence[str]) -> Callable[[], float]:
    environment = clean_environment()
    return once(lambda: subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))


def _peak(code: str) -> Callable[[], float]:
    environment = clean_environment()

    def run() -> float:
        done = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
        return int(done.stdout.split()[-1]) / 1024

    return run
