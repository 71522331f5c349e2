"""Sequences of tool calls, read from the files beside this one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
KINDS = ("hostile", "ordinary")
"""Kinds in this folder. Rows of the kind ``attacks`` are hostile ones of an external corpus, see `attacks`."""
BACKENDS = ("docker", "ssh")
"""Backends that rows run on besides this machine."""
PROVEN = HERE / "proven.txt"
PROVED_AGAIN = 10
"""One of this many proven rows is proven again in each run of the tests."""
TASK_LIMIT = 120
"""Time limit in seconds of one command of an ordinary row with a ``check``."""
SHARES = {
    "judge": {"hostile": 1, "ordinary": 6, "attacks": 12},
    "workspace": {"hostile": 80, "ordinary": 40, "attacks": 12},
}
"""Each run of the tests takes one of this many rows in a mode. A session that is only judged runs each row without a
``check``.
"""
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
    """Return the rows of a kind, by name: ``CLASS/NAME``; the class is the file's name."""
    return {name: placed(row, PLACES) for name, row in _unplaced(kind).items()}


@cache
def _unplaced(kind: str) -> dict[str, dict[str, Any]]:
    """Return the rows with names of places in them, such as ``{home}``."""
    if kind == "attacks":
        return attacks()
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((HERE / kind).glob("*.yaml")):
        for row in _load(file):
            name = f"{file.stem}/{row['name']}"
            assert name not in found, f"two rows have the name {name}"
            found[name] = _row(row)
    return found


def attacks() -> dict[str, dict[str, Any]]:
    """Return the sequences of the corpus in TOOLCRIB_CORPORA as rows, ``attacks/NAME``, or none if it is absent.

    For a sequence that must not change the home, the home is compared with its earlier state, except toolcrib's own files.
    """
    file = Path(os.environ.get("TOOLCRIB_CORPORA", "/nonexistent"), "attacks/sequences.json")
    found = {}
    for sequence in json.loads(file.read_text("utf-8")) if file.exists() else ():
        calls = [{tool: args} for tool, args in sequence["calls"]]
        given = f"set +e\n{_VICTIM}\n{sequence.get('setup', '')}\ntrue"
        row = {"given": given, "calls": calls, "harm": {"gone": "{project}/victim/sub/f"}}
        if sequence["check"] == "config":
            row |= {"given": f"{given}\n{_HOME_LISTED} > /srv/before", "later": f"{_HOME_LISTED} > /srv/after; {_COMPARED}"}
            row["harm"] = {"exists": "/srv/home-changed"}
        folders = {"@CFG@": "{home}/.config/toolcrib", "@WORK@": "{home}", "@P": "{project}"}
        found["attacks/" + re.sub(r"\W+", "-", sequence["name"]).strip("-")] = _row(placed(row, folders))
    return found


_VICTIM = "mkdir -p victim/sub; echo f > victim/sub/f"
_KEPT_BY_TOOLCRIB = r"\./(\.local/(state|share)/toolcrib|\.cache|project)(/|$)|\./\.config/toolcrib/config\.yaml$"
_HOME_LISTED = rf"""{{
(cd ~; {{ find . ! -type d | grep -vE '^({_KEPT_BY_TOOLCRIB})'; find project/.git/config project/.git/hooks -type f; }} |
  sort | xargs -d '\n' sha256sum 2>&1)
grep -vE '^(display|sandbox|snapshots):' ~/.config/toolcrib/config.yaml || true
}}"""
"""A bash command that lists the files of the home with their digests, and unknown keys in the configuration's file."""
_COMPARED = "cmp -s /srv/before /srv/after || touch /srv/home-changed"


@cache
def elsewhere(kind: str) -> dict[str, dict[str, Any]]:
    """Return the rows that also run in a container and on another host, unplaced, by ``BACKEND:CLASS/NAME``.

    `elsewhere/KIND.yaml` names rows of ``kind``, ``CLASS/NAME`` or for one backend ``BACKEND:CLASS/NAME``, and adds rows with the
    class ``elsewhere``.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in _load(HERE / "elsewhere" / f"{kind}.yaml"):
        only, _, name = (entry if isinstance(entry, str) else f"elsewhere/{entry['name']}").rpartition(":")
        row = _unplaced(kind)[name] if isinstance(entry, str) else _row(entry)
        for backend in [only] if only else BACKENDS:
            assert f"{backend}:{name}" not in found, f"two rows have the name {name}"
            found[f"{backend}:{name}"] = row
    return found


def _load(file: Path) -> Any:
    """Return the contents of a file of rows, by the reader in C if it is available: each process of a test run reads all rows."""
    return yaml.load(file.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe


def known_file(mode: str) -> Path:
    """Return the file that names the rows that do not hold in a mode (a key of `sandbox.MODES`)."""
    return HERE / ("known.txt" if mode == "judge" else f"known.{mode}.txt")


def known(mode: str = "judge") -> frozenset[str]:
    """Return the names of the rows that do not hold in a mode today."""
    file = known_file(mode)
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return frozenset(line for line in lines if line and not line.startswith("#"))


def digest(name: str) -> str:
    """Return the digest that a hostile row's proof depends on: the whole row, the home it ruins, and the code that runs it and
    sees the harm.
    """
    row = json.dumps(_unplaced("hostile")[name], sort_keys=True)
    return hashlib.sha256(_proof_is_by() + row.encode()).hexdigest()[:32]


@cache
def _proof_is_by() -> bytes:
    return b"".join((HERE / name).read_bytes() for name in ("driver.py", "world.py"))


@cache
def proven() -> dict[str, str]:
    """Return the hostile rows whose harm was seen without a judge, by name, each with its digest at that time."""
    lines = PROVEN.read_text("utf-8").splitlines() if PROVEN.exists() else []
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: kept for kept, name in pairs}


def to_prove() -> dict[str, dict[str, Any]]:
    """Return the hostile rows whose present form was not proven, and a fixed share of the others."""
    known_proofs = proven()

    def wanted(name: str) -> bool:
        now = digest(name)
        return known_proofs.get(name) != now or int(now, 16) % PROVED_AGAIN == 0

    return {name: row for name, row in rows("hostile").items() if wanted(name)}


def to_run(kind: str, mode: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a kind that each run of the tests takes in a mode: a share that stays the same until a row changes."""
    share = SHARES[mode][kind]

    def wanted(name: str, row: dict[str, Any]) -> bool:
        if mode == "judge" and "check" not in row:
            return True
        text = json.dumps(_unplaced(kind)[name], sort_keys=True)
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % share == 0

    return {name: row for name, row in rows(kind).items() if wanted(name, row)}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    calls = [_step(step) for step in row["calls"]]
    if "check" in row:  # the task must succeed on a busy machine too
        for call in calls:
            if call["tool"] == "terminal":
                call["args"] = {"timeout": TASK_LIMIT, **call["args"]}
    return {**row, "calls": calls}


def _step(step: Any) -> dict[str, Any]:
    """Return a call as {tool, args, answer}; the short form of a terminal's call is its command."""
    if isinstance(step, str):
        return {"tool": "terminal", "args": {"command": step}}
    if "clock" in step or "session" in step:
        return dict(step)
    (tool, args), *rest = ((key, value) for key, value in step.items() if key != "answer")
    assert not rest, f"one call a step: {step}"
    return {"tool": tool, "args": {"command": args} if isinstance(args, str) else args, "answer": step.get("answer")}


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """Return a row with its folders in place of their names."""
    match value:
        case str():
            for name, path in places.items():
                value = value.replace(name, path)
            return value
        case list():
            return [placed(one, places) for one in value]
        case dict():
            return {placed(key, places): placed(one, places) for key, one in value.items()}
    return value
