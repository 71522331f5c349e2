"""python -m benchmarks [GROUP...] [--json] [--quick] [--write]

The exit code is 1 if a bar is missed, and 2 if all or part of a group could not be measured: that group is named with the reason,
and the others still run. Beside `pip install .` only the servers and libraries that a group measures are needed; before
anything is measured, the missing ones are listed, with instructions to get them.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks._needs import left_out
from benchmarks.core import CannotMeasureError, Figure, as_lines, as_table

GROUPS = (
    *("start", "dispatch", "definitions", "terminal", "safe", "loop", "wire", "text", "preview"),
    *("delegate", "judge", "places", "park", "many", "store", "context", "face", "size", "gateway", "platforms"),
    *("cron", "snapshots", "safe_net", "processes", "pty", "mcp"),
)
"""Groups: each is a module here, and usually the part of its figures' names before the dot."""

RESULTS = Path(__file__).with_name("RESULTS.md")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print. Return 1 if a bar is missed, 2 if a group could not be measured, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what toolcrib costs.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object per figure, each on a line")
    parser.add_argument("--quick", action="store_true", help="few rounds: check that it works, not its speed")
    parser.add_argument("--write", action="store_true", help=f"also keep the table of a whole run in {RESULTS.name}")
    options = parser.parse_args(argv)
    unknown = [group for group in options.groups if group not in GROUPS]
    if unknown:
        parser.error(f"no group {unknown[0]!r}: choose from {', '.join(GROUPS)}")
    if options.write and (options.groups or options.quick):
        parser.error("--write keeps the table of a whole run: name no group with it, and not --quick")

    for line in left_out(options.groups or GROUPS):
        print(line, file=sys.stderr, flush=True)
    run = _measure(options.groups or GROUPS, quick=options.quick, as_json=options.json)
    if run.figures and not options.json:
        print(as_table(run.figures))
    if run.missing:
        missing = f"not measured: {', '.join(run.missing)}"
        print(f"{missing}; {RESULTS.name} was not changed" if options.write else missing, file=sys.stderr)
        return 2
    if options.write:
        RESULTS.write_text(_report(run, sys.argv[1:] if argv is None else argv), encoding="utf-8")
    return 0 if all(figure.ok for figure in run.figures) else 1


class _Run(NamedTuple):
    figures: list[Figure]
    details: list[str]
    missing: list[str]
    """Groups that could not be measured."""


def _measure(groups: Sequence[str], *, quick: bool, as_json: bool) -> _Run:
    """Measure one group after another. A group that can't be measured, or only in part, is named on stderr with the reason, and
    the others continue.
    """
    run = _Run([], [], [])
    for group in groups:
        try:
            module = importlib.import_module(f"benchmarks.{group}")
            measured = module.measure(quick=quick)
            run.details.extend([module.details()] if hasattr(module, "details") else [])
        except (CannotMeasureError, subprocess.CalledProcessError) as error:
            print(f"benchmarks {group}: {error}", file=sys.stderr)
            run.missing.append(group)
            measured = error.figures if isinstance(error, CannotMeasureError) else []
        run.figures.extend(measured)
        if as_json and measured:
            print(as_lines(measured), flush=True)
    return run


def _report(run: _Run, argv: Sequence[str]) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        "# The last run\n\n"
        f"    python -m benchmarks {' '.join(argv)}\n\n"
        f"{today}, {platform.python_implementation()} {platform.python_version()}, {machine}. "
        "Each figure and its baseline were measured alternately; each is a median, or the best of several measurements.\n"
        "A bar with an x limits the ratio; any other bar limits the value.\n\n"
        f"{as_table(run.figures)}\n" + "".join(f"\n{part}" for part in run.details)
    )


if __name__ == "__main__":
    sys.exit(main())
