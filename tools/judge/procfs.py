"""Access to other processes through /proc: their variables, memory and open files, which may hold keys."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.findings import Finding, visible
from tools.judge.globs import part_matches
from tools.judge.meaning.value import HOLE

WHY = "reads a process's variables or memory, which may hold keys"

_FILE = Regex(
    rf"/proc/(?P<process>[^/\s]+|{HOLE})/(?:task/[^/\s]+/)?(?:(?P<fd>fd/)[^/]|(?P<name>[^/\s:;,\"'`)|&<>]+))|/proc/(?P<all>kcore\b)"
)
_PIECE = Regex(r"[\"'`/]proc\b")
_NAMED = Regex(r"[\"'`/](?:environ|mem)[\"'`]")
_JOINED = Regex(r"[\"']\s*(?:\+|\.(?=\s*[\"']))?\s*[\"']")
_BY_LIBRARY = Regex(r"\.environ\(|[\"']environ[\"']")
_FOLDER = Regex(rf"/proc(?:/[\d*?\[{HOLE}][^/]*(?:/task(?:/[^/]+)?)?)?/?")
_UP = Regex(r"/(?!\.\.?/)[^/\s]+/\.\.(?=/|$)")
_SAME = Regex(r"/\.(?=/|$)|/(?=/)")
KEPT = ("environ", "mem")
_OWN = frozenset({"self", "thread-self"})
_NO_PROCESS = frozenset({"sys", "net", "fs", "bus", "irq", "driver", "tty", "scsi", "acpi", "sysvipc", "asound", "pressure"})
"""Folders of /proc that do not belong to a process."""
_MOST = 20
"""Maximum number of ``/a/..`` that are removed from a path."""


def judge_process(path: str, text: str) -> list[Finding]:
    """Judge access through /proc to variables and memory of any process, and to open files of other processes.

    This data may hold keys in a form that is not redacted from a result. A command's own open files are allowed.
    """
    if not names_process(path):
        return []
    return [Finding("secret.process", "ask-once", WHY, visible(text), scope=visible(path), paths=(path,))]


def names_process(text: str, *, fd: bool = True) -> bool:
    """Return whether a path, or a text with paths, names a process's variables or memory, or, with ``fd``, its open files."""
    if "/proc/" not in text and not (text.startswith("/dev/fd/") and ".." in text):
        return False
    return any(_is_kept(match, fd) for match in _FILE.finditer(_plain(text)))


def matches_process(pattern: str) -> bool:
    """Return whether an absolute shell pattern matches a process's data: ``/p*/1/environ``."""
    first, slash, rest = pattern[1:].partition("/")
    return bool(slash) and part_matches(first, "proc") and names_process(f"/proc/{rest}")


def near_processes(folder: str) -> list[str]:
    """Return the path in /proc that the absolute ``folder`` is or may be, as a list of one; [] if it is elsewhere."""
    if folder.startswith("/proc"):
        return [folder]
    first, _, rest = folder[1:].partition("/")
    return [f"/proc/{rest}".rstrip("/")] if HOLE in first and part_matches(first, "proc") else []


def is_folder(path: str) -> bool:
    """Return whether an absolute path is a process's folder, or the folder of all processes."""
    return path.startswith("/proc") and _FOLDER.fullmatch(_plain(path)) is not None


def in_code(text: str) -> bool:
    """Return whether a program's source names a process's data, in one string or in several, or reads it through psutil."""
    text = _JOINED.sub("", text)
    if "psutil" in text and _BY_LIBRARY.search(text) is not None:
        return True
    return "proc" in text and (names_process(text) or (_NAMED.search(text) is not None and _PIECE.search(text) is not None))


def _plain(text: str) -> str:
    """Return ``text`` with ``/a/..``, ``/.`` and ``//`` removed from its paths."""
    if text.startswith("/dev/fd/"):
        text = f"/proc/self/fd/{text[8:]}"
    if "/." in text or "//" in text:
        text = _SAME.sub("", text.replace("/thread-self/", "/self/task/1/"))
        for _ in range(_MOST):
            shorter = _UP.sub("", text)
            if shorter == text:
                break
            text = shorter
    return text


def _is_kept(match: re.Match[str], fd: bool) -> bool:
    if match["all"]:
        return True
    if match["process"] in _NO_PROCESS:
        return False
    if match["fd"]:
        return fd and match["process"] not in _OWN
    name = match["name"].replace(HOLE, "*")
    return any(fnmatch.fnmatchcase(kept, one) for kept in KEPT for one in (name, name.rstrip("]}")))


def relative(text: str, near: Sequence[str]) -> list[str]:
    """Return the paths that a word (``environ``, ``if=environ``, ``@environ``) may name in the folders ``near``, below /proc."""
    names = {text, text.rpartition("=")[2], text.rpartition("@")[2]}
    return [f"{cwd}/{name}" for cwd in near for name in names if name and name[0] not in "/-"]
