"""Paths that a command would write or delete, or whose permissions it would change: one table, by command."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Value
from tools.judge.paths import Mode
from tools.judge.table import ActView, Test, opt, sub, value, word


class Touch(NamedTuple):
    """A path that a command changes, and how."""

    path: Value
    mode: Mode


class Writes(NamedTuple):
    """The paths that one command changes.

    ``pick`` names the function in ``_PICKS`` that selects the changed operands, "" for none. ``rest`` selects all but the first.
    ``destination`` selects the last operand and the names that the others, the sources, get in it. ``takes``: how the command
    changes the sources themselves, None if it does not. ``shares``: whether it gives them a second name (a hard link); a later
    call can then change them by that name.

    ``outputs``: options whose value is a written file. ``folders``: options whose value is the folder to write to. ``valued``:
    other options whose next word is not an operand. ``prefixes``: beginnings of words that hold a path (``of=``). ``backups``:
    options with a suffix for the names of old versions. ``when``: the condition for all changes except those of ``outputs``.
    """

    mode: Mode
    pick: str = ""
    valued: str = ""
    outputs: str = ""
    folders: str = ""
    prefixes: str = ""
    when: Test | None = None
    takes: Mode | None = None
    shares: Test | None = None
    backups: str = ""


EXTRACTS = word(r"-[a-zA-Z]*x[a-zA-Z]*|--extract|--get") | Test(
    lambda view: bool(view.words) and view.words[0][:1] != "-" and "x" in view.words[0]
)
"""Test for unpacking by tar: ``x`` among the letters of an option, or of a first word without a dash."""

_IN_PLACE = opt("-i --in-place --inplace") | word(r"-[a-zA-Z0-9]*i(\..*)?|-[a-z]*i\S*")
_EDITING = word(r"-[a-hj-zA-Z0]*i(\..*)?|-[a-zA-Z0-9]*pi\S*")
_DELETES = Writes("delete", "all", "-s --size -n --iterations --random-source")
_OWNS = Writes("permission", "rest", "--from")
_SENDS = Writes(
    "write",
    "destination",
    backups="--suffix",
    valued="-e --rsh -P -i -F -o -l -S -c --exclude --include --filter --bwlimit --rsync-path",
)
_EDITS = Writes(
    "write",
    "all",
    "-c --cmd -S -s -u -U -i -T -w -W --servername --remote-expr --startuptime",
    when=~(opt("--version --help") | word(r"-[a-zA-Z]*[RM][a-zA-Z]*|--headless")),
)
_PACKS = Writes(
    "write", "packed", when=~(opt("-c --stdout --to-stdout -l --list -t --test") | word("-[a-zA-Z0-9]*[ltc][a-zA-Z0-9]*"))
)
_CONVERTS = Writes("write", "", outputs="-o --output --out --output-file -out --outfile --output-dir --outdir")

_ROWS: tuple[tuple[str, Writes], ...] = (
    ("rm", _DELETES._replace(pick="files")),
    ("unlink rmdir trash trash-put rip srm shred wipe scrub del erase gtrash safe-rm", _DELETES),
    (
        "tee sponge touch ed ex nano pico micro joe jed mg emacs emacsclient kate gedit sudoedit rvim",
        Writes("write", "all", "-t -d -r -l"),
    ),
    ("vim vi nvim view gvim elvis vis", _EDITS),
    ("truncate fallocate", Writes("write", "all", "-s --size -r --reference -l --length -o --offset")),
    ("chmod chown chgrp", _OWNS),
    ("chattr chflags setfattr xattr semanage chcon restorecon", Writes("permission", "all", "-n -v -t -u -r -l")),
    ("setfacl", Writes("permission", "all", "-m -x -M -X --modify --remove --set --set-file --modify-file")),
    ("setcap", Writes("permission", "rest")),
    ("mv gmv", Writes("write", "destination", backups="-S --suffix", folders="-t --target-directory", takes="delete")),
    ("cp gcp", Writes("write", "destination", backups="-S --suffix", folders="-t --target-directory", shares=opt("-l --link"))),
    (
        "ln gln link symlink",
        Writes(
            "write",
            "destination",
            backups="-S --suffix",
            folders="-t --target-directory",
            shares=~opt("-s --symbolic") & Test(lambda view: view.name != "symlink"),
        ),
    ),
    (
        "install ginstall",
        Writes("write", "destination", "-m --mode -o --owner -g --group", folders="-t --target-directory", backups="-S --suffix"),
    ),
    ("ditto", Writes("write", "destination")),
    ("rsync", _SENDS._replace(outputs="--link-dest")),  # files of --link-dest get a second name in the destination
    ("scp", _SENDS),
    ("mkdir", Writes("folder", "all", "-m --mode")),
    ("mkfifo mknod", Writes("write", "first", "-m --mode")),
    ("rename prename mmv vidir perl-rename", Writes("write", "rest")),
    ("dd dcfldd dc3dd", Writes("write", prefixes="of= ofs= wipe= hof=")),
    ("ddrescue gddrescue", Writes("write", "rest", "-i -o -s -b -c -r -m")),
    ("pv", Writes("write", outputs="-o --output")),
    (
        "sed gsed",
        Writes("write", "rest", "-l --line-length", when=opt("--in-place") | word(r"-[nEerszul]*i.*"), backups="-i --in-place"),
    ),
    ("perl ruby", Writes("write", "all", "-e -E -I -r -M", when=_EDITING, backups="-i")),
    ("awk gawk", Writes("write", "rest", "-i -v -F -f", when=value("-i --include", "inplace"))),
    ("yq dasel", Writes("write", "all", when=_IN_PLACE)),
    ("crudini", Writes("write", "first", when=opt("--set --del --merge"))),
    ("augtool", Writes("write", "")),
    (
        "tar gtar bsdtar",
        Writes(
            "write",
            outputs="--index-file -g --listed-incremental --volno-file",
            folders="-C --directory --cd --one-top-level",
            when=EXTRACTS,
        ),
    ),
    ("unzip", Writes("write", folders="-d")),
    ("unrar 7z 7za 7zr 7zz", Writes("write", prefixes="-o")),
    ("cpio pax", Writes("write", folders="-D --directory")),
    ("zip", Writes("write", "first", "-x -i -n -b -P")),
    ("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma unlzma compress pigz", _PACKS),
    (
        "patch",
        Writes(
            "write", "first", "-i --input -p -d -D -B", outputs="-o --output", folders="-d --directory", backups="-z --suffix"
        ),
    ),
    ("find gfind", Writes("write", outputs="-fprint -fprint0 -fls -fprintf")),
    (
        "curl",
        Writes(
            "write",
            "fetched",
            outputs="-o --output -c --cookie-jar -D --dump-header --trace --trace-ascii --stderr --libcurl --etag-save --hsts"
            " --alt-svc",
            folders="--output-dir",
        ),
    ),
    (
        "wget",
        Writes(
            "write",
            "fetched",
            outputs="-O --output-document -o --output-file -a --append-output --save-cookies --rejected-log",
            folders="-P --directory-prefix",
        ),
    ),
    ("aria2c axel", Writes("write", outputs="-o --out --output", folders="-d --dir")),
    ("sort ld as go strace ltrace gpg gpg2 age perf shuf", Writes("write", outputs="-o --output")),
    ("gcc g++ cc c++ clang clang++ gfortran", Writes("write", outputs="-o --output -MF -MJ -aux-info")),
    ("uniq", Writes("write", "rest", "-f -s -w --skip-fields --skip-chars --check-chars")),
    ("ssh autossh", Writes("write", outputs="-E")),
    ("valgrind", Writes("write", outputs="--log-file --xml-file")),
    (
        "hyperfine",
        Writes("write", outputs="--export-json --export-csv --export-markdown --export-asciidoc --export-orgmode --output"),
    ),
    ("openssl", _CONVERTS),
    ("iconv xsltproc xmllint protoc jq pandoc ffmpeg convert time", Writes("write", outputs="-o --output")),
    ("pg_dump pg_dumpall tcpdump", Writes("write", outputs="-f --file -w")),
    ("mysqldump", Writes("write", outputs="-r --result-file", folders="-T --tab")),
    ("xxd", Writes("write", "rest", "-s -l -c -o -g", when=opt("-r"))),
    ("script", Writes("write", "all", "-c --command -E -o -O -I -B -T", outputs="-O --log-out")),
    (
        "strip objcopy patchelf upx dos2unix unix2dos dos2mac mac2unix recode",
        Writes("write", "all", "--set-rpath --set-interpreter"),
    ),
    ("split csplit", Writes("write", "pieces", "-b -l -n -a -C --filter", outputs="-f --prefix")),
    ("logsave", Writes("write", "first")),
    ("debugfs", Writes("write", "all", "-R -f", when=opt("-w"))),
    ("pip pip3 uv pipx", Writes("write", outputs="--log --report", folders="-t --target --prefix --root")),
    (
        "git",
        Writes(
            "write", "bundle", outputs="--output -o --export-marks", folders="--separate-git-dir --template --output-directory"
        ),
    ),
    ("plutil", Writes("write", "rest", "-o", when=word("-(replace|insert|remove|convert)"))),
    ("docker podman nerdctl kubectl oc", Writes("write", "destination", "-c --container -n --namespace", when=sub("cp"))),
    ("aws", Writes("write", "destination", "--profile --region", when=sub("s3 cp|mv|sync"))),
    ("gsutil", Writes("write", "destination", "-m", when=sub("cp|mv|rsync"))),
    (
        "python python3",
        Writes(
            "write", "rest", "-m", when=Test(lambda view: view.words[:3] in (["-m", "zipfile", "-e"], ["-m", "tarfile", "-e"]))
        ),
    ),
    ("ssh-keygen", Writes("write", folders="-f", when=Test(lambda view: view.act.stdin is not None))),  # stdin may answer yes
    ("PlistBuddy", Writes("write", "all", "-c")),
)

_BY_NAME: Mapping[str, Writes] = {name: writes for names, writes in _ROWS for name in names.split()}

_QUIET = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "-", "/dev/zero", "/dev/full"})


def is_listed(names: Sequence[str]) -> bool:
    """Return whether the table describes the files that a program of these families writes."""
    return any(name in _BY_NAME for name in names)


def touched(act: Act, names: Sequence[str], view: ActView | None) -> Iterator[Touch]:
    """Yield every path that ``act`` changes, judging by its redirects and arguments.

    ``names``: the families of its program; ``view``: its view, if there is one.
    """
    for target in act.redirects:
        if ">" in target.op and target.path.text not in _QUIET:
            yield Touch(target.path, "write")
    for name in names:
        writes = _BY_NAME.get(name)
        if writes is not None:
            for touch in _by_command(writes, view or ActView(act)):
                if (touch.path.text and touch.path.text not in _QUIET) or touch.mode != "write":
                    yield touch
            return


def _by_command(writes: Writes, view: ActView) -> Iterator[Touch]:
    outputs = view.values(_names(writes.outputs)) if writes.outputs else []
    yield from (Touch(given, writes.mode) for given in outputs)
    if writes.when is not None and not writes.when(view):
        return
    folders = view.values(_names(writes.folders)) if writes.folders else []
    yield from (Touch(given, writes.mode) for given in folders)
    for folder, given in itertools.product(folders, outputs):
        if given.text[:1] not in ("/", "~"):
            yield Touch(given._replace(text=f"{folder.text.rstrip('/')}/{given.text}", shown=""), writes.mode)
    for start in writes.prefixes.split():
        for given in view.act.argv[1:]:
            if given.text.startswith(start) and len(given.text) > len(start):
                yield Touch(given._replace(text=given.text[len(start) :]), writes.mode)
    if writes.pick:
        yield from _picked(writes, view, folders)


def _picked(writes: Writes, view: ActView, folders: Sequence[Value]) -> Iterator[Touch]:
    """Yield the changed operands, and the names that the program gives to old versions."""
    valued = f"{writes.valued} {writes.outputs} {writes.folders}"
    plain = view.operands(_names(valued if writes.backups[:2] == "-i" else f"{valued} {writes.backups}"))
    suffixes = _suffixes(writes, view) if writes.backups else []
    for touch in _PICKS[writes.pick](writes, view, plain, folders):
        yield touch
        for suffix in suffixes if touch.mode == "write" else ():
            yield _backup(touch, suffix)


def _suffixes(writes: Writes, view: ActView) -> list[str]:
    """Return the suffixes that a program adds to names of old versions; ``-i`` and ``--in-place`` hold it in their word."""
    if writes.backups[:2] == "-i":
        found = [match[1] or match[2] for match in map(_IN_WORD.fullmatch, view.words) if match is not None]
    else:
        found = [given.text for given in view.values(_names(writes.backups))]
    named = view.act.environment.get("SIMPLE_BACKUP_SUFFIX")
    return [one for one in [*found, *([named.text] if named is not None else [])] if one]


_IN_WORD = Regex(r"-[a-hj-zA-Z0]*i(.*)|--in-place=(.*)", re.DOTALL)


def _backup(touch: Touch, suffix: str) -> Touch:
    folder, slash, name = touch.path.text.rpartition("/")
    kept = suffix.replace("*", name) if "*" in suffix else name + suffix
    return Touch(touch.path._replace(text=f"{folder}{slash}{kept}", shown=""), "write")


@functools.cache
def _names(options: str) -> frozenset[str]:
    return frozenset(options.split())


def _all(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    return (Touch(given, writes.mode) for given in plain)


_FOLDERS = Regex(r"/(?:(?:root|usr|boot|proc|sys|dev|run)/*)?")
_DELETES_FOLDERS = opt("-r -R --recursive -d --dir")


def _files(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    """Yield the paths that rm deletes: known folders of the system only with an option that deletes folders."""
    whole = _DELETES_FOLDERS(view)
    return (Touch(given, writes.mode) for given in plain if whole or given.pattern or not _FOLDERS.fullmatch(given.text))


def _packed(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    """Yield a packed file, and its name after unpacking."""
    for given in plain:
        yield Touch(given, writes.mode)
        name = given.text.rpartition(".")[0]
        if name and not name.endswith("/"):
            yield Touch(given._replace(text=name, shown=""), writes.mode)


def _pieces(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    """Yield the paths of the pieces: names that begin with the given prefix and end in an unknown way."""
    prefixes = plain[1:] if view.name == "split" else view.values(_names(writes.outputs))
    return (Touch(given._replace(text=given.text + HOLE, shown=""), writes.mode) for given in prefixes)


_REMOTE_NAME = Regex(r"-[a-zA-Z#]*O[a-zA-Z#]*|--remote-name(?:-all)?")


def _fetched(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    """Yield the hidden files that the program names after the end of an address."""
    if view.name == "curl" and not any(map(_REMOTE_NAME.fullmatch, view.words)):
        return
    for given in plain:
        name = given.text.partition("?")[0].rpartition("/")[2]
        for folder in [one.text.rstrip("/") + "/" for one in folders] or [""]:
            if name[:1] == ".":
                yield Touch(given._replace(text=folder + name, shown=""), writes.mode)


def _first(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    return (Touch(given, writes.mode) for given in plain[:1])


def _rest(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    """Return the operands after the first, which is a mode, an owner or a script; all operands if an option gives it."""
    said = any(text.startswith(("--reference", "--expression", "--file")) or text in ("-e", "-f") for text in view.words)
    return (Touch(given, writes.mode) for given in (plain if said else plain[1:]))


def _bundle(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    """Return the file of ``git bundle create FILE``."""
    words = [given.text for given in plain[:2]]
    return (Touch(given, writes.mode) for given in (plain[2:3] if words == ["bundle", "create"] else ()))


def _destination(writes: Writes, view: ActView, plain: Sequence[Value], folders: Sequence[Value]) -> Iterator[Touch]:
    made = "-d" in view.words  # install -d makes folders
    if writes.shares is not None and writes.shares(view):
        yield from (Touch(source, "write") for source in (plain if folders or len(plain) < 2 else plain[:-1]))
    if len(plain) < 2 and not folders and not made:
        return
    to, sources = (folders, plain) if folders else (plain[-1:], plain[:-1])
    if made:
        to, sources = plain, plain[:0]
    for given in to:
        if ":" in given.text.partition("/")[0]:
            continue  # a path of another host
        if not folders:
            yield Touch(given, writes.mode)
        for source in sources:
            name = source.text.rstrip("/").rpartition("/")[2]
            if name and name not in (".", "..", HOLE):
                yield Touch(given._replace(text=f"{given.text.rstrip('/')}/{name}", shown=""), writes.mode)
    if writes.takes is not None:
        for source in sources:
            yield Touch(source, writes.takes)


_PICKS: Mapping[str, Callable[[Writes, ActView, Sequence[Value], Sequence[Value]], Iterator[Touch]]] = {
    "all": _all,
    "files": _files,
    "packed": _packed,
    "pieces": _pieces,
    "fetched": _fetched,
    "first": _first,
    "rest": _rest,
    "bundle": _bundle,
    "destination": _destination,
}
