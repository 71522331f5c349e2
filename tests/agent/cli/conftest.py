"""The command line, called in this process."""

from __future__ import annotations

import io
import os
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
    """``run("call", "terminal", "{}", stdin=b"...")``, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def start(*args: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = main([*args])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return start


@pytest.fixture
def config() -> Callable[[str], Path]:
    """Write the person's configuration."""

    def write(text: str) -> Path:
        file = Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib" / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


@pytest.fixture
def user_plugin(config: Callable[[str], Path]) -> Callable[[str, str], Path]:
    """A plugin in the person's own folder, enabled."""

    def write(name: str, source: str) -> Path:
        file = config(f"plugins: {{enabled: [{name}]}}\n").parent / "plugins" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
        return file

    return write
