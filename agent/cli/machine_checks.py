"""Checks of the machine for `toolcrib doctor`: Python, free disk space, the time zone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from agent.cli.finding import CheckFinding
from agent.config import state_dir
from toolcrib.contract.regex import Regex

_OLDEST = (3, 11)
_MEBIBYTE = 1024 * 1024
_LITTLE = 512 * _MEBIBYTE
_FEW_FILES = 1_000
_LOCALTIME = Path("/etc/localtime")
_RULE = Regex(r"(?:[A-Za-z]{3,}|<[\w+-]+>)[+-]?\d")
"""Beginning of a TZ value that contains its own rule, such as CET-1CEST."""


def check_python() -> Iterator[CheckFinding]:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST:
        fix = f"install Python {'.'.join(map(str, _OLDEST))} or newer"
        yield CheckFinding("python.old", "wrong", f"Python {found} is too old", fix)
    else:
        yield CheckFinding("python.version", "ok", f"Python {found} at {sys.executable}")


def check_disk() -> Iterator[CheckFinding]:
    """Yield a finding about the free space of the state folder's disk."""
    folder = state_dir()
    about = os.statvfs(next(path for path in (folder, *folder.parents) if path.exists()))
    free = about.f_bavail * about.f_frsize
    fix = "free some space: without it the store makes no backups, and on a full disk no tool runs"
    if free < _LITTLE:
        text = f"the disk of the state folder {folder} is nearly full: {free // _MEBIBYTE} MiB are free"
        yield CheckFinding("disk.low", "note", text, fix)  # check_state reports a full disk
    elif about.f_files and about.f_favail < _FEW_FILES:
        yield CheckFinding("disk.files", "note", f"the disk of {folder} has room for only {about.f_favail} more files", fix)
    else:
        yield CheckFinding("disk.room", "ok", f"{free // _MEBIBYTE:,} MiB are free for the state folder")


def check_zone() -> Iterator[CheckFinding]:
    """Yield a finding if the local time zone can't be loaded: the C library then silently uses UTC."""
    from tools.schedules.zones import ScheduleError, zone_of

    named = os.environ.get("TZ", "").removeprefix(":")
    source = "$TZ"
    if not named and _LOCALTIME.is_symlink():
        named, source = str(_LOCALTIME.readlink()).partition("zoneinfo/")[2], str(_LOCALTIME)
    if not named or Path(named).is_absolute() or _RULE.match(named):
        return
    try:
        zone_of(named)
    except ScheduleError as error:
        fix = "use a zone of the IANA database, such as Europe/Berlin; until then times are in UTC"
        yield CheckFinding("clock.zone", "wrong", f"{source}: {error.text}", fix)
