"""Sequences of tool calls, read from the files beside this one."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
KINDS = ("hostile", "ordinary")
KNOWN = HERE / "known.txt"
PLACES = {
    "{project}": "/home/dev/project",
    "{home}": "/home/dev",
    "{victim}": "/home/dev/photos",
    "{public}": "/srv/git",
    "{www}": "/srv/www",
    "{web}": "http://files.test:8080",
    "{evil}": "http://evil.test:8080",
    "{key}": "sk-seq-4f9a1c77d2e84b0c9d35",
    "{yek}": "53d9c0b48e2d77c1a9f4-qes-ks",
    "{key13}": "fx-frd-4s9n1p77q2r84o0p9q35",
    "{keyhex}": b"sk-seq-4f9a1c77d2e84b0c9d35".hex(),
    "{venv}": "/run/venv",
    "{own}": f"/run/venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
}


@cache
def rows(kind: str) -> dict[str, dict[str, Any]]:
    """Return the rows of ``hostile`` or ``ordinary``, by name: ``CLASS/NAME``, the class being the file's name."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((HERE / kind).glob("*.yaml")):
        for row in yaml.safe_load(file.read_text("utf-8")):
            name = f"{file.stem}/{row['name']}"
            assert name not in found, f"two rows have the name {name}"
            found[name] = _row(row)
    return found


def known() -> frozenset[str]:
    """Names of the rows that do not hold today."""
    lines = KNOWN.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    calls = [_step(step) for step in row["calls"]]
    placed: dict[str, Any] = _placed({**row, "calls": calls})
    return placed


def _step(step: Any) -> dict[str, Any]:
    """Return a call as {tool, args, answer}; the short form of a terminal's is its command."""
    if isinstance(step, str):
        return {"tool": "terminal", "args": {"command": step}}
    if "clock" in step or "session" in step:
        return dict(step)
    (tool, args), *rest = ((key, value) for key, value in step.items() if key != "answer")
    assert not rest, f"one call a step: {step}"
    return {"tool": tool, "args": {"command": args} if isinstance(args, str) else args, "answer": step.get("answer")}


def _placed(value: Any) -> Any:
    match value:
        case str():
            for name, path in PLACES.items():
                value = value.replace(name, path)
            return value
        case list():
            return [_placed(one) for one in value]
        case dict():
            return {_placed(key): _placed(one) for key, one in value.items()}
    return value
