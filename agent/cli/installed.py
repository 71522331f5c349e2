"""Comparison of the installed files with the released ones. Other distributions bring a ``tools`` or ``toolsets.py`` too."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import TOPS
from agent.cli.finding import CheckFinding

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_FIX = "reinstall it apart from other packages: uv tool install toolcrib, or pipx install toolcrib"
_MOST_NAMED = 10


def compare() -> Iterator[CheckFinding]:
    """Files that differ from the wheel's RECORD, and modules that come from elsewhere."""
    from importlib.metadata import PackageNotFoundError, distribution

    home = Path(__file__).resolve().parents[2]
    strangers = [f"{top} ({where})" for top in TOPS if (where := _origin(top)) is None or not where.is_relative_to(home)]
    if strangers:
        yield CheckFinding("wrong", f"not from {home}: {', '.join(strangers)}", _FIX)
    try:
        dist = distribution("toolcrib")
    except PackageNotFoundError:
        yield CheckFinding(
            "note", f"toolcrib runs from {home} without being installed", "pip install it, so that it can be checked"
        )
        return
    if _is_editable(dist):
        yield CheckFinding("ok", f"toolcrib {dist.version}, editable from {home}: its files are not compared")
        return
    wrong = list(_differing(dist))
    if wrong:
        named = ", ".join(wrong[:_MOST_NAMED]) + (f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else "")
        yield CheckFinding("wrong", f"installed files are not those of toolcrib {dist.version}: {named}", _FIX)
    else:
        yield CheckFinding("ok", f"toolcrib {dist.version}, its files as released")


def _origin(top: str) -> Path | None:
    spec = importlib.util.find_spec(top)
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None


def _is_editable(dist: Distribution) -> bool:
    about = json.loads(dist.read_text("direct_url.json") or "{}")
    return bool(about.get("dir_info", {}).get("editable"))


def _differing(dist: Distribution) -> Iterator[str]:
    for name, method, expected in _recorded(dist):
        try:
            digest = hashlib.new(method, Path(str(dist.locate_file(name))).read_bytes()).digest()
        except FileNotFoundError:
            yield f"{name} (gone)"
            continue
        except OSError as error:
            yield f"{name} ({error.strerror})"
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != expected:
            yield name


def _recorded(dist: Distribution) -> Iterator[tuple[str, str, str]]:
    """(file, hash method, hash) of RECORD itself: from Python 3.12 on, ``dist.files`` leaves out what is gone."""
    for row in csv.reader((dist.read_text("RECORD") or "").splitlines()):
        name, digest = (row[0], row[1]) if len(row) > 1 else ("", "")
        if digest and not name.endswith(".pyc") and not name.startswith("../"):  # scripts lie elsewhere with some installers
            method, _, expected = digest.partition("=")
            yield name, method, expected
