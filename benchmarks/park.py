"""Runs that wait for a person: the delay until one continues after an answer in another process, and the cost of ten thousand."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError, Figure

_CHILD = Path(__file__).with_name("_park_children.py")
_RESUMES, _QUICK_RESUMES = 60, 5
_PARKED, _QUICK_PARKED = 10_000, 300


def measure(*, quick: bool) -> list[Figure]:
    """Measure park.resume for the available stores, and park.idle."""
    return list(_figures(quick=quick))


def _figures(*, quick: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-park-") as folder:
        yield _resume("park.resume", Path(folder), "", _QUICK_RESUMES if quick else _RESUMES)
    try:
        from benchmarks._postgres import postgres_url

        with postgres_url() as url, tempfile.TemporaryDirectory(prefix="bench-park-") as folder:
            yield _resume("park.resume_postgres", Path(folder), url, _QUICK_RESUMES if quick else _RESUMES)
    except (CannotMeasureError, ImportError) as error:
        print(f"park.resume_postgres is skipped: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bench-park-") as folder:
        yield from _idle(Path(folder), _QUICK_PARKED if quick else _PARKED)


def _resume(name: str, folder: Path, url: str, times: int) -> Figure:
    """Time from the answer's commit in one process to the handler's start in the process that hosts the session, both warm."""
    with _child("host", folder, url) as host, _child("answer", folder, url) as answering:
        _ask(host, {"do": "park"})  # to warm up
        _ask(answering, {"do": "answer", **_ask(host, {"do": "park"})})
        _ask(host, {"do": "started"})
        took, alone = [], []
        for _ in range(times):
            ticket = _ask(host, {"do": "park"})
            committed = _ask(answering, {"do": "answer", **ticket})["committed"]
            took.append((_ask(host, {"do": "started"})["at"] - committed) * 1000)
            alone.append(_ask(host, {"do": "alone"})["seconds"] * 1000)
    took.sort()
    alone.sort()
    words = "the same call by hand in one process, without waiting for a user"
    return Figure(name, took[len(took) // 2], "ms", alone[len(alone) // 2], 80, "value", words)


def _idle(folder: Path, runs: int) -> Iterator[Figure]:
    with _child("idle", folder, "") as child:
        found = _ask(child, {"do": "park", "runs": runs})
    words = f"the process before; {runs:,} parked runs, {found['real']} of them really run, the others copied into the store"
    yield Figure("park.idle", found["added"], "MB", found["before"], 20, "value", words)
    yield Figure("park.idle_threads", found["threads"], "threads", found["threads_before"], 0, "value", "the process before")


@contextmanager
def _child(what: str, folder: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(_CHILD), what, str(folder), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _ask(process: subprocess.Popen[str], request: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise CannotMeasureError(f"the process that was to {request['do']} ended")
    answer: dict[str, Any] = json.loads(line)
    return answer
