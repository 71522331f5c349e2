"""Programs that make archives or copy in other ways. Their results keep the taint of the sources.

Without this taint, a copy of a program would count as a new program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, journal
from tools.judge.meaning.changes import operands, options
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Taint, Value, names, unknown
from tools.judge.meaning.walk import Walker

Values = Sequence[Value]

_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/")
_MAKES = Regex(r"-?[a-zA-Z]*[cru][a-zA-Z]*|--(?:create|append|update)")
_LISTED = names("cpio pax")
_TO_OUTPUT = names("tar gtar bsdtar cpio pax")
"""Packers that write to standard output if no file is named."""


def origin_of(it: Walker, state: State, argv: Values) -> Taint:
    """Return the taint of the packed files: SECRET and PROGRAM, as far as the words and the list on standard input are known."""
    folders = [value.text for value in options(argv, "C", "--directory", "--cd")]
    texts = [value.text for value in operands(argv)]
    if argv[0].text.rpartition("/")[2] in _LISTED and state.stdin is not None and state.stdin.known:
        texts += state.stdin.text.split()
    taint = Taint.NONE
    for text in (*texts, *(f"{folder}/{text}" for folder in folders for text in texts)):
        for path in filestate.absolute(it, state, text):
            taint |= Taint.SECRET if filestate.is_secret(path) else Taint.NONE
            taint |= Taint.PROGRAM if _is_of_system(it, path) else filestate.origin(it, path) & Taint.PROGRAM
    return taint


def _is_of_system(it: Walker, path: str) -> bool:
    there = filestate.real(it, path) if path[:1] == "/" else path
    if not path.startswith(_SYSTEM) and (there is path or not there.startswith(_SYSTEM)):
        return False
    return any(one.startswith(_SYSTEM) and filestate.is_program(name) for one in (path, there) for name in (one, f"{one}/x"))


def to_output(it: Walker, state: State, name: str, argv: Values) -> Taint:
    """Return the taint of an archive that a packer writes to its output."""
    return origin_of(it, state, argv) & Taint.PROGRAM if name in _TO_OUTPUT else Taint.NONE


def _mark(it: Walker, state: State, archive: Value, argv: Values) -> None:
    """Mark an archive of secrets as a secret, and one of programs as a program."""
    if taint := origin_of(it, state, argv):
        filestate.mark(it, state, archive.text, taint)


def _archived(it: Walker, state: State, argv: Values) -> None:
    words = [value.text for value in argv[1:]]
    if words and _MAKES.match(words[0]):
        bundled = argv[2:3] if words[0][:1] != "-" and "f" in words[0] else ()
        for archive in bundled or options(argv, "f", "--file"):
            if archive.text != "-":
                _mark(it, state, archive, argv)


def _passed(it: Walker, state: State, argv: Values) -> None:
    """Mark the folder of ``cpio -pd FOLDER`` and ``pax -rw FILES FOLDER``, if programs may be copied to it."""
    given = operands(argv)
    taint = origin_of(it, state, argv) & Taint.PROGRAM
    for folder in filestate.absolute(it, state, given[-1].text) if given and taint else ():
        filestate.last(it, journal.inside(folder), taint)


def _first(it: Walker, state: State, argv: Values) -> None:
    """Mark the archive of ``zip ARCHIVE FILES``."""
    for archive in operands(argv)[:1]:
        _mark(it, state, archive, argv)


def _second(it: Walker, state: State, argv: Values) -> None:
    """Mark the archive of ``ar q ARCHIVE FILES`` and ``7z a ARCHIVE FILES``."""
    given = operands(argv)
    if len(given) > 1 and not re.fullmatch(r"-?[xetlp]\w*", given[0].text):
        _mark(it, state, given[1], argv)


def _by_module(it: Walker, state: State, argv: Values) -> None:
    """Mark the archive of ``python -m zipfile -c ARCHIVE FILES``."""
    if [value.text for value in argv[1:4]] in [
        ["-m", name, option] for name in ("zipfile", "tarfile") for option in ("-c", "--create")
    ]:
        for archive in argv[4:5]:
            _mark(it, state, archive, argv)


_ENDS = Regex(r"(?:open|create|file|gopen):([^,!]+)|(/[^,:!]+)", re.IGNORECASE)


def _joined_ends(it: Walker, state: State, argv: Values) -> None:
    """Record the copies that socat makes: ``socat OPEN:/bin/rm CREATE:tidy``."""
    ends = [match[1] or match[2] for value in argv[1:] if (match := _ENDS.match(value.text)) is not None]
    for source in ends:
        content = filestate.content(it, state, Value(source))
        taint = content.taint if content is not None else Taint.NONE
        taint |= Taint.PROGRAM if any(_is_of_system(it, path) for path in filestate.absolute(it, state, source)) else Taint.NONE
        for target in ends:
            if target != source and not target.startswith(_SYSTEM):
                filestate.write(it, state, Value(target), unknown(taint | Taint.LOCAL), append=False)


EFFECTS = {
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _archived),
    **dict.fromkeys(_LISTED, _passed),
    "zip": _first,
    **dict.fromkeys(("python", "python3"), _by_module),
    **dict.fromkeys(("ar", "7z", "7za", "7zr", "7zz"), _second),
    "socat": _joined_ends,
}
