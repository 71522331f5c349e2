"""Programs that change files in unknown ways: version control, patches, archives, editors."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from tools.judge.folders import above
from tools.judge.meaning import filestate, journal, tables
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, names
from tools.judge.meaning.walk import Walker
from tools.judge.options import path_of, read, values

Values = Sequence[Value]

_MOST_ABOVE = 12

# -- version control --------------------------------------------------------------------------------------------------

_GIT_VALUED = names("-C -c --git-dir --work-tree --namespace --exec-path --config-env")
_MERGES = names("pull merge rebase cherry-pick revert am rollback read-tree checkout-index bisect sparse-checkout lfs subtree")
_TREES = names("checkout switch restore stash apply reset submodule worktree")
_BRANCHES = names("-b -B -c -C --create --force-create --orphan")
_KEEPS = names("--check --stat --numstat --summary --cached --abort --quit --soft --mixed -N")
_STASH_KEEPS = names("list show drop clear create store")
_SUBMODULE_KEEPS = names("status summary sync init foreach")
_CLONE_VALUED = names(
    "-b --branch --depth -o --origin -c --config --reference --template -j --jobs --shallow-since --separate-git-dir -u"
)


def _git(it: Walker, state: State, argv: Values) -> None:
    at, folder = 1, "."
    while at < len(argv) and argv[at].text[:1] == "-":
        if argv[at].text in ("-C", "--work-tree") and at + 1 < len(argv):
            folder = posixpath.join(folder, argv[at + 1].text)
        at += 2 if argv[at].text in _GIT_VALUED else 1
    words = [value.text for value in argv[at:]]
    if not words:
        return
    maker = f"git {words[0]}"
    if words[0] == "clone":
        _made(it, state, _clone_target(words, _CLONE_VALUED), maker)
    elif words[:2] == ["worktree", "add"]:
        given = _plain(words[2:], names("-b -B --reason"))
        _made(it, state, given[0] if given else HOLE, maker)
    elif words[0] == "mv":
        moved = [one if one.text[:1] == "-" else one._replace(text=posixpath.join(folder, one.text)) for one in argv[at + 1 :]]
        tables.EFFECTS.rows["mv"](it, state, [Value("mv"), *moved])
    elif words[0] in ("mv", "rm") or words[:2] == ["bisect", "run"]:  # bisect runs its command in changed trees on purpose
        return
    elif words[0] in _MERGES or (words[0] in _TREES and _changes_tree(words)):
        for root in roots(it, state, folder):
            _fill(it, state, root, maker)
            for prefix in options(argv[at:], "", "--prefix") if words[0] == "checkout-index" else ():
                _fill(it, state, posixpath.normpath(posixpath.join(root, posixpath.dirname(prefix.text) or ".")), maker)


def _changes_tree(words: Sequence[str]) -> bool:
    name, rest = words[0], words[1:]
    if any(word in _KEEPS for word in rest) and name in ("apply", "reset", "checkout", "switch"):
        return False
    if name in ("checkout", "switch"):
        made = any(word in _BRANCHES for word in rest)
        return len(_plain(rest, _BRANCHES)) > 0 if made else bool(_plain(rest, frozenset())) or "-" in rest
    if name == "stash":
        return not (rest and rest[0] in _STASH_KEEPS)
    if name == "reset":
        return any(word in ("--hard", "--merge", "--keep") for word in rest)
    if name == "submodule":
        return not (rest and rest[0] in _SUBMODULE_KEEPS)
    return name in ("restore", "apply")


def _plain(words: Sequence[str], valued: frozenset[str]) -> list[str]:
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word[:1] == "-":
            skip = word in valued
        else:
            found.append(word)
    return found


def _clone_target(words: Sequence[str], valued: frozenset[str]) -> str:
    given = _plain(words[1:], valued)
    if len(given) > 1:
        return given[1]
    last = given[0].rstrip("/").removesuffix("/.git").rpartition("/")[2] if given else HOLE
    return last.rpartition(":")[2].removesuffix(".git") or HOLE


def _made(it: Walker, state: State, folder: str, maker: str) -> None:
    """Record a folder that is created or filled from elsewhere."""
    for path in filestate.absolute(it, state, folder):
        if HOLE in path:
            path = path.partition(HOLE)[0].rpartition("/")[0] or path
        _fill(it, state, path, maker)


def _fill(it: Walker, state: State, folder: str, maker: str, taint: Taint = Taint.NONE) -> None:
    state.files = journal.changed(state.files, folder, maker, taint)
    it.found.unsure[folder] = None
    made = Taint.WRITTEN if maker in _UNPACKERS else Taint.NONE
    filestate.last(it, journal.inside(folder), made | (taint & Taint.PROGRAM))
    if it.now.background:  # what a command leaves running would stop every later script
        filestate.in_use(it, journal.inside(folder), Taint.CHANGING)


def roots(it: Walker, state: State, folder: str) -> list[str]:
    """Return the working trees that a command in ``folder`` may change: the nearest parent with ``.git``, else ``folder``."""
    found: list[str] = []
    for start in filestate.absolute(it, state, folder):
        root = at = start
        for _ in range(_MOST_ABOVE):
            if at in ("", "/", it.now.home) or at[:1] != "/":
                break
            if it.snapshot.inspect_path(f"{at}/.git").kind != "missing":
                root = at
                break
            at = above(at)
        found.append(root)
    return found


def _hg(it: Walker, state: State, argv: Values) -> None:
    words = [value.text for value in argv[1:] if value.text[:1] != "-"]
    name = argv[0].text.rpartition("/")[2]
    if not words:
        return
    if words[0] in ("clone", "checkout", "co") and len(words) > 1:
        _made(it, state, _clone_target(words, frozenset()), f"{name} {words[0]}")
    elif words[0] in _HG_CHANGES:
        _made(it, state, ".", f"{name} {words[0]}")


_HG_CHANGES = names(
    "pull update up checkout co revert merge import rebase unshelve graft backout switch patch fetch transplant histedit"
)


def _forge(it: Walker, state: State, argv: Values) -> None:
    """Record the effects of ``gh repo clone``, ``gh pr checkout`` and ``glab mr checkout``."""
    words = [value.text for value in argv[1:] if value.text[:1] != "-"]
    if words[1:2] == ["clone"]:
        _made(it, state, _clone_target(words[1:], frozenset()), " ".join([argv[0].text, *words[:2]]))
    elif words[1:2] in (["checkout"], ["sync"], ["download"]):
        _made(it, state, ".", " ".join([argv[0].text, *words[:2]]))


# -- patches, archives, editors ---------------------------------------------------------------------------------------


def options(argv: Values, short: str, *longs: str) -> list[Value]:
    """Return the values of an option in any form: ``-o x``, ``-ox``, ``-sSLo x``, ``--output=x``, ``--out x``."""
    wanted = frozenset({*([f"-{short}"] if short else []), *longs})
    words = [value.text for value in argv]
    given = values(words, path_of(words[0].rpartition("/")[2]), wanted)
    return [
        argv[one.value_at]
        if one.value_at != one.at and argv[one.value_at].text == one.value
        else argv[one.value_at]._replace(text=(one.value or "").lstrip("="), shown="")
        for one in given
    ]


def operands(argv: Values, valued: frozenset[str] = frozenset()) -> list[Value]:
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


def mark(it: Walker, state: State, path: Value, maker: str, taint: Taint = Taint.NONE) -> None:
    """Record that ``maker`` changed a file. The file keeps the taint that it has."""
    for name in filestate.absolute(it, state, path.text):
        name = journal.through(state.files, name)
        it.found.arrived[name] = None
        before = journal.find(state.files, name) if state.files else None
        filestate.put(it, state, name, journal.changed_by(maker, taint | (before.taint if before is not None else Taint.NONE)))


def _patch(it: Walker, state: State, argv: Values) -> None:
    if any(value.text == "--dry-run" for value in argv[1:]):
        return
    folder = options(argv, "d", "--directory")
    _made(it, state, folder[-1].text if folder else ".", "patch")


_UNPACKERS = names("tar unzip 7z 7za unrar cpio pax ar")
_KEPT = Taint.REMOTE | Taint.PROGRAM
"""Taints of an archive that all files from it get."""


def _anywhere(it: Walker) -> None:
    """Record that the program unpacks to absolute paths, which only the archive names."""
    it.found.unsure["/"] = None


def _tar(it: Walker, state: State, argv: Values) -> None:
    given = {one.name for one in read(["tar", *(value.text for value in argv[1:])], "tar").options}
    if given.isdisjoint(("-x", "--extract", "--get")) or not given.isdisjoint(("-O", "--to-stdout")):
        return
    packed = options(argv, "f", "--file")
    source = filestate.content(it, state, packed[-1]) if packed and packed[-1].text != "-" else state.stdin
    taint = source.taint & _KEPT if source is not None else Taint.NONE
    extracted(it, state, options(argv, "C", "--directory", "--cd"), "tar", taint)
    if not given.isdisjoint(("-P", "--absolute-names", "--absolute-paths")):
        _anywhere(it)


def _unzip(it: Walker, state: State, argv: Values) -> None:
    if any(re.fullmatch(r"-[a-zA-Z]*[plvtZz][a-zA-Z]*", value.text) for value in argv[1:]):
        return
    given = operands(argv, names("-d -x -P"))
    source = filestate.content(it, state, given[0]) if given else None
    taint = source.taint & _KEPT if source is not None else Taint.NONE
    extracted(it, state, options(argv, "", "-d"), "unzip", taint)
    if any(re.fullmatch(r"-[a-zA-Z]*:[a-zA-Z:]*", value.text) for value in argv[1:]):
        _anywhere(it)


def _seven(it: Walker, state: State, argv: Values) -> None:
    if argv[1:] and argv[1].text in ("x", "e"):
        out = [value._replace(text=value.text[2:]) for value in argv[2:] if value.text.startswith("-o")]
        given = operands(argv)
        source = filestate.content(it, state, given[1]) if len(given) > 1 else None
        extracted(it, state, out, argv[0].text, source.taint & _KEPT if source is not None else Taint.NONE)
        if any(value.text.startswith("-spf") for value in argv[2:]):
            _anywhere(it)


def _ar(it: Walker, state: State, argv: Values) -> None:
    given = operands(argv)
    if len(argv) > 2 and re.fullmatch(r"-?x\w*", argv[1].text):
        source = filestate.content(it, state, given[-1] if argv[1].text[:1] == "-" else given[1])
        extracted(it, state, (), "ar", source.taint & _KEPT if source is not None else Taint.NONE)


def _cpio(it: Walker, state: State, argv: Values) -> None:
    if any(re.fullmatch(r"-[a-zA-Z]*[ip][a-zA-Z]*|--extract|--pass-through|-r", value.text) for value in argv[1:]):
        taint = state.stdin.taint & _KEPT if state.stdin is not None else Taint.NONE
        extracted(it, state, options(argv, "D", "--directory"), argv[0].text, taint)
        if any(value.text == "--absolute-filenames" for value in argv[1:]):
            _anywhere(it)


def extracted(it: Walker, state: State, folders: Values, maker: str, taint: Taint) -> None:
    for folder in filestate.absolute(it, state, folders[-1].text if folders else "."):
        _fill(it, state, folder, maker, taint)


def _python(it: Walker, state: State, argv: Values) -> None:
    """Record the effects of ``python -m zipfile -e a.zip FOLDER``."""
    words = [value.text for value in argv[1:]]
    if words[:1] == ["-m"] and words[1:2] in (["zipfile"], ["tarfile"]) and words[2:3] in (["-e"], ["--extract"]):
        source = filestate.content(it, state, argv[4]) if len(argv) > 4 else None
        taint = source.taint & _KEPT if source is not None else Taint.NONE
        extracted(it, state, argv[5:6], f"python -m {words[1]}", taint)


def _sorted(it: Walker, state: State, argv: Values) -> None:
    for path in options(argv, "o", "--output"):
        mark(it, state, path, "sort", _taint_of(it, state, operands(argv, names("-o --output -k -t -S -T"))))


def _uniq(it: Walker, state: State, argv: Values) -> None:
    given = operands(argv, names("-f -s -w"))
    for path in given[1:2]:
        mark(it, state, path, "uniq", _taint_of(it, state, given[:1]))


def _taint_of(it: Walker, state: State, paths: Values) -> Taint:
    taint = Taint.NONE
    for path in paths:
        found = filestate.content(it, state, path)
        taint |= found.taint if found is not None else Taint.NONE
    return taint & (Taint.REMOTE | Taint.DECODED | Taint.SECRET)


def _all(valued: str = "", *, when: str = "") -> Callable[[Walker, State, Values], None]:
    """Return a function that records that a program changes every file in its arguments. ``when``: a pattern; the program changes
    them only with an option that matches it. ``valued``: options that are followed by a value.
    """
    told = re.compile(when) if when else None
    skipped = frozenset(valued.split())

    def apply(it: Walker, state: State, argv: Values) -> None:
        if told is None or any(told.fullmatch(value.text) for value in argv[1:]):
            for path in operands(argv, skipped):
                mark(it, state, path, argv[0].text.rpartition("/")[2])

    return apply


def _xxd(it: Walker, state: State, argv: Values) -> None:
    given = operands(argv, names("-s -l -c -o -g"))
    if any(re.fullmatch(r"-\w*r\w*|--revert", value.text) for value in argv[1:]) and len(given) > 1:
        mark(it, state, given[1], "xxd", Taint.DECODED)


def _cmake(it: Walker, state: State, argv: Values) -> None:
    if any(value.text == "-P" for value in argv[1:]):
        _made(it, state, ".", "cmake")


CHANGES: dict[str, Callable[[Walker, State, Values], None]] = {
    "git": _git,
    **dict.fromkeys(["hg", "svn", "sl", "jj"], _hg),
    **dict.fromkeys(["gh", "glab", "hub"], _forge),
    "patch": _patch,
    **dict.fromkeys(["tar", "gtar", "bsdtar"], _tar),
    "unzip": _unzip,
    **dict.fromkeys(["7z", "7za", "7zr", "7zz", "unrar"], _seven),
    **dict.fromkeys(["cpio", "pax"], _cpio),
    "ar": _ar,
    **dict.fromkeys(["python", "python3"], _python),
    "sort": _sorted,
    "uniq": _uniq,
    "xxd": _xxd,
    "cmake": _cmake,
    **dict.fromkeys(["perl", "ruby"], _all("-e -E -I -r -M", when=r"-[a-hj-zA-Z0]*i(\..*)?|-[a-zA-Z0-9]*pi\S*")),
    **dict.fromkeys(["awk", "gawk"], _all("-v -F -f -i", when="inplace")),
    **dict.fromkeys(["ed", "ex", "red"], _all("-p")),
    **dict.fromkeys(["vim", "vi", "nvim"], _all("-c --cmd -S -s -u -U -i -T -w -W", when=r"-[a-zA-Z]*[es][a-zA-Z]*|\+.*|-c")),
    **dict.fromkeys(["yq", "dasel"], _all(when=r"-i|--in-?place|-[a-zA-Z]*i")),
    **dict.fromkeys(["rename", "prename", "mmv", "crudini", "sponge-all", "rpl", "sd", "ast-grep", "comby"], _all()),
}
