"""Denials of a sandbox, found in a command's own messages.

The result is a hint: it explains a failure and leads to an offer. It allows nothing, so a forged message can at most cause a
needless offer.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from toolcrib.contract.containment import Containment, DeniedConnection
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import Captured, ExecOutcome
from toolcrib.contract.regex import Regex
from tools.judge.folders import under

DenialKind: TypeAlias = Literal["path", "host", "socket", "privilege", "process"]

MOST = 8
"""Maximum number of denials reported for one command."""
_MOST_CHARS = 64_000
_MOST_LINE = 4_000
_BEFORE = 3
"""Number of lines before an error that may name its path."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A denial by the sandbox. ``what``: a path, host or socket, "" if no message names it; ``how``: the program's message."""

    kind: DenialKind
    what: str
    how: str


_READ_ONLY = Regex(r"Read-only file ?system|\bEROFS\b|os error 30\b", re.IGNORECASE)
_REFUSED = Regex(
    r"Permission denied|Operation not permitted|\bEACCES\b|\bEPERM\b|[Uu]nable to open database|readonly database"
    r"|failed to push some refs to"
)
_ABSENT = Regex(r"No such file or directory|\bENOENT\b")
_BUSY = Regex(r"Device or resource busy|\bEBUSY\b")
_ENTERED = Regex(r"Entering directory '([^']+)'")
_QUOTES = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
_BROKEN = Regex(r"[ \t]*\n(?:Warning: |        )")
"""Line breaks within a message, as curl and unzip insert them."""
_SAYS_ERROR = Regex(r"(?:error|fatal|warning|npm error)\b", re.IGNORECASE)
_QUOTED = Regex(r"(?<!\w)'([^']+)'|\"([^\"]+)\"|`([^`']+)[`']")
_ABSOLUTE = Regex(r"(?<![\w.:/-])(?:~|/)[^\s'\"`,;()]*")
_HOST = r"(?P<what>\[?[\w.:-]+\]?)"
_HOSTS = tuple(
    Regex(pattern, re.IGNORECASE)
    for pattern in (
        rf"could not resolve host(?:name)?:? ['\"]?{_HOST}",
        rf"(?:unable to|failed to|cannot|can't) resolve (?:host(?:name)? )?(?:address )?['\"]?{_HOST}",
        rf"could not translate host name [\"']{_HOST}[\"'] to address",
        rf"getaddrinfo E(?:AI_AGAIN|NOTFOUND) {_HOST}",
        rf"dial (?:tcp|udp): lookup {_HOST}",
        rf"toolcrib: {_HOST} is not an allowed host",
        rf"host='{_HOST}', port=\d+.*(?:NewConnectionError|ProxyError|NameResolutionError)",
        rf"Failed to connect to {_HOST} port \d+",
        rf"{_HOST}: (?:Temporary failure in name resolution|Name or service not known)",
        rf"(?:https?|ssh|git)://(?:[^@/\s]+@)?{_HOST}.*(?:CONNECT tunnel failed|from proxy after CONNECT|network is unreachable)",
    )
)
_UNNAMED_HOSTS = Regex(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|\bENETUNREACH\b"
    r"|CONNECT tunnel failed, response 403|Received HTTP code 403 from proxy|Tunnel connection failed: 403",
    re.IGNORECASE,
)
_LOOPBACK = ("localhost", "127.", "[::1]", "::1", "0.0.0.0")  # noqa: S104 - compared with, not bound
_SOCKETS = (
    Regex(r"Cannot connect to the Docker daemon at unix://(?P<what>/[^\s.]+(?:\.\w+)?)"),
    Regex(r"[Cc]annot connect to Podman.*unix://(?P<what>/\S+)"),
    Regex(r"Failed to connect to (?:the )?(?:system |user |session )?(?P<what>bus)\b"),
    Regex(r"System has not been booted with (?P<what>systemd)"),
    Regex(r"connection to server on socket \"(?P<what>/[^\"]+)\" failed"),
    Regex(r"dial unix (?P<what>/[^\s:]+)"),
    Regex(r"error connecting to (?P<what>/\S+tmux\S+)"),
)
_PRIVILEGES = Regex(
    r"no new privileges|sudo: (?:effective user ID is not 0|unable to (?:change|set)|PERM_)"
    r"|\bsu: (?:cannot set|must be run from|Authentication failure)|setuid: Operation not permitted"
    r"|requires superuser privilege|must be superuser|only root can|must be root|are you root\?"
    r"|\b(?:mount|umount|unshare|nsenter|ping|chroot|ip|iptables|dmesg)\b[^\n]*(?:Operation not permitted|[Pp]ermission denied)"
    r"|bwrap: (?:Creating new namespace failed|No permissions to create)|No usable sandbox!"
)
_PROCESSES = Regex(
    r"fork: (?:retry: )?Resource temporarily unavailable|[Cc]annot fork|can't start new thread"
    r"|kill: \(\d+\).*Operation not permitted"
)
_KEYS = (
    (Regex(r"Permission denied \(publickey|no such identity|Host key verification failed"), (".ssh",)),
    (Regex(r"gpg failed to sign|signing failed|No secret key", re.IGNORECASE), (".gnupg",)),
    (Regex(r"could not read (?:Username|Password) for"), (".git-credentials", ".netrc")),
    (Regex(r"Unable to locate credentials"), (".aws",)),
    (Regex(r"gh auth login"), ("gh",)),
    (Regex(r"npm error (?:need auth|code ENEEDAUTH)"), (".npmrc",)),
)
"""Messages of programs that cannot find their keys, and the names of masked paths that hold these keys."""


def may_write(path: str) -> bool:
    """Return whether this process may write to the path, or to its nearest existing parent."""
    while not os.path.lexists(path) and path not in ("/", ""):
        path = posixpath.dirname(path)
    return os.access(path, os.W_OK)


def innermost(holds: Containment, path: str) -> str:
    """Return the name of the containment's list with the innermost folder around a path, "" if there is none."""
    lists = {"writable": holds.writable, "ephemeral": holds.ephemeral, "masked": holds.masked, "read_only": holds.read_only}
    fitting = [(len(folder), name) for name, folders in lists.items() for folder in folders if under(path, folder)]
    return max(fitting)[1] if fitting else ""


def denials(
    outcome: ExecOutcome,
    containment: Containment,
    network_denials: Sequence[DeniedConnection] = (),
    *,
    real: Callable[[str], str] = os.path.realpath,
    writes: Callable[[str], bool] = may_write,
) -> list[Denial]:
    """Return what the sandbox denied to a command, at most MOST denials.

    ``network_denials``: the connections that the proxy refused while the command ran. ``real`` resolves links. ``writes`` returns
    whether a path is writable outside the sandbox: a path that the user cannot write to anyway was not denied by the sandbox.
    """
    found: dict[tuple[DenialKind, str], Denial] = {}
    for refused in network_denials:
        host = f"{refused.host}:{refused.port}"
        found.setdefault(("host", host), Denial("host", host, "the host is not allowed"))
    names_hosts = bool(found)
    for denial in _in_text(outcome, _Reader(containment, outcome.cwd, real, writes)):
        if denial.kind == "host" and names_hosts:  # the proxy's reports are more precise than the programs'
            continue
        found.setdefault((denial.kind, denial.what), denial)
        if len(found) >= MOST:
            break
    named = {denial.kind for denial in found.values() if denial.what}
    return [denial for denial in found.values() if denial.what or denial.kind not in named]


def _in_text(outcome: ExecOutcome, reader: _Reader) -> Iterator[Denial]:
    for captured, is_error in ((outcome.stderr, True), (outcome.stdout, outcome.exit_code != 0)):
        yield from reader.read(_lines(captured), strict=not is_error)


def _lines(captured: Captured) -> list[str]:
    text = (captured.head[: _MOST_CHARS // 2] + b"\n" + captured.tail[-_MOST_CHARS // 2 :]).decode(errors="replace")
    text = _BROKEN.sub(" ", text.translate(_QUOTES))
    return [line[:_MOST_LINE] for line in text.splitlines() if line.strip()]


class _Reader:
    """Finds denials in messages, given what the sandbox restricts. ``cwd`` is the base of relative paths."""

    def __init__(self, containment: Containment, cwd: str, real: Callable[[str], str], writes: Callable[[str], bool]) -> None:
        self._holds, self._cwd, self._real, self._writes = containment, cwd, real, writes

    def read(self, lines: Sequence[str], *, strict: bool) -> Iterator[Denial]:
        """Yield the denials in these lines.

        ``strict``: the lines may be the content of a file, so only a path that the sandbox closes, or a line marked as an error,
        counts.
        """
        for number, line in enumerate(lines):
            if (entered := _ENTERED.search(line)) is not None:
                self._cwd = posixpath.join(self._cwd, entered[1])
            message = line.strip()[:300]
            sure = not strict or _SAYS_ERROR.match(message) is not None
            yield from (Denial(kind, what, message) for kind, what in self._paths(lines, number, sure=sure))
            if sure:
                yield from (Denial(kind, what, message) for kind, what in self._others(line))

    # -- paths -----------------------------------------------------------------------------------------------------

    def _paths(self, lines: Sequence[str], number: int, *, sure: bool) -> Iterator[tuple[DenialKind, str]]:
        line = lines[number]
        if _READ_ONLY.search(line) is not None:
            near = [line, *reversed(lines[max(number - _BEFORE, 0) : number])]
            closed = next((path for one in near for path in self._named(one, words=one is line) if self._is_closed(path)), None)
            if closed is not None:
                yield "path", closed
            elif sure and not any(_is_absolute(name) for name in _names(line)):  # an open absolute path was not denied
                yield "path", next(iter(_relative(line)), "")
        elif _REFUSED.search(line) is not None:
            yield from (("path", path) for path in self._named(line) if self._is_closed(path))
        elif _BUSY.search(line) is not None:
            yield from (("path", path) for path in self._named(line) if self._is_pinned(path))
        elif _ABSENT.search(line) is not None:
            yield from (("path", path) for path in self._named(line) if innermost(self._holds, path) == "masked")

    def _named(self, line: str, *, words: bool = False) -> Iterator[str]:
        for name in _names(line, words=words):
            path = posixpath.expanduser(name) if name.startswith("~") else posixpath.join(self._cwd, name)
            folder, last = posixpath.split(posixpath.normpath(path))
            yield posixpath.join(self._real(folder), last)

    def _is_closed(self, path: str) -> bool:
        place = innermost(self._holds, path)
        if place in ("masked", "read_only"):
            return True
        return not place and self._holds.mode == "workspace" and self._writes(path)

    def _is_pinned(self, path: str) -> bool:
        return ".git" in path.split("/") or path in (*self._holds.writable, *self._holds.read_only, *self._holds.masked)

    # -- other denials -----------------------------------------------------------------------------------------------

    def _others(self, line: str) -> Iterator[tuple[DenialKind, str]]:
        if self._holds.network != "on":
            yield from self._hosts(line)
        for pattern in _SOCKETS:
            if (found := pattern.search(line)) is not None:
                yield "socket", found["what"]
        if _PRIVILEGES.search(line) is not None:
            yield "privilege", ""
        if _PROCESSES.search(line) is not None:
            yield "process", ""
        for pattern, names in _KEYS:
            if pattern.search(line) is not None:
                yield from (("path", path) for path in self._holds.masked if posixpath.basename(path) in names)

    def _hosts(self, line: str) -> Iterator[tuple[DenialKind, str]]:
        named = next((found["what"].strip("[].:") for one in _HOSTS if (found := one.search(line)) is not None), None)
        if named is not None:
            if not named.startswith(_LOOPBACK) or "not an allowed host" in line:  # a stopped local server is not a denial
                yield "host", named
        elif _UNNAMED_HOSTS.search(line) is not None:
            yield "host", ""


def _names(line: str, *, words: bool = False) -> list[str]:
    """Return possible paths in a message, last first: quoted text, text between two colons, absolute paths.

    ``words``: the last word of a text between colons counts even without a slash.
    """
    found = [(one.start(), next(filter(None, one.groups()))) for one in _QUOTED.finditer(line)]
    rest = _QUOTED.sub(lambda one: " " * len(one[0]), line)
    found += [(one.start(), one[0].rstrip(".:")) for one in _ABSOLUTE.finditer(rest)]
    at = 0
    for part in rest.split(": "):
        whole, last = part.strip(), part.strip().rpartition(" ")[2]
        if whole[:1] in ("/", "~", "."):
            found.append((at, whole))
        elif "/" in last or (words and last and _READ_ONLY.search(whole) is None):
            found.append((at, last))
        at += len(part) + 2
    return [name for _, name in sorted(found, reverse=True)]


def _relative(line: str) -> Iterable[str]:
    """Return the relative path in a message of the form ``program: cannot create NAME: error``, or []."""
    parts = line.split(": ")
    return [parts[-2].rpartition(" ")[2].strip("'\"`")] if len(parts) > 2 else []


def _is_absolute(name: str) -> bool:
    return name.startswith(("/", "~"))
