"""The sandbox of this machine against a shell without one."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError, Figure, median_of_each
from toolcrib import Environment, EnvironmentFailed, ExecRequest
from tools.environments import open_environment

_START, _COMMAND = 50.0, 0.6
"""Bars in milliseconds: for a session's first command, and for a command's extra time over a plain session. A ratio would mean
little: a process in its own namespaces takes longer by a constant, whether a command takes a millisecond or a minute.
"""


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-safe-") as folder:
        cwd = str(Path(folder).resolve())
        for name in (".git/objects", ".git/refs", ".git/hooks"):  # a repository, whose settings the sandbox protects
            Path(cwd, name).mkdir(parents=True)
        for name, text in (("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n\tbare = false\n")):
            Path(cwd, ".git", name).write_text(text)
        try:
            asyncio.run(_first("workspace", cwd))
        except EnvironmentFailed as error:
            raise CannotMeasureError(str(error)) from error
        starts: dict[str, Callable[[], float]] = {
            mode: lambda mode=mode: asyncio.run(_first(mode, cwd))  # type: ignore[misc]  # mypy sees no type of a default
            for mode in ("none", "workspace")
        }
        start = median_of_each(starts, 3 if quick else 40)
        command = asyncio.run(_commands(cwd, 20 if quick else 1000))
    return [
        Figure(
            "safe.start", start["workspace"] * 1e3, "ms", start["none"] * 1e3, _START, "value", "a plain session's first command"
        ),
        Figure(
            "safe.command",
            (command["workspace"] - command["none"]) * 1e3,
            "ms",
            command["none"] * 1e3,
            _COMMAND,
            "value",
            "/bin/true in a plain session; the value is the extra time",
        ),
    ]


def _opened(mode: str, cwd: str) -> Environment:
    options: dict[str, Any] = {} if mode == "none" else {"network": True}
    return open_environment("local", cwd=cwd, sandbox=mode, **options)


async def _first(mode: str, cwd: str) -> float:
    """Return the seconds of a session's first command, including its shell's start."""
    environment = _opened(mode, cwd)
    try:
        begun = time.perf_counter()
        await environment.execute(ExecRequest("true", timeout=60))
        return time.perf_counter() - begun
    finally:
        await environment.close()


async def _commands(cwd: str, rounds: int) -> dict[str, float]:
    opened = {mode: _opened(mode, cwd) for mode in ("none", "workspace")}
    took: dict[str, list[float]] = {mode: [] for mode in opened}
    try:
        for _ in range(rounds):
            for mode, environment in opened.items():
                begun = time.perf_counter()
                await environment.execute(ExecRequest("/bin/true", timeout=60))
                took[mode].append(time.perf_counter() - begun)
    finally:
        for environment in opened.values():
            await environment.close()
    return {mode: sorted(times)[len(times) // 2] for mode, times in took.items()}
