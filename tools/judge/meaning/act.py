"""An act: one effect of a command, resolved, as the rules see it."""

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
    """The file with the text, if there is one."""
    changed: str = ""
    """The name of the command that may change that file in an unknown way before the file runs, "" if none; with a name, ``text``
    is unknown.
    """


class Sink(Protocol):
    """Receiver of the effects that a parser of another language (tools/judge/languages) finds: the interpreter.

    Equal effects are reported in the shell's words, so that one table judges them all: ``os.remove(p)`` is
    ``run([Value("rm"), p])``, ``open(p, "w")`` is ``run([], [RedirectTarget(">", p)])``.
    """

    def run(self, argv: Sequence[Value], redirects: Sequence[RedirectTarget] = (), stdin: Value | None = None) -> None:
        """Report that a program is started without a shell."""
        ...

    def shell(self, text: Value) -> None:
        """Report that a shell reads ``text``."""
        ...

    def code(self, code: Code) -> None:
        """Report that text is evaluated: ``eval``, ``exec``, another interpreter."""
        ...

    def inspect_path(self, path: str) -> Seen:
        """Return a file, by a path that may be relative to the code's folder; ``-`` is standard input."""
        ...


@dataclass(slots=True)
class Act:
    """A simple command as it would be executed, after every wrapper.

    ``name`` is the program's bare name (``rm`` for ``/usr/bin/rm`` and ``\\rm``; "" if the act is only redirects or assignments;
    a name with a HOLE if it is unknown). ``argv[0]`` is the word as written. ``args`` are argv[1:].
    """

    name: str
    argv: Sequence[Value]
    redirects: Sequence[RedirectTarget] = ()
    cwds: Sequence[str] = ()
    """Absolute folders where the command may run, one or several; empty if unknown."""
    environment: Mapping[str, Value] = field(default_factory=dict)
    """Variables set for the command: by a prefix, by ``env``, and exported ones that the script itself set."""
    stdin: Value | None = None
    """Standard input from a pipe, a heredoc or a ``<`` file; None: the terminal or nothing."""
    fed: bool = False
    """True if more arguments come from elsewhere (xargs, find -exec {}, parallel) and are not in argv."""
    wrappers: Sequence[str] = ()
    """Wrappers around the command, outermost first: ``("sudo", "xargs")``."""
    place: str = ""
    """Machine or root that the command runs in, if not here: ``ssh:HOST``, ``container:NAME``, ``chroot:DIR``; "" is here."""
    code: Sequence[Code] = ()
    """Text that the command executes, whether or not it could be analysed."""
    language: str = "shell"
    """Language of the act: acts found in Python source have ``python``."""
    background: int = 0
    """Number of background jobs around the act."""
    taint: Taint = Taint.NONE
    """Taint of the text with this act: a command from a decoded script carries DECODED."""
    start: int = 0
    end: int = 0
    """Offsets in the outermost command text."""
    prints: bool = False
    """True for the redirects of a compound command that certainly prints something."""

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
        """Return the texts of the arguments."""
        return [value.text for value in self.argv[1:]]

    def read(self) -> Value:
        """Return the command's standard input, EMPTY if it has none."""
        return self.stdin if self.stdin is not None else EMPTY


class Fault(NamedTuple):
    """The reason why something could not be read, so that the user is asked. ``kind``: syntax, depth, size, steps, opaque."""

    kind: str
    why: str
    start: int = 0


@dataclass(slots=True)
class Meaning:
    """All known effects of a command. If ``faults`` is empty, no limit or error hid anything."""

    acts: Sequence[Act]
    faults: Sequence[Fault] = ()
    read: Sequence[str] = ()
    """Files that were read to judge the command (the user's answer is bound to their digests)."""
    files: Mapping[str, Taint] = field(default_factory=dict)
    """Absolute paths of the tainted files that it leaves: a downloaded or decoded file keeps its taint for the next command."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files and folders that it copies, moves or writes: the old path by the new one, "" for a file with new content."""
    links: Sequence[tuple[str, str]] = ()
    """Links that it creates, with their targets."""
    lists: Sequence[str] = ()
    """Texts that it takes apart in ways that are not fully followed: their parts may name files that it writes."""
    unsure: Sequence[str] = ()
    """Folders whose contents it may change in unknown ways."""
    arrived: Sequence[str] = ()
    """Paths where files from elsewhere may appear."""
    made: Mapping[str, str] = field(default_factory=dict)
    """The output of ``mktemp -d`` in each variable that holds one, with a HOLE for the unknown part."""
    steps: int = 0
    rewrites: Sequence[tuple[str, Taint]] = ()
    """Files that it may change and that a process may still read (RUNNING), or that a link may replace (USED)."""
