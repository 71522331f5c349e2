"""Words that name keys: copies of keys that the session made, and links to keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.judge.meaning import filestate, journal
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.state import knows_origins
from tools.judge.meaning.value import Taint, Value, names, tainted
from tools.judge.meaning.walk import Walker

_LEADS = (journal.LINK, journal.DISK)


def marked(it: Walker, state: State, argv: Sequence[Value]) -> Sequence[Value]:
    """Return the words. A word that names a copy of a key or a link to one (``x``, ``@x``, ``f=@x``) gets the taint SECRET."""
    has_origins = knows_origins(it.snapshot)
    if not state.files and not has_origins:
        return argv
    sends = argv[0].text.rpartition("/")[2] in _SENDERS
    if not sends and not has_origins and _are_keyless(it, state.files):
        return argv
    return [_marked(it, state, value, sends) for value in argv]


_SENDERS = names("curl curlie wget http https xh xhs httpie aria2c scp rsync sftp ftp lftp socat croc rclone gist mail mutt")


def _are_keyless(it: Walker, files: Mapping[str, Value]) -> bool:
    """Return whether none of the line's files holds a key. Cached, because command after command asks about the same files."""
    if it.keyless is not files:
        for entry in files.values():
            if entry.taint & Taint.SECRET or (entry.shown in _LEADS and filestate.is_secret(entry.text)):
                return False
        it.keyless = files
    return True


def _is_key(entry: Value | None) -> bool:
    if entry is None:
        return False
    return bool(entry.taint & Taint.SECRET) or (entry.shown in _LEADS and filestate.is_secret(entry.text))


def _marked(it: Walker, state: State, value: Value, sends: bool) -> Value:
    text = value.text
    named = (text, text.rpartition("@")[2], text.rpartition("=")[2]) if "@" in text or "=" in text else (text,)
    for one in named:
        paths = filestate.absolute(it, state, one) if one and one[:1] != "-" else ()
        if any(_is_key(state.files.get(path)) or filestate.origin(it, path) & Taint.SECRET for path in paths):
            return tainted(value, Taint.SECRET)
        if sends and any(path[:1] == "/" and _leads_to_key(it, path) for path in paths):
            return tainted(value, Taint.SECRET)
    return value


def _leads_to_key(it: Walker, path: str) -> bool:
    there = filestate.real(it, path)
    return there != path and filestate.is_secret(there)
