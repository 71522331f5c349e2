"""Parts shared by the readers of other tools' files: their sessions, faults with their places, JSON lines, and times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError

_LONGEST = 256 * 1024 * 1024
"""Maximum bytes of a line."""
_AHEAD = 86_400.0
"""Seconds that a clock may have been ahead."""


@dataclass(frozen=True, slots=True)
class ImportFault:
    """An unreadable part. ``place`` is the line, from 1, or the number of a row; 0 for the whole file."""

    path: Path
    place: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}{f':{self.place}' if self.place else ''}: {self.why}"


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session of another tool. ``name`` is its id there.

    ``records`` have toolcrib's form; ``times`` are their times in Unix seconds, 0 if unknown.
    """

    source: str
    name: str
    path: Path
    title: str
    cwd: str
    model: str
    records: Sequence[Mapping[str, Any]]
    times: Sequence[float]

    @property
    def began(self) -> float:
        """Time of the first message, 0 if no time is known."""
        return min(filter(None, self.times), default=0.0)

    @property
    def ended(self) -> float:
        """Time of the last message, 0 if no time is known."""
        return max(self.times, default=0.0)


def lines_of(path: Path, fault: Callable[[ImportFault], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file of JSON lines, each with its line number; other lines are reported to ``fault``."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST):
                number += 1
                if not line.strip():
                    continue
                if not line.endswith(b"\n") and len(line) == _LONGEST:
                    fault(
                        ImportFault(path, number, f"a line of more than {_LONGEST >> 20} MiB; the rest of the file was not read")
                    )
                    return
                try:
                    read = json.loads(line)
                except (ValueError, RecursionError) as error:
                    fault(ImportFault(path, number, f"not valid JSON: {_short(error)}"))
                    continue
                if isinstance(read, dict):
                    yield number, read
                else:
                    fault(ImportFault(path, number, f"expected a JSON object, got {type(read).__name__}"))
    except OSError as error:
        fault(ImportFault(path, 0, error.strerror or str(error)))


def files_below(path: Path, pattern: str, skipped: Sequence[str] = ()) -> list[Path]:
    """Return the file itself, or the files below a folder that match ``pattern``, sorted by path.

    Folders with a name in ``skipped`` are left out. Raises ToolcribError if there is no such file or folder.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ToolcribError(f"{path} does not exist; give the file or folder: toolcrib sessions import --from TOOL PATH")
    found = (file for file in path.rglob(pattern) if not set(skipped).intersection(file.relative_to(path).parts[:-1]))
    return sorted(file for file in found if file.is_file())


def text_in(value: object) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def mapping_in(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def items_in(value: object) -> Sequence[Mapping[str, Any]]:
    """Return the objects in the value if it is a list, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def time_in(value: object) -> float | None:
    """Return Unix seconds from an ISO 8601 string, or from seconds or milliseconds; None for an invalid or future time."""
    try:
        if isinstance(value, str):
            then = datetime.fromisoformat(value)
            value = (then if then.tzinfo is not None else then.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > 1e11 else float(value)
            return seconds if 0 < seconds < time.time() + _AHEAD else None
    except (ValueError, OverflowError):
        pass
    return None


def arguments_in(value: object) -> Mapping[str, Any]:
    """Return a call's arguments: an object, or one encoded in a string; any other value as ``input``."""
    if isinstance(value, str):
        try:
            read = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            read = None
        return read if isinstance(read, dict) else {"input": value}
    return value if isinstance(value, dict) else {} if value is None else {"input": value}


def _short(error: Exception) -> str:
    return (
        f"{error.msg} at column {error.colno}"
        if isinstance(error, json.JSONDecodeError)
        else (str(error) or type(error).__name__)
    )
