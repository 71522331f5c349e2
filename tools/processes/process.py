"""Facts about a background process, read from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass, replace
from tools.processes.scripts import MEMBER, PART, SESSION

_TICKS, _PAGE = 100, 4096
"""Clock ticks of a second and bytes of a page, as Linux reports them on nearly all machines."""
LOST = "lost"
"""State of a process that has ended although nothing recorded its exit code."""
GONE = "ended with the toolcrib that had its terminal, and nothing of its screen is kept"
"""Description of a process in a terminal whose toolcrib was killed, to follow its name in a sentence."""
LEFT = "left children"
"""State of a process that has ended, and left processes that it started."""


@dataclass(frozen=True, slots=True)
class Process:
    """A background process as its folder describes it. ``pid`` and ``start`` (in clock ticks) are those of its first process,
    in the environment's own numbers.

    ``writes``: it or a descendant may still print something. ``reads``: its input is open. ``full``: the disk was full, so that
    later output was lost. ``parts`` are the files of its log: the number of bytes printed before each, and its size.
    ``ended_at`` is in Unix seconds. ``locks``: its limit of file locks, which its descendants have too. ``left``: whether
    processes that it started still run after its end; only ``ProcessTable.in_use`` finds out. ``terminal``: it runs in one.
    """

    name: str
    pid: int
    start: int
    runs: bool
    writes: bool = False
    reads: bool = False
    full: bool = False
    exit_code: int | None = None
    ended_at: float | None = None
    parts: Sequence[tuple[int, int]] = field(default_factory=list)
    locks: int = 0
    left: bool = False
    terminal: bool = False

    @property
    def state(self) -> str:
        """``running``, ``left children``, ``exited``, or ``lost`` if its exit code is unknown."""
        return "running" if self.runs else LEFT if self.left else LOST if self.exit_code is None else "exited"

    @property
    def printed(self) -> int:
        """Number of bytes that it has printed."""
        return sum(self.parts[-1]) if self.parts else 0

    @property
    def missing(self) -> int:
        """Number of printed bytes that the log no longer has."""
        return self.printed - sum(size for _, size in self.parts)

    def pieces(self, begin: int, end: int) -> Sequence[tuple[int, int, int]]:
        """Return where the bytes from ``begin`` to ``end`` are: the part, the first byte in it, and the number of bytes."""
        found = []
        for before, size in self.parts:
            first, last = max(begin, before), min(end, before + size)
            if first < last:
                found.append((before, first - before, last - first))
        return found


def parse(said: bytes) -> dict[str, Process]:
    """Return the processes in the output of ``look``, by name. Unreadable lines are skipped: the session's commands may write
    into the folder.
    """
    found: dict[str, Process] = {}
    parts: dict[str, list[tuple[int, int]]] = {}
    for line in said.decode(errors="replace").splitlines():
        words = line.split(" ")
        try:
            if words[0] == SESSION:
                name, pid, start, flags, *status = words[1:]
                code, at = (int(status[0]), float(status[1])) if len(status) > 1 else (None, None)
                writes = "w" in flags
                runs = code is None and (writes or "a" in flags)
                reads, full = runs and "i" in flags, "f" in flags
                found[name] = Process(name, int(pid), int(start), runs, writes, reads, full, code, at, terminal="t" in flags)
            elif words[0] == PART:
                name, _, begin = words[2].split("/")
                parts.setdefault(name, []).append((int(begin), int(words[1])))
        except (ValueError, IndexError):
            continue
    return {name: replace(one, parts=sorted(parts.get(name, []))) for name, one in found.items()}


@dataclass(frozen=True, slots=True)
class Use:
    """Resources that a process and its descendants use: processor time in ``seconds``, resident memory in ``bytes``."""

    pids: Sequence[int]
    seconds: float
    bytes: int


def use_in(said: bytes) -> Use:
    """Return what the output of ``members`` shows."""
    rows = [line.split() for line in said.decode(errors="replace").splitlines() if line.startswith(f"{MEMBER} ")]
    pids = [int(row[1]) for row in rows if int(row[1]) > 1]  # a signal to 0 or -1 reaches other processes too
    ticks, pages = sum(int(row[2]) + int(row[3]) for row in rows), sum(int(row[4]) for row in rows)
    return Use(pids, ticks / _TICKS, pages * _PAGE)
