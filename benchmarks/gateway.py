"""The gateway: many chats at once, also on Matrix, idle ones, approvals, a start with much that waits, and kills."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import _gateway_matrix
from benchmarks.core import CannotMeasureError, Figure

_ROOT = Path(__file__).parents[1]
_LIMIT = 480.0
"""Seconds that one process may take; the whole group takes less than 600 on a quiet machine."""
_CHATS, _FEW = 1_000, 50
_IDLE, _SOME = 10_000, 200
_PARKED = 100
_ROUNDS = 10
_KILLS, _USERS = 20, 50
_SECONDS = 10.0
_PER_SECOND = 5.0
_DELTAS = 3_000
"""Deltas of one answer: it goes on until all chats have theirs, and were measured."""


def measure(*, quick: bool) -> list[Figure]:
    """In child processes: a model server, and a gateway with a platform that only notes."""
    chats, idle, parked, rounds = (_FEW, _SOME, 5, 2) if quick else (_CHATS, _IDLE, _PARKED, _ROUNDS)
    kills, users, seconds = (1, 5, 2.0) if quick else (_KILLS, _USERS, _SECONDS)
    figures = []
    with _model(_DELTAS) as url:
        few = _child("chats", url, _FEW if not quick else 5, seconds)
        many = _child("chats", url, chats, seconds)
        what = f"{_FEW if not quick else 5} chats; measured are {chats} at {_PER_SECOND:g} deltas a second each, the added p99"
        figures.append(Figure("gateway.chats", many["p99"], "ms", few["p99"], 50.0, "value", what))
        shown = f"{many['deltas']} deltas of {many['chats']} chats, p50 {many['p50']:.1f} ms, {many['cpu']:.2f} cores"
        print(f"gateway.chats: {shown}", file=sys.stderr)
        found = _child("approve", url, rounds)
        begins = statistics.median(found["asked"])
        figures.append(
            Figure(
                "gateway.approve", statistics.median(found["ran"]), "ms", begins, 100.0, "value", "a message until its question"
            )
        )
        figures += _idle_and_start(url, idle, parked)
        figures += _gateway_matrix.measure(url, quick=quick)
    figures.append(_kill(kills, users))
    return figures


def _idle_and_start(url: str, chats: int, parked: int) -> list[Figure]:
    """Keep so many chats, and so many parked runs, then start with them."""
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as empty, tempfile.TemporaryDirectory(prefix="tc-bench-") as folder:
        found = _read(_run(["idle", url, str(chats), str(parked), folder]))
        none = statistics.median(_read(_run(["start", url, empty]))["seconds"] for _ in range(3))
        full = statistics.median(_read(_run(["start", url, folder]))["seconds"] for _ in range(3))
    added, stored = found["after"] - found["before"], f"an empty store; measured: {chats} chats, {parked} parked runs"
    return [
        Figure("gateway.idle", added, "MiB", found["before"], 200.0, "value", f"before {chats} chats were met"),
        Figure("gateway.start", full, "s", none, 2.0, "value", stored),
    ]


def _kill(kills: int, users: int) -> Figure:
    argv = [sys.executable, "-m", "tests.fuzz.kill_gateway", "--kills", str(kills), "--users", str(users)]
    done = _done(argv)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if "faults" not in last:
        raise CannotMeasureError(done.stderr.strip()[-500:] or last)
    print(last, file=sys.stderr)
    faults = int(last.rpartition(": ")[2].split()[0])
    return Figure("gateway.kill", faults, "faults", kills, 0, "value", f"kills, beside {users} users")


@contextlib.contextmanager
def _model(deltas: int) -> Iterator[str]:
    argv = [sys.executable, "-m", "benchmarks._gateway_children", "model", str(deltas), str(_PER_SECOND)]
    with subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


def _child(what: str, url: str, *numbers: float) -> dict[str, Any]:
    return _read(_run([what, url, *(f"{number:g}" for number in numbers)]))


def _run(given: list[str]) -> str:
    argv = [sys.executable, "-m", "benchmarks._gateway_children", *given]
    done = _done(argv)
    if done.returncode:
        raise CannotMeasureError(done.stderr.strip()[-800:] or f"the process ended with {done.returncode}")
    return done.stdout


def _done(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, cwd=_ROOT, capture_output=True, text=True, timeout=_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise CannotMeasureError(f"{' '.join(argv[2:5])}: it did not end within {_LIMIT:g} s") from None


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found
