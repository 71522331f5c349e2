"""An act: a thing that a command does, resolved, as the rules see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import EMPTY, Taint, Value


class RedirectTarget(NamedTuple):
    """A redirect to or from a file: ``op`` is ``< > >> >| <> &> &>>``."""

    op: str
    path: Value
    fd: int = 1


class Code(NamedTuple):
    """Text that a program runs: ``language`` is ``shell``, ``python``, ``perl``, ``sql`` ..."""

    language: str
    text: Value
    source: Literal["argument", "stdin", "file", "environment"] = "argument"
    path: str = ""
    """The file it is, where there is one."""
    changed: str = ""
    """Cause that may change that file before it runs, in a way that nobody followed; ``text`` is unknown then."""


class Sink(Protocol):
    """Receiver of the effects that a reader of another language's source (tools/judge/languages) finds: the interpreter.

    Equal effects are reported in the shell's words, so that one table judges them all: ``os.remove(p)`` is
    ``run([Value("rm"), p])``, ``open(p, "w")`` is ``run([], [RedirectTarget(">", p)])``.
    """

    def run(self, argv: Sequence[Value], redirects: Sequence[RedirectTarget] = (), stdin: Value | None = None) -> None:
        """A program is started, without a shell."""
        ...

    def shell(self, text: Value) -> None:
        """A shell reads ``text``."""
        ...

    def code(self, code: Code) -> None:
        """Text is evaluated: ``eval``, ``exec``, another interpreter."""
        ...

    def inspect_path(self, path: str) -> Seen:
        """A file, by a path that may be relative to where the code runs; ``-`` is standard input."""
        ...


@dataclass(slots=True)
class Act:
    """A simple command as it would be executed, after every wrapper.

    ``name`` is the program's bare name (``rm`` for ``/usr/bin/rm`` and ``\\rm``; "" where the act is only redirects or
    assignments; a name with a HOLE where it is unknown). ``argv[0]`` is what was written. ``args`` are argv[1:].
    """

    name: str
    argv: Sequence[Value]
    redirects: Sequence[RedirectTarget] = ()
    cwds: Sequence[str] = ()
    """Absolute folders in which the command may run, one or several; empty where they are unknown."""
    environment: Mapping[str, Value] = field(default_factory=dict)
    """Variables set for it: by a prefix, by ``env``, and exported ones that the script itself set."""
    stdin: Value | None = None
    """Standard input from a pipe, a heredoc or a ``<`` file; None: the terminal or nothing."""
    fed: bool = False
    """True where more arguments come from elsewhere (xargs, find -exec {}, parallel) and are not known to stand in argv."""
    wrappers: Sequence[str] = ()
    """Wrappers around the command, outermost first: ``("sudo", "xargs")``."""
    place: str = ""
    """Machine or root that the command runs in, if not here: ``ssh:HOST``, ``container:NAME``, ``chroot:DIR``; "" is here."""
    code: Sequence[Code] = ()
    """Text it executes that has been, or could not be, looked into."""
    language: str = "shell"
    """Language in which the act was written: acts found in Python source have ``python``."""
    background: bool = False
    taint: Taint = Taint.NONE
    """Taint of the text that this act was found in: a command out of a decoded script carries DECODED."""
    start: int = 0
    end: int = 0
    """Offsets in the outermost command text."""
    prints: bool = False
    """True for the redirects of a compound command which certainly prints something."""

    @property
    def args(self) -> Sequence[Value]:
        return self.argv[1:]

    def called(self, argv: Sequence[Value]) -> Act:
        """Return this act with other words."""
        return Act(
            *(self.name, argv, self.redirects, self.cwds, self.environment, self.stdin, self.fed, self.wrappers, self.place),
            *(self.code, self.language, self.background, self.taint, self.start, self.end, self.prints),
        )

    def words(self) -> list[str]:
        """The texts of the arguments."""
        return [value.text for value in self.argv[1:]]

    def read(self) -> Value:
        """Return the command's standard input, EMPTY where it has none."""
        return self.stdin if self.stdin is not None else EMPTY


class Fault(NamedTuple):
    """Reason that something could not be read; the whole is then asked about. ``kind``: syntax, depth, size, steps, opaque."""

    kind: str
    why: str
    start: int = 0


@dataclass(slots=True)
class Meaning:
    """All that a command would do, as far as that is known. ``faults`` empty: nothing was left unseen by a limit or an error."""

    acts: Sequence[Act]
    faults: Sequence[Fault] = ()
    read: Sequence[str] = ()
    """Files that were looked into (their digests are bound to the answer)."""
    files: Mapping[str, Taint] = field(default_factory=dict)
    """Absolute paths of files that it leaves with a taint: what was downloaded or decoded stays so for the next command."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files and folders that it leaves as copies of others, or moved: the new path, and the old one."""
    links: Sequence[tuple[str, str]] = ()
    """Links that it makes: where they are, and where they lead."""
    lists: Sequence[str] = ()
    """Texts that it reads part by part, further than they were followed: what they name may be what it writes."""
    unsure: Sequence[str] = ()
    """Folders whose contents it may change in ways that nobody followed."""
    arrived: Sequence[str] = ()
    """Paths at which files that were elsewhere may turn up."""
    made: Mapping[str, str] = field(default_factory=dict)
    """Variables that hold what ``mktemp -d`` printed, and its text with a HOLE for what is not known yet."""
    steps: int = 0
