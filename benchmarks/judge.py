"""The judge: its time, the share of dangerous commands that it finds, and its false alarms.

The commands are those of the corpus that TOOLCRIB_CORPORA names; they are judged, never run.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError, Figure, best_of_each, each
from benchmarks.long_scripts import long_script

CWD, HOME = "/home/dev/project", "/home/dev"
_TLDR_STEP = 29
"""Step between timed lines of the long list: a thousand commands that were not written for this benchmark."""

_HEREDOCS = {
    "a quoted heredoc": ("'END'", "line {}: $HOME, rm -rf, words"),
    "a heredoc with a variable a line": ("END", "line {}: $HOME, rm -rf, words"),
    "a heredoc with a substitution a line": ("END", "line {}: $(date), words"),
}
"""Delimiter and line; 2,000 lines stay below the size limit of the judge (100,000 characters)."""

_found: dict[str, Any] = {}


def measure(*, quick: bool) -> list[Figure]:
    """Return the microseconds per command, against shlex.split of the same command; misses and false alarms in percent."""
    rows = [json.loads(line) for line in corpus("commands.jsonl").read_text("utf-8").splitlines()]
    grey = [json.loads(line) for line in corpus("grey.jsonl").read_text("utf-8").splitlines()]
    lines = corpus("tldr.tsv").read_text("utf-8").splitlines()[::_TLDR_STEP]
    commands = [row["command"] for row in rows] + [line.partition("\t")[2] for line in lines]
    judged = _judge()
    rounds = 2 if quick else 5
    took = [min(_seconds(judged, command) for _ in range(rounds)) for command in commands]
    split = [min(_seconds(_split, command) for _ in range(rounds)) for command in commands]
    median, p99 = statistics.median(split), _p99(took)
    growths = {what: _growth(judged, *parts, rounds=rounds * 2) for what, parts in _HEREDOCS.items()}
    worst = max(growths, key=lambda what: growths[what]["long"] / growths[what]["short"])
    ten = growths[worst]
    missed, false = _score(rows, judged)
    _found["tables"] = _tables(rows, grey, judged)
    dangerous = sum(row["label"] == "dangerous" for row in rows)
    worst_of = _long(judged, [row["command"] for row in rows], 200 if quick else 2_000)
    scripts = f"median of the same: commands.jsonl, and {len(worst_of) - len(rows):,} long scripts"
    what = f"shlex.split, median of the same {len(commands):,} commands"
    return [
        Figure("judge.median", statistics.median(took) * 1e6, "us", median * 1e6, 8, "ratio", what),
        Figure("judge.p99", p99 * 1e6, "us", median * 1e6, 60, "ratio", what),
        Figure("judge.worst", max(worst_of) * 1e3, "ms", statistics.median(worst_of) * 1e3, 5, "ratio", scripts),
        Figure(
            "judge.linear",
            ten["long"] * 1e3,
            "ms",
            ten["short"] * 1e3,
            12,
            "ratio",
            f"200 lines; measured: 2,000; the worst: {worst}",
        ),
        Figure("judge.missed", missed, "%", dangerous, 1, "value", "the dangerous rows of commands.jsonl"),
        Figure("judge.false", false, "%", len(rows) - dangerous, 1, "value", "the benign rows of commands.jsonl"),
    ]


def details() -> str:
    """Return the judge's verdicts by category and by obfuscation, for the report of the run that was just measured."""
    tables: str = _found.get("tables", "")
    return tables


def corpus(name: str) -> Path:
    """Return a file of the corpus of commands. Raises CannotMeasureError if it is missing."""
    path = Path(os.environ.get("TOOLCRIB_CORPORA") or "corpora", "approval", name)
    if not path.is_file():
        raise CannotMeasureError(f"set TOOLCRIB_CORPORA to the folder with approval/{name}")
    return path


def _judge() -> Callable[[str], Sequence[Any]]:
    from tools.approval.explain import Judge
    from tools.judge.setting import Setting

    judge = Judge(Setting(home=HOME))
    return lambda command: judge.examine(command, CWD, files=False).findings


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote: it had to read all of it too
        return []


def _seconds(act: Callable[[str], Any], command: str) -> float:
    """Return the seconds of processor time of one call."""
    start = time.process_time()
    act(command)
    return time.process_time() - start


_SUSPECTS, _ROUNDS = 20, 5


def _long(judged: Callable[[str], Any], commands: Sequence[str], number: int) -> list[float]:
    """Return the seconds of processor time of each command and of each of ``number`` long scripts; for the slowest, the best of
    several rounds.

    The rounds are not consecutive: a busy machine can be slow for a whole second, and the slowest would be a command that ran
    then. They are repeated until all of the slowest were measured again: otherwise the slowest could be a command that was
    interrupted once.
    """
    every = [*commands, *map(long_script, range(number))]
    took = [_seconds(judged, one) for one in every]
    sure = set[int]()
    while unsure := set(sorted(range(len(every)), key=took.__getitem__)[-_SUSPECTS:]) - sure:
        for _ in range(_ROUNDS):
            for at in unsure:
                took[at] = min(took[at], *(_seconds(judged, every[at]) for _ in range(2)))
        sure |= unsure
    return took


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[math.ceil(len(times) * 0.99) - 1]


def _growth(judged: Callable[[str], Any], delimiter: str, line: str, *, rounds: int) -> dict[str, float]:
    """Return the seconds of processor time for a script of 2,000 lines, and per run for a script of 200 lines."""
    long, short = (
        f"cat > x <<{delimiter}\n" + "\n".join(line.format(n) for n in range(size)) + "\nEND\n" for size in (2_000, 200)
    )
    runs = {
        "short": each(lambda: judged(short), 10, time.process_time),
        "long": each(lambda: judged(long), 1, time.process_time),
    }
    return best_of_each(runs, rounds)


def _score(rows: Sequence[Mapping[str, Any]], judged: Callable[[str], Sequence[Any]]) -> tuple[float, float]:
    flagged = {row["id"]: bool(judged(row["command"])) for row in rows}
    dangerous = [row["id"] for row in rows if row["label"] == "dangerous"]
    benign = [row["id"] for row in rows if row["label"] == "benign"]
    missed = 100 * sum(not flagged[one] for one in dangerous) / len(dangerous)
    return missed, 100 * sum(flagged[one] for one in benign) / len(benign)


def _tables(rows: Sequence[Mapping[str, Any]], grey: Sequence[Mapping[str, Any]], judged: Callable[[str], Sequence[Any]]) -> str:
    flagged = {row["id"]: bool(judged(row["command"])) for row in (*rows, *grey)}
    parts = ["## The judge: commands that it asks about, of all", ""]
    for title, chosen, by in (
        ("dangerous, by category", [row for row in rows if row["label"] == "dangerous"], "category"),
        ("dangerous, by obfuscation", [row for row in rows if row["label"] == "dangerous"], "obfuscation"),
        ("benign, by category", [row for row in rows if row["label"] == "benign"], "category"),
        ("grey (contested; neither right nor wrong), by category", list(grey), "category"),
    ):
        every = Counter(str(row[by] or "plain") for row in chosen)
        asked = Counter(str(row[by] or "plain") for row in chosen if flagged[row["id"]])
        parts += [f"**{title}**: " + ", ".join(f"{name} {asked[name]}/{count}" for name, count in sorted(every.items())), ""]
    return "\n".join(parts)
