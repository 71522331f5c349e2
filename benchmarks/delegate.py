"""Delegates: the time from a call of ``delegate_task`` to the first request of the delegate."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks._model_server import ModelServer
from benchmarks.core import CannotMeasureError, Figure, clean_environment
from toolcrib.testing import ChatServer

ROOT = Path(__file__).resolve().parent.parent


def measure(*, quick: bool) -> list[Figure]:
    """Return the median in ms, with a store on disk. The first call of the process, which loads more, counts like the others."""
    rounds = 1 if quick else 60
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder, ModelServer(_orders()) as server:
        command = [sys.executable, "-m", "benchmarks._delegate_child", server.base_url, str(rounds)]
        environment = {**clean_environment(Path(folder)), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotMeasureError(f"the measured process failed: {done.stderr.strip().splitlines()[-1:]}")
        marks = json.loads(done.stdout)
        gaps = {name: [server.next_arrival(mark) - mark for mark in marks[name]] for name in ("called", "posted")}
    if len(gaps["called"]) != rounds:
        raise CannotMeasureError(f"{len(gaps['called'])} delegates began instead of {rounds}")
    took = {name: statistics.median(values) * 1e3 for name, values in gaps.items()}
    return [
        Figure("delegate.start", took["called"], "ms", took["posted"], 20, "value", "a bare httpx POST; the store on, on disk")
    ]


def _orders() -> Callable[[str, int], bytes]:
    """Return a function that answers a user's request with a task for a delegate, the delegate's request with its answer, and the
    next request with text.
    """
    text, turn = ChatServer.text("Looked at.").body, 0

    def answer(path: str, before: int) -> bytes:
        nonlocal turn
        if not path.endswith("/chat/completions"):  # the bare requests, and requests before the first turn
            return text
        turn += 1
        return ChatServer.calls(("delegate_task", {"task": "Look at it."}), ids=[f"call_{turn}"]).body if turn % 3 == 1 else text

    return answer
