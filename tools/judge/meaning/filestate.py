"""Files as a script sees them: those it wrote itself, then the snapshot."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.folders import normal
from tools.judge.meaning import journal, mounts
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.state import Seen, follows_links, knows_origins
from tools.judge.meaning.value import EMPTY, HOLE, OF_JOBS, Taint, Value, either, joined, names, tainted, unknown
from tools.judge.meaning.walk import WAITED, Walker

_SECRET = Regex(
    r"/\.ssh/(?!known_hosts|config$|authorized_keys|environment|rc$)[^/]*(?<!\.pub)$|/\.env(?:\.(?!example|sample|template|dist)\w+)?$"
    r"|/\.aws(?:/credentials)?/?$|/\.netrc$|/\.pgpass$|/\.git-credentials$|/\.docker/config\.json$|/\.kube/config$|/\.gnupg(?:/|$)"
    r"|^/etc/(?:shadow|gshadow)|\.(?:pem|p12|pfx|kdbx|keystore|jks)$|/id_(?:rsa|dsa|ecdsa|ed25519)$|/\.npmrc$|/\.pypirc$"
    r"|^/proc/(?:self|\d+)/environ$|/\.config/(?:gcloud|gh)(?:/|$)|/\.azure(?:/|$)|/\.toolcrib/\.env|/\.ssh/?$|/\.password-store(?:/|$)|/\.my\.cnf$"
    r"|(?:^|/)(?:private|server|secret)[\w-]*\.key$|/credentials\.json$|/\.(?:bash|zsh|psql|mysql|python)_history$|/\.mozilla/"
)
_PROGRAM = Regex(r"(?:^|/)(?:s?bin|\.bin|libexec|Scripts)/([^/]+)$")
_OPEN = Regex(r"/(?:dev|proc/self)/fd/(\d+)")
_NET = ("/dev/tcp/", "/dev/udp/")
_IN_ENVIRONMENT = Regex(r"(.+)/(?:bin|Scripts)/[^/]+")
DELAYS = names("sleep usleep snooze wait read inotifywait inotifywatch fswatch watchman ping flock nc ncat tail journalctl")
FIXED = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/", "/lib/", "/etc/", "/dev/", "/proc/")
"""Folders that a session cannot write to unless the user agrees."""
_LASTING = Taint.REMOTE | Taint.DECODED | Taint.SECRET | Taint.PROGRAM | Taint.WRITTEN | Taint.LATER | Taint.BROUGHT | OF_JOBS


def program_name(state: State, argv: Sequence[Value]) -> str:
    """Return the program's name, without its folder if that is a folder of programs."""
    if not argv:
        return ""
    first = argv[0]
    text = first.text
    if first.pattern:
        return HOLE
    if "/" not in text:
        return text
    if ("//" in text and "://" not in text) or "/." in text:
        text = posixpath.normpath(text).replace("//", "/")
    if (found := _PROGRAM.search(text)) is not None:
        return found[1]
    if len(state.cwds) == 1 and not text.startswith(("/", "~")):
        found = _PROGRAM.search(posixpath.normpath(posixpath.join(state.cwds[0], text)))
    return found[1] if found is not None else text


@functools.lru_cache(maxsize=2_048)
def is_program(path: str) -> bool:
    """Return whether the file is in a folder of programs."""
    return _PROGRAM.search(path) is not None


def absolute(it: Walker, state: State, text: str, *, logical: bool = False) -> list[str]:
    """Return the possible absolute paths; the text itself if the folder is unknown.

    ``..`` after a link is the parent of the link's target; ``logical``: the parent of the link, as for ``cd``.
    """
    if text[:1] == "~" and re.match(r"~(?:/|$)", text):
        text = (it.now.home or "~") + text[1:]
    if not logical and ".." in text and (behind := behind_links(it, state, text)):
        return behind
    if not state.cwds or text.startswith(("/", "~", HOLE)):
        return [normal(text) if text else ""]
    return [normal(f"{cwd}/{text}") for cwd in state.cwds]


_SAME = Regex(r"/(?:\./)*/*")
_DOTS = Regex(r"/(?!\.{1,2}/)([^/]+)/\.\.(?=/|$)")
_MOST_DOTS = 12
_MOST_CHARS = 4_096


def behind_links(it: Walker, state: State, text: str) -> list[str]:
    """Return the possible absolute paths of ``text`` if it has a ``..`` after a link, else []."""
    if it.context.place or it.context.mounts:
        return []
    written = [text] if text[:1] == "/" else [f"{cwd}/{text}" for cwd in state.cwds]
    found = [_undotted(it, state, _SAME.sub("/", path)) for path in written if path[:1] == "/"]
    return found if found != [posixpath.normpath(path) for path in written] else []


def _undotted(it: Walker, state: State, path: str) -> str:
    for _ in range(_MOST_DOTS):
        match = _DOTS.search(path)
        if match is None or HOLE in path[: match.end()]:
            break
        above = path[: match.start()]
        there = real(it, journal.through(state.files, above + match[0][:-3]))
        plain = f"{real(it, journal.through(state.files, above or '/')).rstrip('/')}/{match[1]}"
        path = (above if there == plain else posixpath.dirname(there)) + path[match.end() :]
    return posixpath.normpath(path or "/")


def undotted(it: Walker, state: State, value: Value) -> Value:
    """Return a word as its real path if it has a ``..`` after a link; any other word unchanged."""
    head, equals, text = value.text.partition("=") if value.text[:1] == "-" or "=" in value.text else ("", "", value.text)
    if ".." not in text or "\n" in text or len(text) > _MOST_CHARS:
        return value
    found = behind_links(it, state, text)
    if not found:
        return value
    path = found[0] if len(found) == 1 else HOLE
    return value._replace(text=f"{head}{equals}{path}", shown=value.shown or value.text)


@functools.lru_cache(maxsize=4_096)
def is_secret(path: str) -> bool:
    """Return whether a path is a usual place of keys and passwords. Cached, because many commands ask about the same paths."""
    return _SECRET.search(path if path.startswith("/") else f"/{path}") is not None


def content(it: Walker, state: State, path: Value) -> Value | None:
    """Return the text that a read of ``path`` returns; None if there is certainly no such file."""
    text = path.text
    if text in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        return state.stdin if state.stdin is not None else unknown()
    if text == "/dev/null":
        return EMPTY
    if text.startswith(_NET):
        return unknown(Taint.REMOTE)
    if text.startswith("/dev/"):
        known = state.files.get(text)
        if known is None and text.startswith("/dev/fd/"):
            known = state.fds.get(text[8:])
        return known if known is not None else unknown()
    found: Value | None = None
    for name in absolute(it, state, text):
        got = _one(it, state, name)
        if got is not None:
            found = got if found is None else either(found, got)
    if found is not None and path.pattern:
        return unknown(found.taint)
    return found


def inherited(state: State) -> Value | None:
    """Return the input of programs that code starts. The code may have read a part of the input of a process."""
    given = state.stdin
    return unknown(Taint.INPUT) if given is not None and given.taint & Taint.INPUT else given


def at(it: Walker, state: State, path: str) -> Value | None:
    """Return the same as ``content``, for an absolute and normalised path."""
    return content(it, state, Value(path)) if path.startswith("/dev/") else _one(it, state, path)


def comes_later(it: Walker, state: State, name: str, *, sure: bool = True) -> bool:
    """Return whether later commands may write the file before it is read, because a trap or a background job reads it.

    ``sure``: the file is known by this name. If a process reads it late, the call that changes it is asked about instead.
    """
    context, own = it.context, int(it.now.background + it.found.awaits) if sure else 0
    if not (context.later or context.background > own) or name in state.files or name.startswith(FIXED):
        return False
    return context.later or it.found.waits or any(act.background > own and act.name in DELAYS for act in it.found.acts.values())


def _one(it: Walker, state: State, name: str) -> Value | None:
    found = _now(it, state, name)
    return tainted(found, fed(it, state, name)) if found is not None and it.context.outlasts else found


def _now(it: Walker, state: State, name: str) -> Value | None:
    if (it.context.background > it.now.background or it.context.later) and comes_later(it, state, name):
        return unknown(Taint.LOCAL)
    if state.files:
        entry = entry_of(it, state, name)
        if entry is not None:
            if entry.shown != journal.DISK:
                return entry._replace(shown="") if entry.shown else entry
            found = _on_disk(it, entry.text)
            return found if found is not None else _on_disk(it, name)
    return _on_disk(it, name)


def _on_disk(it: Walker, name: str) -> Value | None:
    if is_secret(name):
        return unknown(Taint.SECRET | Taint.LOCAL)
    if HOLE in name or not name.startswith("/"):
        return unknown(Taint.LOCAL)
    if it.context.mounts:
        outside = mounts.named(it.context.mounts, Value(name))
        if not outside:
            return None
        name = outside[0]
    seen = it.snapshot.inspect_path(name)
    if seen.kind == "missing":
        return None
    it.found.read[name] = None
    taint = seen.taint & ~(Taint.WRITTEN | OF_JOBS)
    if seen.text is not None:
        it.limits.spend(len(seen.text))
        return Value(seen.text, taint)
    return unknown(Taint.LOCAL | taint | (Taint.PROGRAM if seen.kind == "binary" else Taint.NONE))


def entry_of(it: Walker, state: State, name: str) -> Value | None:
    """Return the line's change to the file that ``name`` (absolute) leads to; None if there is none."""
    entry = journal.find(state.files, name)
    if entry is None and name[:1] == "/" and (there := real(it, name)) != name:
        entry = journal.find(state.files, there)
    if journal.maker_of(entry) and _is_of_environment(it, name):
        return None
    return entry


def _is_of_environment(it: Walker, name: str) -> bool:
    """Return whether ``name`` is a program of a virtual environment. No repository or archive is expected to contain one."""
    found = _IN_ENVIRONMENT.fullmatch(name)
    return found is not None and it.snapshot.inspect_path(f"{found[1]}/pyvenv.cfg").kind == "file"


def real(it: Walker, path: str) -> str:
    """Return ``path`` with all links on the disk followed; unchanged if they are unknown."""
    if HOLE in path or it.context.mounts or not follows_links(it.snapshot):
        return path
    return it.snapshot.real(path)


def copy_of(it: Walker, path: str) -> str:
    """Return the original path of a file that an earlier call copied or moved; "" if the snapshot does not know it."""
    return it.snapshot.copy_of(path) if knows_origins(it.snapshot) else ""


def origin(it: Walker, path: str) -> Taint:
    """Return the taint that earlier calls of this session gave a file, without reading the file."""
    return it.snapshot.taint(path) if knows_origins(it.snapshot) else Taint.NONE


def changed(it: Walker, state: State, path: Value) -> str:
    """Return which command of the line may have changed a file in an unknown way before the file runs; "" if none may."""
    if not state.files or path.text == "-" or path.text.startswith("/dev/"):
        return ""
    for name in absolute(it, state, path.text):
        maker = journal.maker_of(entry_of(it, state, name))
        if not maker and name not in state.files:
            maker = journal.perhaps_written(state.files, name)
        if not maker and HOLE in name:
            maker = journal.anywhere(state.files, name.partition(HOLE)[0])
        if maker:
            return maker
    return ""


def write(it: Walker, state: State, path: Value, value: Value, *, append: bool) -> None:
    text = path.text
    if open_one := _OPEN.fullmatch(text):
        behind = state.fds.get(f"{open_one[1]}>")
        if behind is not None:
            write(it, state, behind, value, append=True)
        return
    if text.startswith("/dev/"):
        return
    if text == HOLE and (path.taint & Taint.MANY or it.context.language != "shell"):
        state.write(HOLE, journal.changed_by(journal.UNKNOWN_NAME, value.taint))
        return
    for name in absolute(it, state, text):
        _write(it, state, journal.through(state.files, name) if state.files else name, value, append=append)


def _write(it: Walker, state: State, name: str, value: Value, *, append: bool) -> None:
    if append and state.files and name.startswith("/") and HOLE not in name:
        _sure_place(it, state, name)
    spared = not append and "noclobber" in state.options  # an existing file stays, except with ``>|``
    old = None
    if append or spared:
        old = _one(it, state, name) if name.startswith("/") and HOLE not in name and not is_secret(name) else None
    new = value if old is None else either(old, value) if spared else joined([old, value])
    if len(state.cwds) > 1 and name in state.files:
        new = either(state.files[name], new)
    put(it, state, name, new._replace(shown=""))


def _sure_place(it: Walker, state: State, name: str) -> None:
    """Add a fault if the line appends text to a file that one of its commands may have created: the file may be a link."""
    if name in state.files:
        return
    maker = journal.maker_of(journal.find(state.files, name))
    if maker and it.snapshot.inspect_path(name).kind == "missing":
        it.fault("order", f"it appends to a file that {maker} may have created as a link to another file")


def put(it: Walker, state: State, name: str, entry: Value) -> None:
    """Record an entry of the journal, and keep its taint for later calls."""
    state.write(name, entry)
    if entry.shown not in (journal.LINK, journal.DISK):
        it.found.copies[name] = ""
    last(it, name, entry.taint | Taint.WRITTEN)
    in_use(it, name, Taint.CHANGING)


# -- files of processes that may outlast the call -------------------------------------------------------------------


def in_use(it: Walker, name: str, mark: Taint) -> None:
    """Mark a file that the code being walked uses, if the code may run after the call."""
    if it.context.outlasts == WAITED and name[:1] == "/" and HOLE not in name:
        it.found.jobs[name] = it.found.jobs.get(name, Taint.NONE) | mark | Taint.LEFT
    elif it.context.outlasts:
        last(it, name, mark if it.now.background else mark | Taint.LEFT)


def is_late(it: Walker) -> bool:
    """Return whether the code being walked may run after later calls."""
    context = it.context
    return bool(context.outlasts and (it.found.slow or context.loops or context.rounds))


def runs(it: Walker, state: State, name: str) -> None:
    """Mark a file whose text the code being walked may execute after the call. ``name``: its absolute path."""
    for one in (name, real(it, name)):
        _runs(it, one, journal.find(state.files, one))


def _runs(it: Walker, name: str, entry: Value | None) -> None:
    in_use(it, name, Taint.RUNNING)
    it.found.running.setdefault(name, entry)


def fed(it: Walker, state: State, name: str) -> Taint:
    """Return the taint of the text of a file, besides its origin. Record the file if the taint is FED."""
    if not it.context.outlasts or name[:1] != "/":
        return Taint.NONE
    it.found.fed[name] = journal.find(state.files, name)
    return Taint.FED


def executed(it: Walker, text: Value, *, by_lines: bool = False) -> Value:
    """Return a text that is executed without the taint FED. Mark the files that it may come from, if they are read late.

    ``by_lines``: the program reads the text while it executes it.
    """
    if not text.taint & Taint.FED:
        return text
    for name, entry in it.found.fed.items() if by_lines or is_late(it) else ():
        for one in (name, real(it, name)):
            _runs(it, one, entry)
    return text._replace(taint=text.taint & ~Taint.FED)


def last(it: Walker, name: str, taint: Taint) -> None:
    """Record the taints of a file that matter to later calls."""
    if (lasting := taint & _LASTING) and name[:1] == "/" and (HOLE not in name or lasting & ~(Taint.WRITTEN | OF_JOBS)):
        it.found.tainted[name] = it.found.tainted.get(name, Taint.NONE) | lasting


def lost(it: Walker, text: Value) -> Value:
    """Record a text that the line reads part by part, if the parts are not followed. Return an unknown text in its place."""
    if text.text.strip(f"{HOLE} \n"):
        it.found.lists[text.text] = None
    return unknown(text.taint | Taint.FOUND)


def mark(it: Walker, state: State, path: str, taint: Taint) -> None:
    """Record that a file gets unknown content with ``taint``."""
    write(it, state, Value(path), unknown(taint), append=False)


def seen_by_code(it: Walker, state: State, path: str) -> Seen:
    """Return what code in another language finds at ``path``."""
    if path == "-":
        given = state.stdin
        return Seen("file", given.text, given.taint) if given is not None and given.known else Seen("unreadable")
    names = absolute(it, state, path)
    for name in names:
        if state.files and entry_of(it, state, name) is not None:
            found = content(it, state, Value(name))
            if found is None:
                return Seen("missing")
            return Seen("file", found.text, found.taint) if found.known else Seen("unreadable", None, found.taint)
    if len(names) != 1 or not names[0].startswith("/"):
        return Seen("unreadable")
    if is_secret(names[0]):
        return Seen("unreadable", None, Taint.SECRET)
    it.found.read[names[0]] = None
    seen = it.snapshot.inspect_path(names[0])
    taint = seen.taint & ~(Taint.WRITTEN | OF_JOBS) | (fed(it, state, names[0]) if seen.kind != "missing" else Taint.NONE)
    return seen._replace(taint=taint) if taint != seen.taint else seen
