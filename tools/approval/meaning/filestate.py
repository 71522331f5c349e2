"""Files as a script sees them: those it wrote itself, then the snapshot."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from toolcrib._regex import Regex
from tools.approval.meaning import mounts
from tools.approval.meaning.shellstate import State
from tools.approval.meaning.value import EMPTY, HOLE, Taint, Value, either, joined, tainted, unknown

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter

_SECRET = Regex(
    r"/\.ssh/(?!known_hosts|config$|authorized_keys|environment|rc$)[^/]*(?<!\.pub)$|/\.env(?:\.(?!example|sample|template|dist)\w+)?$"
    r"|/\.aws(?:/credentials)?/?$|/\.netrc$|/\.pgpass$|/\.git-credentials$|/\.docker/config\.json$|/\.kube/config$|/\.gnupg(?:/|$)"
    r"|^/etc/(?:shadow|gshadow)|\.(?:pem|p12|pfx|kdbx|keystore|jks)$|/id_(?:rsa|dsa|ecdsa|ed25519)$|/\.npmrc$|/\.pypirc$"
    r"|^/proc/(?:self|\d+)/environ$|/\.config/(?:gcloud|gh)(?:/|$)|/\.azure(?:/|$)|/\.toolcrib/\.env|/\.ssh/?$|/\.password-store(?:/|$)|/\.my\.cnf$"
    r"|(?:^|/)(?:private|server|secret)[\w-]*\.key$|/credentials\.json$|/\.(?:bash|zsh|psql|mysql|python)_history$|/\.mozilla/"
)
_OPEN = Regex(r"/(?:dev|proc/self)/fd/(\d+)")
_NET = ("/dev/tcp/", "/dev/udp/")


def absolute(it: Interpreter, state: State, text: str) -> list[str]:
    """The absolute paths that it may be; it alone, as written, where the folder is not known."""
    if re.match(r"~(?:/|$)", text):
        text = (it.now.home or "~") + text[1:]
    if not state.cwds or text.startswith(("/", "~", HOLE)):
        return [posixpath.normpath(text) if text else ""]
    return [posixpath.normpath(f"{cwd}/{text}") for cwd in state.cwds]


def is_secret(path: str) -> bool:
    return _SECRET.search(path if path.startswith("/") else f"/{path}") is not None


def content(it: Interpreter, state: State, path: Value) -> Value | None:
    """Return the text that a read of ``path`` gives; None where there is certainly no such file."""
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


def _one(it: Interpreter, state: State, name: str) -> Value | None:
    known = state.files.get(name)
    if known is not None:
        return known
    if is_secret(name):
        return unknown(Taint.SECRET | Taint.LOCAL)
    if HOLE in name or not name.startswith("/"):
        return unknown(Taint.LOCAL)
    if it.context.mounts:
        outside = mounts.named(it.context.mounts, Value(name))
        if not outside:
            return None
        name = outside[0]
    seen = it.snapshot.look(name)
    if seen.kind == "missing":
        return _unpacked(state, name)
    it.read[name] = None
    if seen.text is not None:
        it.spend(len(seen.text))
        return Value(seen.text, seen.taint)
    return unknown(Taint.LOCAL | seen.taint)


def inside(folder: str) -> str:
    """Under what ``state.files`` keeps what stands for all that was unpacked into ``folder``."""
    return f"{folder.rstrip('/')}/**"


def _unpacked(state: State, name: str) -> Value | None:
    for folder, known in state.files.items():
        if folder.endswith("/**") and name.startswith(folder[:-2]):
            return known
    return None


def write(it: Interpreter, state: State, path: Value, value: Value, *, append: bool) -> None:
    text = path.text
    if open_one := _OPEN.fullmatch(text):
        behind = state.fds.get(f"{open_one[1]}>")
        if behind is not None:
            write(it, state, behind, value, append=True)
        return
    if text.startswith("/dev/"):
        return
    for name in absolute(it, state, text):
        old = None
        spared = not append and "noclobber" in state.options  # what is there stays, but for `>|`
        if append or spared:
            old = state.files.get(name)
            if old is None and name.startswith("/") and HOLE not in name and not is_secret(name):
                seen = it.snapshot.look(name)
                if seen.kind != "missing":
                    it.read[name] = None
                    old = Value(seen.text, seen.taint) if seen.text is not None else unknown(Taint.LOCAL | seen.taint)
        new = value if old is None else either(old, value) if spared else joined([old, value])
        if len(state.cwds) > 1 and name in state.files:
            new = either(state.files[name], new)
        state.write(name, new._replace(shown=""))
        if lasting := new.taint & (Taint.REMOTE | Taint.DECODED):
            it.tainted[name] = it.tainted.get(name, Taint.NONE) | lasting


def marked(it: Interpreter, state: State, argv: Sequence[Value]) -> Sequence[Value]:
    """``@x`` and ``f=@x`` carry what the line has put into the file x: a copied key is a key."""
    secret = {path for path, value in state.files.items() if value.taint & Taint.SECRET}
    return [_marked(it, state, value, secret) for value in argv] if secret else argv


def _marked(it: Interpreter, state: State, value: Value, secret: Set[str]) -> Value:
    text = value.text
    named = (text, text.rpartition("@")[2], text.rpartition("=")[2]) if "@" in text or "=" in text else (text,)
    for one in named:
        if one and not secret.isdisjoint(absolute(it, state, one)):
            return tainted(value, Taint.SECRET)
    return value


def mark(it: Interpreter, state: State, path: str, taint: Taint) -> None:
    """A file gets unknown content of a kind."""
    write(it, state, Value(path), unknown(taint), append=False)
