"""Run the command line in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return ``run("call", "terminal", "{}", stdin=b"...")``, which runs in its own folder."""
    monkeypatch.chdir(tmp_path)

    def start(*args: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = main([*args])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return start
