"""The gateway: many chats at once, also on Matrix, idle chats, approvals, a start with a lot of stored work, and kills."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import _gateway_matrix
from benchmarks.core import CannotMeasureError, Figure

_ROOT = Path(__file__).parents[1]
_LIMIT = 240.0
"""Time limit of one process in seconds; the whole group takes less than 600 on a quiet machine. The measurement of many chats
ends by itself earlier, with the figures that it has by then.
"""
_CHATS, _FEW = 1_000, 50
_IDLE, _SOME = 10_000, 30
_PARKED = 100
_ROUNDS = 10
_KILLS, _USERS = 20, 50
_SECONDS = 10.0
_PER_SECOND = 5.0
_BEGIN_SECONDS, _MEET_SECONDS = 60.0, 180.0
"""Seconds to wait until many chats have their first delta, or idle chats were served. Then the measurement ends."""
_DELTAS = 3_000
"""Number of deltas in one answer, enough to last until all chats were measured."""


def measure(*, quick: bool) -> list[Figure]:
    """Return the figures, measured in child processes: a model server, and a gateway with a platform that only records. Raises
    CannotMeasureError with all figures except those of the parts that failed.
    """
    chats, few, idle, parked, rounds = (10, 5, _SOME, 5, 1) if quick else (_CHATS, _FEW, _IDLE, _PARKED, _ROUNDS)
    kills, users, seconds = (1, 5, 2.0) if quick else (_KILLS, _USERS, _SECONDS)
    figures: list[Figure] = []
    failed: list[str] = []
    with serving_model(_DELTAS) as url:
        parts: list[Callable[[], list[Figure]]] = [
            lambda: _streamed(url, few, chats, seconds),
            lambda: _approved(url, rounds),
            lambda: _idle_and_start(url, idle, parked, 1 if quick else 3),
            lambda: _gateway_matrix.measure(url, quick=quick),
            lambda: [_kill(kills, users)],
        ]
        for part in parts:
            begun = time.monotonic()
            try:
                measured = part()
            except CannotMeasureError as error:
                failed.append(str(error))
                continue
            print(*(one.name for one in measured), f"took {time.monotonic() - begun:.0f} s", file=sys.stderr)
            figures += measured
    if failed:
        raise CannotMeasureError("; ".join(failed), figures)
    return figures


def _streamed(url: str, few: int, chats: int, seconds: float) -> list[Figure]:
    base, many = (_child("chats", url, number, seconds, _BEGIN_SECONDS) for number in (few, chats))
    what = f"{few} chats; measured: {chats} at {_PER_SECOND:g} deltas a second each, the added delay, p99"
    if many["chats"] < chats:
        what += f", {chats - many['chats']} without a delta yet, counted by their waiting time"
    shown = f"{many['deltas']} deltas of {many['chats']} chats, p50 {many['p50']:.1f} ms, {many['cpu']:.2f} cores"
    print(f"gateway.chats: {shown}", file=sys.stderr)
    return [Figure("gateway.chats", many["p99"], "ms", base["p99"], 50.0, "value", what)]


def _approved(url: str, rounds: int) -> list[Figure]:
    found = _child("approve", url, rounds)
    asked, ran = statistics.median(found["asked"]), statistics.median(found["ran"])
    return [
        Figure(
            "gateway.approve",
            ran,
            "ms",
            asked,
            100.0,
            "value",
            "from a message to its approval request; measured: from the approval until the call has run",
        )
    ]


def _idle_and_start(url: str, chats: int, parked: int, starts: int) -> list[Figure]:
    """Store these numbers of idle chats and parked runs, then start ``starts`` times with them, and as often without any."""
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as folder:
        found = _read(_run(["idle", url, str(chats), str(parked), str(_MEET_SECONDS), folder]))
        none = statistics.median(_child("start", url)["seconds"] for _ in range(starts))
        full = statistics.median(_read(_run(["start", url, folder]))["seconds"] for _ in range(starts))
    added, met = found["after"] - found["before"], found["chats"]
    late = f"; only {met} were met in {found['seconds']:.0f} s" if met < chats else ""
    print(f"gateway.idle: {met} chats met, {found['cpu'] / met * 1000:.1f} ms of processor time each", file=sys.stderr)
    stored = f"an empty store; measured: {met} chats, {parked} parked runs"
    return [
        Figure("gateway.idle", added, "MiB", found["before"], 200.0, "value", f"before the gateway knew {chats} chats{late}"),
        Figure("gateway.start", full, "s", none, 2.0, "value", stored),
    ]


def _kill(kills: int, users: int) -> Figure:
    argv = [sys.executable, "-m", "tests.fuzz.kill_gateway", "--kills", str(kills), "--users", str(users)]
    done = _done(argv)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if "faults" not in last:
        raise CannotMeasureError(done.stderr.strip()[-500:] or last)
    print(*(line for line in done.stdout.splitlines() if line.startswith("FAULT")), last, sep="\n", file=sys.stderr)
    faults = int(last.rpartition(": ")[2].split()[0])
    return Figure("gateway.kill", faults, "faults", kills, 0, "value", f"the number of kills, while {users} users chat")


@contextlib.contextmanager
def serving_model(deltas: int) -> Iterator[str]:
    """Run a model server, and yield its address: see _gateway_children.serve_model."""
    argv = [sys.executable, "-m", "benchmarks._gateway_children", "model", str(deltas), str(_PER_SECOND)]
    with subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


def _child(what: str, url: str, *numbers: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as folder:
        return _read(_run([what, url, *(f"{number:g}" for number in numbers), folder]))


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
