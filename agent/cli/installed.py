"""Compare the installed files with the released ones: another distribution may install its own ``tools`` over toolcrib's."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import json
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import TOPS
from agent.cli.finding import CheckFinding, Repair

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_FIX = "reinstall it in its own environment: uv tool install toolcrib, or pipx install toolcrib"
_MOST_NAMED = 10


def compare() -> Iterator[CheckFinding]:
    """Yield findings about files that differ from the wheel's RECORD, and modules of other distributions."""
    from importlib.metadata import PackageNotFoundError, distribution

    from agent.cli.program_checks import install

    home = Path(__file__).resolve().parents[2]
    strangers = [f"{top} ({where})" for top in TOPS if (where := _origin(top)) is None or not where.is_relative_to(home)]
    if strangers:
        yield CheckFinding("installation.strangers", "wrong", f"not from {home}: {', '.join(strangers)}", _FIX)
    try:
        dist = distribution("toolcrib")
    except PackageNotFoundError:
        yield CheckFinding(
            "installation.none",
            "note",
            f"toolcrib runs from {home} but is not installed",
            "install it with pip, so that its files can be checked",
        )
        return
    if _is_editable(dist):
        yield CheckFinding(
            "installation.editable", "ok", f"toolcrib {dist.version}, editable from {home}: its files were not compared"
        )
        return
    wrong = list(_differing(dist))
    if wrong:
        words = reinstalling(dist)
        line = shlex.join(words)
        loses = "toolcrib's installed files are overwritten, and files that another distribution put in their place"
        repair = Repair(line, partial(install, words), compare, loses, is_outside=True)
        named = ", ".join(wrong[:_MOST_NAMED]) + (f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else "")
        yield CheckFinding(
            "installation.files",
            "wrong",
            f"installed files are not those of toolcrib {dist.version}: {named}",
            f"{line}; or {_FIX}",
            repair,
        )
    else:
        yield CheckFinding("installation.sound", "ok", f"toolcrib {dist.version}, its files as released")


def reinstalling(dist: Distribution) -> list[str]:
    """Return the command that restores the released files, with the installer that installed toolcrib."""
    match installer(dist):
        case "uv tool":
            return ["uv", "tool", "upgrade", "--reinstall", "toolcrib"]
        case "pipx":
            return ["pipx", "reinstall", "toolcrib"]
        case "uv":
            return ["uv", "pip", "install", "--python", sys.executable, "--reinstall-package", "toolcrib", _wanted(dist)]
        case _:
            return [sys.executable, "-m", "pip", "install", "--force-reinstall", "--no-deps", _wanted(dist)]


def installing(extra: str) -> list[str]:
    """Return the command that installs an extra of toolcrib. Raises PackageNotFoundError if toolcrib is not installed."""
    from importlib.metadata import distribution

    dist = distribution("toolcrib")
    match installer(dist):
        case "uv tool":
            return ["uv", "tool", "install", "--force", _wanted(dist, extra)]
        case "pipx":
            return ["pipx", "install", "--force", _wanted(dist, extra)]
        case "uv":
            return ["uv", "pip", "install", "--python", sys.executable, _wanted(dist, extra)]
        case _:
            return [sys.executable, "-m", "pip", "install", *(["-e"] if _is_editable(dist) else []), _wanted(dist, extra)]


def installer(dist: Distribution) -> str:
    """Return the installer of toolcrib: ``uv tool``, ``pipx``, ``uv`` or ``pip``."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    if (prefix / "pipx_metadata.json").exists():
        return "pipx"
    return "uv" if (dist.read_text("INSTALLER") or "").strip() == "uv" else "pip"


def _wanted(dist: Distribution, extra: str = "") -> str:
    """Return the requirement for this toolcrib: its version, or the URL or folder that it was installed from."""
    name = f"toolcrib[{extra}]" if extra else "toolcrib"
    url = str(json.loads(dist.read_text("direct_url.json") or "{}").get("url", ""))
    if _is_editable(dist):
        return f"{Path(__file__).resolve().parents[2]}{name.removeprefix('toolcrib')}"
    return f"{name} @ {url}" if url else f"{name}=={dist.version}"


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
    """Yield (file, hash method, hash) from RECORD itself: from Python 3.12 on, ``dist.files`` leaves out missing files."""
    for row in csv.reader((dist.read_text("RECORD") or "").splitlines()):
        name, digest = (row[0], row[1]) if len(row) > 1 else ("", "")
        if digest and not name.endswith(".pyc") and not name.startswith("../"):  # some installers put scripts elsewhere
            method, _, expected = digest.partition("=")
            yield name, method, expected
