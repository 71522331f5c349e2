"""Verification of a chain: ``python -m plugins.audit FILE``, or ``toolcrib audit [FILE]`` if the plugin is enabled."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from .chain import START, TORN, digest_of, files_of, head_of, number_of, read_head

HELP = "check whether an audit log is intact"


class ChainReport(NamedTuple):
    """Result of a verification. ``problems`` are faults of the chain, ``notes`` other facts for the reader."""

    lines: int
    head: str
    problems: list[str]
    notes: list[str]


def configure(parser: argparse.ArgumentParser, usual: Path | None = None) -> None:
    """Add the arguments. ``usual`` is the default file."""
    words = "the current file; older ones beside it are read too"
    if usual is None:
        parser.add_argument("file", type=Path, help=words)
    else:
        parser.add_argument("file", type=Path, nargs="?", default=usual, help=f"{words} (default: {usual})".replace("%", "%%"))
    parser.add_argument("--head", default="", help="digest of a line that the log must contain, as printed by an earlier check")


def run(args: argparse.Namespace) -> int:
    """Print the result, and return 0 if the log is intact, else 1."""
    found = verify(args.file, args.head)
    for note in found.notes:
        print(f"note: {note}")  # noqa: T201 - a command's output
    for problem in found.problems:
        print(f"BROKEN: {problem}")  # noqa: T201 - a command's output
    if not found.problems:
        print(f"intact: {found.lines} lines; the last one is {found.head}")  # noqa: T201 - a command's output
    return 1 if found.problems else 0


def verify(path: Path, wanted: str = "") -> ChainReport:
    """Read all files of a chain. Reading a file stops at its first problem."""
    checked = _Reader()
    files = files_of(path)
    if not files:
        return ChainReport(0, START, [f"{path}: no such log exists"], [])
    for file in files:
        checked.read(file)
    head = read_head(head_of(path).read_bytes()) if head_of(path).exists() else None
    if head is None:
        checked.problems.append(f"{head_of(path)} is missing: it is unknown whether the end was cut off")
    elif head[0] > checked.number or (head[1] not in checked.digests):
        checked.problems.append(f"the end is cut off or changed: line {head[0]} was written, the last one is {checked.number}")
    if wanted and wanted not in checked.digests:
        checked.problems.append(f"no line has the digest {wanted}")
    return ChainReport(checked.lines, checked.before, checked.problems, checked.notes)


class _Reader:
    def __init__(self) -> None:
        self.lines = self.number = 0
        self.before = ""
        self.digests: set[str] = set()
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._torn: bytes | None = None

    def read(self, file: Path) -> None:
        with file.open("rb") as stream:
            for place, line in enumerate(stream, 1):
                if (problem := self._line(line)) is not None:
                    self.problems.append(f"{file.name}:{place}: {problem}")
                    self.before = digest_of(line)
                    return
        if self._torn is not None:
            self.notes.append(f"{file.name}: the last line is unfinished and ignored; the next writer closes it")
            self._torn = None

    def _line(self, line: bytes) -> str | None:
        number = number_of(line) if line.endswith(b"\n") else None
        if number is None:
            if self._torn is not None:
                return "not a line of a log"
            self._torn = line.removesuffix(b"\n")
            return None
        entry: dict[str, Any] = json.loads(line)
        if self._torn is not None and (entry.get("event") != TORN or entry.get("torn") != digest_of(self._torn)):
            return "the line before it is not a line of a log, and there is no record that it was left unfinished"
        if self._torn is not None:
            self.notes.append(f"line {number}: {entry.get('bytes')} bytes of an unfinished line before it are ignored")
            self._torn = None
        if not self.lines and number != 1:
            self.notes.append(f"it begins with line {number}: older files were removed")
        elif not self.lines and entry.get("prev") != START:
            return "the first line refers to an earlier line, which is missing"
        elif self.lines and number != self.number + 1:
            return f"line {number} follows line {self.number}: lines are missing, or in another order"
        elif self.lines and entry.get("prev") != self.before:
            return f"line {number} does not follow the line before it: one of them was changed"
        self.lines, self.number, self.before = self.lines + 1, number, digest_of(line)
        self.digests.add(self.before)
        return None
