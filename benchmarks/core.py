"""Figures, and fair timing of several things."""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


class CannotMeasureError(Exception):
    """A requirement of a group is missing or broken; the text names it. ``figures`` were still measured."""

    def __init__(self, text: str, figures: Iterable[Figure] = ()) -> None:
        super().__init__(text)
        self.figures = list(figures)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number. ``value`` and ``baseline`` are in ``unit``; ``ratio`` is value over baseline.

    ``bar`` is the upper limit of the quantity ``limits``, infinite for a figure without a limit.
    """

    name: str
    value: float
    unit: str
    baseline: float
    bar: float
    limits: Literal["ratio", "value"]
    against: str
    """Description of the baseline."""

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]

    @property
    def ratio(self) -> float:
        return self.value / self.baseline if self.baseline else float("inf")

    @property
    def ok(self) -> bool:
        return (self.ratio if self.limits == "ratio" else self.value) <= self.bar

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": _short(self.value),
            "unit": self.unit,
            "baseline": _short(self.baseline),
            "ratio": _short(self.ratio),
            "bar": None if math.isinf(self.bar) else _short(self.bar),
            "ok": self.ok,
        }


def _short(number: float) -> float:
    """Return a number with four significant digits; more would be noise."""
    return float(f"{number:.4g}")


def median_of_each(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median of each run by name. They take turns: each round runs each of them once, so that a slow moment of the
    machine affects all of them.
    """
    return {name: statistics.median(times) for name, times in _in_turns(runs, rounds).items()}


def best_of_each(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the least time of each run by name; they take turns. For work that is always the same: any excess is disturbance.

    The runs should take about equally long: a long one finds fewer undisturbed moments.
    """
    return {name: min(times) for name, times in _in_turns(runs, rounds).items()}


def _in_turns(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(run())
    return taken


def once(function: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """Return a function that times one call, in seconds, by a clock as in ``each``."""

    def run() -> float:
        begin = clock()
        function()
        return clock() - begin

    return run


def each(function: Callable[[], object], number: int, clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """Return a function that times ``number`` calls, in seconds per call, with the garbage collector off.

    ``clock`` may be ``time.process_time`` for work of one thread: then the time of other processes does not count, but the
    thread's own page faults do.
    """

    def run() -> float:
        repeat = range(number)
        gc.collect()
        gc.disable()
        try:
            begin = clock()
            for _ in repeat:
                function()
            return (clock() - begin) / number
        finally:
            gc.enable()

    return run


def clean_environment(home: Path | None = None) -> dict[str, str]:
    """Return the environment for a measured process: it may keep its bytecode, like an installed program, and no coverage tool
    watches it.

    With a ``home``, the user's configuration, sessions, model server and keys are excluded.
    """
    ours = ("PYTHONDONTWRITEBYTECODE", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    if home is None:
        return kept
    theirs = ("TOOLCRIB_", "OPENAI_", "XDG_")
    kept = {name: value for name, value in kept.items() if not name.startswith(theirs)}
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home)}


def as_lines(figures: Iterable[Figure]) -> str:
    """Return one JSON object per line."""
    return "\n".join(json.dumps(figure.to_json()) for figure in figures)


def as_table(figures: Iterable[Figure]) -> str:
    """Return a Markdown table that is also readable as text."""
    head = ("figure", "value", "baseline", "ratio", "bar", "", "baseline is")
    rows = [head, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _row(figure: Figure) -> tuple[str, ...]:
    bar = f"{_short(figure.bar):g}x" if figure.limits == "ratio" else f"{_short(figure.bar):g} {figure.unit}"
    bar = "none" if math.isinf(figure.bar) else bar
    return (
        figure.name,
        f"{_short(figure.value):g} {figure.unit}",
        f"{_short(figure.baseline):g} {figure.unit}",
        f"{figure.ratio:.2f}x",
        bar,
        "ok" if figure.ok else "MISSED",
        figure.against,
    )
