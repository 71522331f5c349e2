"""Contents that programs write into files, as far as later commands may run or send them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib._regex import Regex
from tools.approval.meaning import filestate
from tools.approval.meaning.shellstate import State
from tools.approval.meaning.value import HOLE, Taint, Value, names, tainted, unknown

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter

Values = Sequence[Value]

_DOWNLOADERS = frozenset({"curl", "wget", "aria2c", "axel", "http", "fetch"})
_REMOTE_NAME = Regex(r"-[a-zA-Z#]*O[a-zA-Z#]*|--remote-name(-all)?")
_PROGRAM = Regex(r"^(?:/usr(?:/local)?)?/s?bin/[^/]+$")
_CURL_VALUED = names(
    "-H -d -X -u -A -e -b -c -F -T -m -w -x -E -K -r -C -y -Y -z -D --header --data --request --user --output "
    "--data-binary --user-agent --referer --cookie --form --max-time --write-out --proxy --cert --retry "
    "--connect-timeout --data-raw --cacert -O- -t -P -i -Q --tries --timeout --directory-prefix --post-data"
)


def apply(it: Interpreter, state: State, name: str, argv: Values) -> None:
    handler = _TABLE.get(name)
    if handler is not None:
        handler(it, state, argv)


def _operands(argv: Values, valued: frozenset[str] = frozenset()) -> list[Value]:
    found: list[Value] = []
    skip = False
    for value in argv[1:]:
        if skip:
            skip = False
        elif value.text[:1] == "-" and len(value.text) > 1:
            skip = value.text in valued
        else:
            found.append(value)
    return found


def _option(argv: Values, short: str, *longs: str) -> list[Value]:
    """The values of an option, however it is written: ``-o x``, ``-ox``, ``-sSLo x``, ``--output=x``."""
    found: list[Value] = []
    cluster = re.compile(rf"-[a-zA-Z#]*{short}(.*)", re.DOTALL) if short else None
    for at, value in enumerate(argv[1:], start=1):
        text = value.text
        following = argv[at + 1] if at + 1 < len(argv) else None
        for name in longs:
            if text == name and following is not None:
                found.append(following)
            elif text.startswith(f"{name}="):
                found.append(value._replace(text=text[len(name) + 1 :]))
        if cluster is not None and not text.startswith("--") and (match := cluster.fullmatch(text)) is not None:
            if match[1]:
                found.append(value._replace(text=match[1].lstrip("=")))
            elif following is not None:
                found.append(following)
    return found


def _download(it: Interpreter, state: State, argv: Values) -> None:
    name = argv[0].text.rpartition("/")[2]
    urls = _operands(argv, _CURL_VALUED | {"-o", "-O"} if name == "wget" else _CURL_VALUED | {"-o"})
    wget = name in ("wget", "aria2c")
    outs = _option(argv, "O" if name == "wget" else "o", "--output", "--output-document", "--out")
    named = wget and not outs
    named = named or (
        any(re.fullmatch(r"-[a-zA-Z#]*O[a-zA-Z#]*|--remote-name(-all)?", value.text) for value in argv[1:]) and not wget
    )
    folder = _option(argv, "P", "--directory-prefix", "--output-dir")
    for out in outs:
        if out.text != "-":
            filestate.write(it, state, out, unknown(Taint.REMOTE), append=False)
    if named:
        for url in urls or [unknown()]:
            last = url.text.split("?")[0].rstrip("/").rpartition("/")[2] or HOLE
            base = folder[-1].text + "/" if folder else ""
            filestate.mark(it, state, base + last, Taint.REMOTE)


def _tee(it: Interpreter, state: State, argv: Values) -> None:
    append = any(value.text in ("-a", "--append") for value in argv[1:])
    content = state.stdin if state.stdin is not None else unknown()
    for path in _operands(argv):
        filestate.write(it, state, path, content, append=append)


def _copy(it: Interpreter, state: State, argv: Values) -> None:
    given = _operands(argv, frozenset({"-t", "-m", "-o", "-g", "-S", "--mode", "--owner", "--group"}))
    folder = _option(argv, "t", "--target-directory")
    if folder:
        given = [*given, folder[0]]
    if len(given) < 2:
        return
    *sources, target = given
    for source in sources:
        content = filestate.content(it, state, source)
        last = source.text.rstrip("/").rpartition("/")[2]
        for path in (target.text, f"{target.text.rstrip('/')}/{last}"):
            if content is not None:
                filestate.write(it, state, Value(path, target.taint), content, append=False)
            if _PROGRAM.match(posixpath.normpath(source.text)):
                for name in filestate.absolute(it, state, path):
                    state.hashed = {**state.hashed, name: source}


def _remote_copy(it: Interpreter, state: State, argv: Values) -> None:
    given = _operands(argv, frozenset({"-P", "-i", "-o", "-e", "-F", "-l", "-c"}))
    if len(given) < 2:
        return
    *sources, target = given
    for source in sources:
        if ":" in source.text.partition("/")[0]:
            last = source.text.rpartition("/")[2].rpartition(":")[2]
            for path in (target.text, f"{target.text.rstrip('/')}/{last}"):
                filestate.mark(it, state, path, Taint.REMOTE)


def _dd(it: Interpreter, state: State, argv: Values) -> None:
    source: Value | None = state.stdin
    for value in argv[1:]:
        if value.text.startswith("if="):
            source = filestate.content(it, state, value._replace(text=value.text[3:]))
    for value in argv[1:]:
        if value.text.startswith("of="):
            content = source if source is not None else unknown()
            filestate.write(it, state, value._replace(text=value.text[3:]), content, append=False)


def _decoded(it: Interpreter, state: State, argv: Values) -> None:
    for path in _option(argv, "o", "--output", "-out"):
        filestate.write(it, state, path, unknown(Taint.DECODED), append=False)


def _unpacked(it: Interpreter, state: State, argv: Values) -> None:
    """``gunzip x.gz`` leaves x."""
    for path in _operands(argv):
        name, dot, _ = path.text.rpartition(".")
        if dot:
            content = filestate.content(it, state, path)
            if content is not None:
                filestate.write(it, state, Value(name), tainted(unknown(content.taint), Taint.DECODED), append=False)


def _extracted(it: Interpreter, state: State, argv: Values) -> None:
    """``curl x | tar xz -C /tmp``: what lies there from then on may be what was downloaded."""
    words = [value.text for value in argv[1:]]
    if argv[0].text[-3:] == "tar" and words and re.match(r"-?[a-zA-Z]*[cru]|--(?:create|append|update)", words[0]):
        for archive in _option(argv, "f", "--file") or argv[2:3]:
            _packed(it, state, archive, argv)
    zipped = argv[0].text.endswith("unzip")
    if not words or (not zipped and not (re.match(r"-?[a-zA-Z]*x", words[0]) or "--extract" in words)):
        return
    packed = _operands(argv)[:1] if zipped else _option(argv, "f", "--file")
    if not packed and not zipped and words[0][:1] != "-" and "f" in words[0]:
        packed = list(argv[2:3])
    content = filestate.content(it, state, packed[0]) if packed else state.stdin
    if content is None or not content.taint & Taint.REMOTE:
        return
    folders = _option(argv, "d") if zipped else _option(argv, "C", "--directory")
    for folder in filestate.absolute(it, state, folders[-1].text if folders else "."):
        state.write(filestate.inside(folder), unknown(Taint.REMOTE))


def _zipped(it: Interpreter, state: State, argv: Values) -> None:
    for archive in _operands(argv)[:1]:
        _packed(it, state, archive, argv)


def _packed(it: Interpreter, state: State, archive: Value, argv: Values) -> None:
    """An archive of secrets is one."""
    if any(filestate.is_secret(path) for one in argv[1:] for path in filestate.absolute(it, state, one.text)):
        filestate.mark(it, state, archive.text, Taint.SECRET)


def _pipe_made(it: Interpreter, state: State, argv: Values) -> None:
    """Mark a FIFO: its readers get text that others will have written into it."""
    for path in _operands(argv, frozenset({"-m", "--mode"})):
        filestate.mark(it, state, path.text, Taint.LOCAL)


def _edited(it: Interpreter, state: State, argv: Values) -> None:
    """``sed -i``: what was known of the file is not any more."""
    if not any(re.match(r"-[a-zA-Z]*i|--in-place", value.text) for value in argv[1:]):
        return
    for path in _operands(argv)[-1:]:
        for name in filestate.absolute(it, state, path.text):
            known = state.files.get(name)
            if known is not None:
                state.write(name, unknown(known.taint))


_TABLE = {
    **dict.fromkeys(_DOWNLOADERS, _download),
    "tee": _tee,
    "sponge": _tee,
    "cp": _copy,
    "mv": _copy,
    "ln": _copy,
    "install": _copy,
    "scp": _remote_copy,
    "rsync": _remote_copy,
    "sftp": _remote_copy,
    "dd": _dd,
    "openssl": _decoded,
    "gpg": _decoded,
    "age": _decoded,
    "gunzip": _unpacked,
    "unxz": _unpacked,
    **dict.fromkeys(("tar", "gtar", "bsdtar", "unzip"), _extracted),
    "zip": _zipped,
    "mkfifo": _pipe_made,
    "mknod": _pipe_made,
    "sed": _edited,
    "perl": _edited,
}
