"""Contents that programs write into files, if later commands may run or send them."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import changes, filestate, journal, tables
from tools.judge.meaning.changes import operands, options
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.state import knows_moves
from tools.judge.meaning.value import EMPTY, HOLE, Taint, Value, names, tainted, unknown
from tools.judge.meaning.walk import Walker
from tools.judge.options import read

Values = Sequence[Value]

_DOWNLOADERS = frozenset({"curl", "wget", "aria2c", "axel", "http", "fetch"})
_REMOTE_NAME = Regex(r"-[a-zA-Z#]*O[a-zA-Z#]*|--remote-name(-all)?")
_CURL_VALUED = names(
    "-H -d -X -u -A -e -b -c -F -T -m -w -x -E -K -r -C -y -Y -z -D --header --data --request --user --output "
    "--data-binary --user-agent --referer --cookie --form --max-time --write-out --proxy --cert --retry "
    "--connect-timeout --data-raw --cacert -O- -t -P -i -Q --tries --timeout --directory-prefix --post-data"
)


def apply(it: Walker, state: State, name: str, argv: Values) -> None:
    for table in (tables.EFFECTS, tables.CHANGES):
        handler = table.rows.get(name)
        if handler is not None:
            handler(it, state, argv)


def _download(it: Walker, state: State, argv: Values) -> None:
    name = argv[0].text.rpartition("/")[2]
    urls = operands(argv, _CURL_VALUED | {"-o", "-O"} if name == "wget" else _CURL_VALUED | {"-o"})
    wget = name in ("wget", "aria2c")
    outs = options(argv, "O" if name == "wget" else "o", "--output", "--output-document", "--out")
    named = wget and not outs
    named = named or (
        any(re.fullmatch(r"-[a-zA-Z#]*O[a-zA-Z#]*|--remote-name(-all)?", value.text) for value in argv[1:]) and not wget
    )
    folder = options(argv, "P", "--directory-prefix", "--output-dir")
    for out in outs:
        if out.text != "-":
            filestate.write(it, state, out, unknown(Taint.REMOTE), append=False)
    if named:
        for url in urls or [unknown()]:
            last = url.text.split("?")[0].rstrip("/").rpartition("/")[2] or HOLE
            base = folder[-1].text + "/" if folder else ""
            filestate.mark(it, state, base + last, Taint.REMOTE)


def _tee(it: Walker, state: State, argv: Values) -> None:
    append = any(value.text in ("-a", "--append") for value in argv[1:])
    content = state.stdin if state.stdin is not None else unknown()
    for path in operands(argv):
        filestate.write(it, state, path, content, append=append)


_COPY_VALUED = names("-t -m -o -g -S --mode --owner --group --suffix --target-directory")


def _copy(it: Walker, state: State, argv: Values) -> None:
    """Record the effects of cp, install, ln and mv."""
    words = [value.text for value in argv[1:]]
    given = operands(argv, _COPY_VALUED)
    into = options(argv, "t", "--target-directory")
    if not into and len(given) == 1 and argv[0].text.endswith("ln"):
        into = [Value(".")]
    if not given or (len(given) < 2 and not into):
        return
    sources, target = (given, into[0]) if into else (given[:-1], given[-1])
    kind = _kind_of(argv[0].text, words)
    exact = any(map(_EXACT.fullmatch, words))
    for source in sources:
        if kind == "move":
            it.found.gone.update(dict.fromkeys(filestate.absolute(it, state, source.text)))
        last = source.text.rstrip("/").rpartition("/")[2]
        below = f"{target.text.rstrip('/')}/{last}"
        paths = (
            (below,)
            if into or target.text.endswith("/") or (not exact and _is_folder(it, state, target.text))
            else (target.text, below)
        )
        if last[:1] == "." and (source.pattern or last == "."):  # all of its files, including hidden ones
            it.found.unsure.update(dict.fromkeys(filestate.absolute(it, state, target.text)))
        sure = all(_SURE.fullmatch(word) for word in words if word[:1] == "-")
        for path in paths:
            for name, places in _from_to(it, state, source.text, path):
                if kind not in ("link", "hard link"):
                    it.found.arrived[name] = None
                for place in places:
                    _placed(it, state, kind, source, place, name)
                if not sure:
                    changes.mark(it, state, Value(name), argv[0].text)  # an option may make the program keep an existing file


def _from_to(it: Walker, state: State, source: str, target: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each possible path of the target, with the matching paths of the source: both start in the same folder."""
    places, found = filestate.absolute(it, state, source), filestate.absolute(it, state, target)
    if len(places) == len(found) == len(state.cwds):
        yield from ((name, (place,)) for name, place in zip(found, places, strict=True))
    else:
        yield from ((name, places) for name in found)


_EXACT = Regex(r"-[a-zA-Z]*[nT].*|--no-(?:t|d).*")
"""Options that let ln, cp and mv replace the target itself, even if it is a folder or leads to one."""
_SURE = Regex(
    r"-(?:[abdflpRrsTvDHLPZ]*(?:[mogSt].*)?|-(?:archive|force|recursive|verbose|preserve|symbolic|relative|mode|owner|group"
    r"|target-directory|no-target-directory|no-dereference|dereference|symbolic-link|link|backup|parents)(?:=.*)?)"
)
"""Options that do not keep cp, mv, ln and install from putting the file in its place."""


def _removed(it: Walker, state: State, argv: Values) -> None:
    for path in operands(argv):
        it.found.gone.update(dict.fromkeys(filestate.absolute(it, state, path.text)))


def _kind_of(program: str, words: Sequence[str]) -> str:
    name = program.rpartition("/")[2]
    letters = {letter for word in words if word[:1] == "-" and word[:2] != "--" for letter in word[1:]}
    if name.endswith("ln") or (name.endswith("cp") and ("s" in letters or "l" in letters or "--symbolic-link" in words)):
        return "link" if name.endswith("cp") or "s" in letters or "--symbolic" in words else "hard link"
    if name.endswith("mv"):
        return "move"
    keeps = letters & set("aPdrR") or {"--archive", "--no-dereference", "--recursive"} & set(words)
    return "copy with links" if keeps and name.endswith("cp") else "copy"


def _is_folder(it: Walker, state: State, path: str) -> bool:
    return all(_is_certain_folder(it, state, one) for one in filestate.absolute(it, state, path))


def _is_certain_folder(it: Walker, state: State, path: str) -> bool:
    if path[:1] != "/" or HOLE in path or path in state.files:
        return False
    at = len(path) if it.found.gone else 0
    while at > 0:
        if path[:at] in it.found.gone:
            return False
        at = path.rfind("/", 0, at)
    kind = it.snapshot.inspect_path(path).kind
    return kind == "dir" or (kind == "missing" and path in it.found.folders)


def _folder_made(it: Walker, state: State, argv: Values) -> None:
    for path in operands(argv, names("-m --mode")):
        it.found.folders.update(dict.fromkeys(filestate.absolute(it, state, path.text)))


def _placed(it: Walker, state: State, kind: str, source: Value, place: str, name: str) -> None:
    """Record that the file ``name`` is now the file ``place``, or a link to it."""
    if kind == "move" and knows_moves(it.snapshot) and not it.snapshot.is_inside(place):
        filestate.last(it, name, Taint.BROUGHT)
    if it.context.background and kind != "copy":
        for path in (name, journal.inside(name)):
            filestate.last(it, path, Taint.LATER)
            filestate.in_use(it, path, Taint.CHANGING)
    if kind in ("link", "hard link"):
        soft = kind == "link" and not source.text.startswith(("/", "~"))
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), source.text)) if soft else place
        _linked(it, state, name, there)
        return
    entry = state.files.get(place)
    there = filestate.real(it, place)
    if kind != "copy" and entry is not None and entry.shown == journal.LINK:
        _linked(it, state, name, entry.text)
    elif kind != "copy" and entry is None and there != place:
        _linked(it, state, name, there)
    else:
        _copied(it, state, source, place, name, whole=kind == "move" or "links" in kind)


def _linked(it: Walker, state: State, name: str, there: str) -> None:
    if name != there:
        state.write(name, journal.link_to(there))
        it.found.links[name, there] = None
        if filestate.is_secret(there):
            filestate.last(it, name, Taint.SECRET)  # a later call cannot see a hard link's target


def _copied(it: Walker, state: State, source: Value, place: str, name: str, *, whole: bool) -> None:
    content = filestate.content(it, state, source if place[:1] != "/" else source._replace(text=place))
    entry = filestate.entry_of(it, state, place) if state.files else None
    if content is None and entry is None and not (filestate.is_program(place) or journal.holds(state.files, place)):
        return  # there is no file; in a folder of programs there may be one that the snapshot does not show
    taint = content.taint if content is not None else Taint.NONE
    it.found.copies[name] = place
    filestate.last(it, name, taint)
    if entry is None and content is not None and content.known:
        filestate.put(it, state, name, content._replace(shown=""))
    elif whole:
        state.files = journal.placed(state.files, place, name, taint)
        _carried(it, state, place, name)
    else:
        filestate.put(it, state, name, entry or journal.on_disk(place, taint))


def _carried(it: Walker, state: State, place: str, name: str) -> None:
    """Record the links that were copied with a folder."""
    it.found.links[name, place] = None
    for key, one in state.files.items():
        if one.shown == journal.LINK and key.startswith(f"{name}/"):
            it.found.links[key, one.text] = None


def _remote_copy(it: Walker, state: State, argv: Values) -> None:
    given = operands(argv, frozenset({"-P", "-i", "-o", "-e", "-F", "-l", "-c"}))
    if len(given) < 2:
        return
    *sources, target = given
    listed = any(value.text.startswith(("--files-from", "--recursive", "--archive")) for value in argv[1:])
    if ":" not in target.text.partition("/")[0] and (listed or any(one.text.endswith(("/", "/.")) for one in sources)):
        it.found.unsure.update(dict.fromkeys(filestate.absolute(it, state, target.text)))  # includes hidden files
    for source in sources:
        if ":" in source.text.partition("/")[0]:
            last = source.text.rpartition("/")[2].rpartition(":")[2]
            for path in (target.text, f"{target.text.rstrip('/')}/{last}"):
                filestate.mark(it, state, path, Taint.REMOTE)
        elif ":" not in target.text.partition("/")[0]:
            last = source.text.rstrip("/").rpartition("/")[2]
            for path in (target.text, f"{target.text.rstrip('/')}/{last}"):
                for name, places in _from_to(it, state, source.text, path):
                    for place in places:
                        _placed(it, state, "copy", source, place, name)


def _dd(it: Walker, state: State, argv: Values) -> None:
    source: Value | None = state.stdin
    for value in argv[1:]:
        if value.text.startswith("if="):
            source = filestate.content(it, state, value._replace(text=value.text[3:]))
    for value in argv[1:]:
        if value.text.startswith("of="):
            content = source if source is not None else unknown()
            filestate.write(it, state, value._replace(text=value.text[3:]), content, append=False)


def _decoded(it: Walker, state: State, argv: Values) -> None:
    for path in options(argv, "o", "--output", "-out"):
        filestate.write(it, state, path, unknown(Taint.DECODED), append=False)


def _unpacked(it: Walker, state: State, argv: Values) -> None:
    """Record that ``gunzip x.gz`` leaves x."""
    for path in operands(argv):
        name, dot, _ = path.text.rpartition(".")
        if dot:
            content = filestate.content(it, state, path)
            if content is not None:
                filestate.write(it, state, Value(name), tainted(unknown(content.taint), Taint.DECODED), append=False)


def _pipe_made(it: Walker, state: State, argv: Values) -> None:
    """Mark a FIFO: its readers get text that others will write into it."""
    for path in operands(argv, frozenset({"-m", "--mode"})):
        filestate.mark(it, state, path.text, Taint.LOCAL)


def _package_set(it: Walker, state: State, argv: Values) -> None:
    """Record the effects of ``npm pkg set scripts.test=...``."""
    words = [value.text for value in argv[1:] if value.text[:1] != "-"]
    if words[:2] not in (["pkg", "set"], ["set-script"]):
        return
    before = filestate.content(it, state, Value("package.json"))
    try:
        data = json.loads(before.text) if before is not None else {}
        for word in words[2:]:
            *above, last = word.partition("=")[0].split(".")
            at = data
            for key in above:
                at = at.setdefault(key, {})
            at[last] = word.partition("=")[2]
    except (ValueError, AttributeError, TypeError):
        changes.mark(it, state, Value("package.json"), "npm pkg")
        return
    taint = before.taint if before is not None else Taint.NONE
    filestate.write(it, state, Value("package.json"), Value(json.dumps(data), taint), append=False)


_IN_PLACE = Regex(r"-[nErsuz]*i.*|--in-place.*")


def _edited(it: Walker, state: State, argv: Values) -> None:
    """Record the effects of ``sed -i``. After a simple script the file's text is known."""
    if not any(_IN_PLACE.fullmatch(value.text) for value in argv[1:]):
        return
    scripted = any(value.text in ("-e", "-f", "--expression", "--file") for value in argv[1:])
    given = operands(argv, names("-e -f -l --expression --file --line-length"))
    for path in given if scripted else given[1:]:
        before = filestate.content(it, state, path)
        if before is None:
            continue
        words = [value.text for value in argv[1:] if value is not path and not _IN_PLACE.fullmatch(value.text)]
        plain = [word for word in words if word not in {value.text for value in given[1:]}] if not scripted else []
        after = (
            tables.FILTERS.rows["sed"](plain, [], before)
            if before.known and plain and all(value.known for value in argv)
            else None
        )
        if after is not None:
            filestate.write(it, state, path, after, append=False)
        else:
            changes.mark(it, state, path, "sed", before.taint & ~Taint.UNKNOWN)


def _touched(it: Walker, state: State, argv: Values) -> None:
    """Record an empty file whose name begins with a dash: a later pattern that matches the name makes it an option."""
    for at in read([value.text for value in argv], "touch").operands:
        value = argv[at]
        if value.known and posixpath.basename(value.text)[:1] == "-":
            filestate.write(it, state, value, EMPTY, append=True)
            for name in filestate.absolute(it, state, value.text):
                filestate.last(it, name, Taint.WRITTEN)


EFFECTS = {
    **dict.fromkeys(_DOWNLOADERS, _download),
    "tee": _tee,
    "sponge": _tee,
    **dict.fromkeys(("cp", "mv", "ln", "install", "gcp", "gmv", "gln", "ginstall", "link", "symlink"), _copy),
    "scp": _remote_copy,
    "rsync": _remote_copy,
    "sftp": _remote_copy,
    **dict.fromkeys(("rm", "unlink", "rmdir"), _removed),
    "mkdir": _folder_made,
    "touch": _touched,
    "dd": _dd,
    "openssl": _decoded,
    "gpg": _decoded,
    "age": _decoded,
    "gunzip": _unpacked,
    "unxz": _unpacked,
    "npm": _package_set,
    "mkfifo": _pipe_made,
    "mknod": _pipe_made,
    "sed": _edited,
    "gsed": _edited,
}
