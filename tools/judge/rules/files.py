"""Rows: deleting, emptying, discarding and re-permissioning files."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib._regex import Regex
from tools.judge.looks import Looks
from tools.judge.meaning.value import HOLE, Elastic, Taint, Value
from tools.judge.table import ANY, FED, ActView, Test, count, last, operand, operands, opt, rule, sub, text, value, word
from tools.judge.writes import EXTRACTS

_RECURSIVE = opt("-r -R --recursive")
_SCRATCH = r"/(?:tmp)/.*"
_STARTS = Regex(r"[-(!\\]")


def _find_starts(view: ActView) -> Sequence[Value]:
    """Return the folders in which find begins to look: "." where none is named. One that follows links may look anywhere."""
    found: list[Value] = []
    if not {"-L", "-follow"}.isdisjoint(view.words):
        found.append(Value(HOLE))
    for given in view.act.argv[1:]:
        if given.text in ("-L", "-H", "-P"):
            continue
        if _STARTS.match(given.text):
            break
        found.append(given)
    return found or [Value(".")]


_REMADE = Regex(r"\*\.py[co]|__pycache__|\*\.py\[co\]|\.DS_Store|\*\$py\.class")
"""Names of files that are made again by themselves, and that nobody writes by hand."""
_NARROWS = {
    **dict.fromkeys(("-type", "-mindepth", "-maxdepth", "-mtime", "-mmin", "-newer", "-size", "-path", "-user", "-name"), 1),
    **dict.fromkeys(("-depth", "-empty", "-mount", "-xdev", "-print", "-print0", "-ls"), 0),
}
"""Words of find, and how many others belong to each, that only leave fewer files to those behind them, or print their names."""


def _only_remade(view: ActView, looks: Looks) -> bool:
    """Return whether find deletes nothing but empty folders or what is made again, in the workspace."""
    starts = _find_starts(view)
    words = iter(view.words[len(starts) if view.words[0][:1] not in "-(!" else 0 :])
    chosen, tests = False, set[str]()
    while test := next(words, ""):
        if test == "-delete":
            break
        if test == "(":
            given = list(iter(lambda: next(words, ")"), ")"))
            if set(given[::3]) != {"-name"} or set(given[2::3]) - {"-o", "-or"} or len(given) % 3 != 2:
                return False
            chosen = chosen or all(map(_REMADE.fullmatch, given[1::3]))
            continue
        leaves_out = test in ("!", "-not")
        test = next(words, "") if leaves_out else test
        if test not in _NARROWS:
            return False
        wanted = next(words, "") if _NARROWS[test] else ""
        if not leaves_out:
            tests.add(f"{test} {wanted}" if test == "-type" else test)
            chosen = chosen or (test == "-name" and _REMADE.fullmatch(wanted) is not None)
    chosen = chosen or tests >= {"-type d", "-empty"}
    return chosen and not set(words) - {"-print", "-print0", "-ls"} and not view.act.fed and looks.are_inside(view.act, starts)


def _is_made(given: Value) -> bool:
    """Return whether a word is the whole name of a folder that ``mktemp -d`` made, or nothing."""
    if not given.taint & Taint.MADE or given.pattern or given.text == HOLE:
        return False
    return HOLE not in given.text or (given.text[-1] == HOLE and (given.text.count(HOLE) == 1 or not isinstance(given, Elastic)))


def _only_made(view: ActView) -> bool:
    """Return whether all that is deleted is what ``mktemp -d`` made here."""
    return not view.act.fed and not view.act.place and all(map(_is_made, view.operands()))


def _many(view: ActView) -> bool:
    """Return whether the command names a list that is only known when it runs, or all that a folder holds."""
    return view.act.fed or any(_is_many(given) for given in view.operands())


def _is_many(given: Value) -> bool:
    """``*``, ``dir/*``, ``{*,.*}``: a pattern that holds no letter of a name; a substitution."""
    tail = given.text.rstrip("/").rpartition("/")[2]
    if (given.pattern or given.taint & Taint.MANY) and tail and not any(char.isalnum() for char in tail.replace(HOLE, "")):
        return True
    if given.pattern and "**" in given.text:
        return True
    return HOLE in given.text and ("$(" in given.shown or "`" in given.shown) and not _ONE.search(given.shown)


_ONE = Regex(
    r"\$\(\s*(?:mktemp|basename|dirname|realpath|readlink|date|pwd|git rev-parse|which|command -v|whoami|hostname|uname)\b"
)
_MANY = Test(_many)


RULES = (
    rule(
        "fs.recursive-delete",
        "ask",
        "rm grm srm trash rip gtrash safe-rm",
        opt("-r -R --recursive"),
        "deletes folders with all that is in them",
        yes=("rm -rf build", "rm --recursive x", "rm x -fr", "rm --rec x", 'docker run -v "$PWD":/w alpine rm -rf /w/src'),
        no=(
            "rm -f a.log b.log",
            "rm -- -r",
            "rm notes.txt",
            'docker run -v "$PWD":/w alpine rm -rf /var/cache/x',
            't=$(mktemp -d); cp a "$t"; rm -rf "$t"',
        ),
        paths=operands,
        roots=True,
        seen=lambda view, looks: (
            looks.moves_in or view.act.fed or bool(view.act.place) or not all(map(_is_made, view.operands()))
        ),
    ),
    rule(
        "fs.recursive-delete",
        "ask",
        "rimraf del-cli trash-cli premove rm-rf",
        count(1),
        "deletes folders with all that is in them",
        yes="rimraf build",
        no="rimraf --help",
        paths=operands,
        roots=True,
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "rm unlink trash trash-put rip grm",
        _MANY & ~_RECURSIVE,
        "deletes all that a folder holds, or a list that is only known when it runs",
        yes=(
            "rm *",
            "rm -f logs/*",
            "rm ./.*",
            'for f in notes/*; do rm "$f"; done',
            "find src -name '*.c' | while read -r f; do rm -f \"$f\"; done",
        ),
        no=(
            "rm *.pyc",
            "rm -f a b",
            "rm a[0-9].txt",
            'for f in a b; do rm -f "$f"; done',
            'for f in *.orig; do rm "$f"; done',
            'read -r f; rm "$f"',
        ),
        paths=operands,
        roots=True,
    ),
    rule(
        "fs.find-delete",
        "ask",
        "find gfind bfs",
        word("-delete"),
        "deletes whatever it matches",
        yes="find . -name '*.o' -delete",
        no=("find . -name '*.o' -print", "find . -name -delete.txt"),
        paths=_find_starts,
        roots=True,
        seen=lambda view, looks: not _only_remade(view, looks),
    ),
    rule(
        "fs.find-delete",
        "ask",
        "find gfind bfs",
        word("-fprint0?|-fls|-fprintf") & operand(r"/(?:etc|usr|boot|bin|sbin|lib|var/lib|root)/.*"),
        "writes its findings over a file of the system",
        yes="find . -fprint /etc/passwd",
        no="find . -fprint out.txt",
    ),
    rule(
        "fs.find-delete",
        "ask",
        "fd fdfind find gfind",
        text(
            r"(?:^| )(?:-x|-X|--exec|--exec-batch|-exec|-execdir|-ok|-okdir)[ =](?:sudo )?(?:/\S*/)?(?:rm|shred|unlink|rmdir"
            r"|truncate|srm|trash)(?: |$)"
        ),
        "deletes whatever it matches",
        yes=("fd -e tmp -x rm", "find . -mtime +1 -exec rm {} +"),
        no=("fd -e tmp", "find . -exec grep -l 'rm x' {} +"),
    ),
    rule(
        "fs.wipe",
        "ask",
        "shred srm wipe scrub gshred nwipe dban secure-delete sfill sdmem sswap bcwipe",
        count(1) | FED,
        "overwrites data so that nothing brings it back",
        yes="shred -u notes.txt",
        no="shred --help",
        paths=operands,
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "rsync openrsync",
        word(r"--del(ete)?(-.*)?|--remove-source-files|--remove-sent-files|--ignore-errors")
        & ~(word("--dry-run") | word(r"-[a-zA-Z]*n[a-zA-Z]*")),
        "deletes what the source does not have",
        yes=("rsync -av --delete a/ b/", "rsync -a --delete-after a b", "rsync --remove-source-files a b"),
        no=("rsync -av a/ b/", "rsync -avn --delete a/ b/"),
        paths=last,
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "rclone",
        (sub("sync|purge|delete|deletefile|rmdirs|cleanup|bisync|move|dedupe") | (sub("config") & operand("delete", 1)))
        & ~opt("-n -i"),
        "deletes what the other side does not have, or all of it",
        yes=("rclone sync a r:b", "rclone purge r:b"),
        no=("rclone copy a r:b", "rclone ls r:", "rclone sync -n a r:b", "rclone sync --dry-run a r:b"),
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "unison",
        value("-force -prefer", ".+") | word("-force"),
        "lets one side win over the other",
        yes="unison a b -force a",
        no="unison a b -testserver",
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "lftp",
        text(r"mirror\b.*(?:--delete|-e\b|--Remove-source)|\bmrm\b|\brm -r"),
        "deletes what the other side does not have",
        yes="lftp -c 'open h; mirror -R --delete a b'",
        no="lftp -c 'open h; mirror a b'",
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "robocopy",
        text(r"/(?:mir|purge|move|mov)\b"),
        "deletes what the source does not have",
        yes="robocopy a b /MIR",
        no="robocopy a b /E",
    ),
    rule(
        "fs.discard",
        "ask",
        "mv gmv",
        operand("/dev/null", -1) | value("-t --target-directory", "/dev/null"),
        "moves data away for good",
        yes="mv data /dev/null",
        no="mv a.py b.py",
        paths=lambda view: view.operands()[:-1],
    ),
    rule(
        "fs.discard",
        "ask",
        "cp ln gcp install",
        operand("/dev/null", 0) & count(2) & ~operand(_SCRATCH + r"|.*\.(?:log|out|tmp|pid|txt)", -1),
        "replaces a file by nothing",
        yes=("cp /dev/null app.sqlite", "ln -sf /dev/null ~/.bash_history"),
        no=("cp a.py b.py", "cp -r a b"),
        paths=last,
    ),
    rule(
        "fs.move-system",
        "ask",
        "mv",
        operand(r"/|~|/\*|/(?:home|root|var|etc|usr|boot|opt|srv)(?:/\*)?/?|/home/[^/]+(?:/\*)?/?", 0),
        "moves a system root or a home away",
        yes="mv /home/dev /tmp/x",
        no="mv a b",
        paths=lambda view: view.operands()[:-1],
    ),
    rule(
        "fs.archive-remove",
        "ask",
        "tar gtar bsdtar star",
        word("--remove-files"),
        "deletes what it archived",
        yes="tar czf a.tgz --remove-files data",
        no="tar czf a.tgz data",
    ),
    rule(
        "fs.archive-remove",
        "ask",
        "zip",
        opt("-m --move"),
        "deletes what it archived",
        yes="zip -rm a.zip data",
        no="zip -r a.zip data",
    ),
    rule(
        "fs.archive-remove",
        "ask",
        "7z 7za 7zr 7zz rar",
        word("-sdel|-df|-dw|-dr") | (sub("m|mf") & count(2)),
        "deletes what it archived",
        yes="7z a x.7z data -sdel",
        no="7z a x.7z data",
    ),
    rule(
        "fs.archive-remove",
        "ask",
        "tar gtar bsdtar",
        (
            EXTRACTS
            & (word("-P|--absolute-names|--unlink-first|--recursive-unlink|--absolute-paths") | value("-C --directory", "/"))
        ),
        "unpacks over the system's files",
        yes=("tar xPf a.tar -P", "tar xzf a.tgz -C /"),
        no=("tar xzf a.tgz -C /tmp/a", "tar cf linux.tar -C / etc/hosts"),
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "rename prename",
        ANY & opt("-f --force") & word(".*"),
        "overwrites files of the same name",
        yes="rename -f 's/a/b/' a b",
        no="rename 's/a/b/' a",
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "fdupes jdupes rdfind rmlint czkawka_cli duff",
        (opt("-d --delete -N --noprompt") & Test(lambda view: view.name in ("fdupes", "jdupes")))
        | (opt("-D --delete-files --delete-method") & Test(lambda view: view.name == "czkawka_cli"))
        | text("deleteduplicates true|makehardlinks true|makesymlinks true") & ~text("dryrun true"),
        "deletes files that look alike",
        yes=("fdupes -rdN photos", "rdfind -deleteduplicates true x", "czkawka_cli dup -d . -D AEN"),
        no="fdupes -r photos",
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "tmpreaper tmpwatch bleachbit cleanmgr",
        (count(1) & Test(lambda view: view.name != "bleachbit") | opt("-c --clean --shred -s")) & ~opt("-t --test -p --preview"),
        "deletes whatever it holds to be old or useless",
        yes=("tmpreaper 7d /tmp", "bleachbit --clean system.cache"),
        no="bleachbit --list",
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "systemd-tmpfiles",
        opt("--remove --clean --purge"),
        "deletes whatever it holds to be old or useless",
        yes="systemd-tmpfiles --clean",
        no="systemd-tmpfiles --cat-config",
    ),
    rule(
        "fs.empty-trash",
        "ask",
        "trash-empty trash-rm gio trash",
        (sub("trash") & opt("--empty")) | opt("-e") | Test(lambda view: view.name in ("trash-empty", "trash-rm")),
        "empties the trash",
        yes=("trash-empty", "gio trash --empty"),
        no="gio list",
    ),
    rule(
        "windows.destroy",
        "ask",
        "powershell pwsh cmd del erase rd format diskpart vssadmin bcdedit cipher wmic wbadmin Remove-Item remove-item Clear-Disk"
        " Format-Volume Stop-Computer Restart-Computer Clear-RecycleBin Stop-Process Stop-Service Initialize-Disk",
        text(
            r"remove-item\b.*-rec|\b(?:rm|ri|del|erase|rd|rmdir)\b.*(?:-r\b|-rec|/s\b)|format-volume|clear-disk|initialize-disk"
            r"|stop-computer|restart-computer|clear-recyclebin|stop-process\b.*-name|stop-service|\bdelete shadows|\bformat"
            r" [a-z]:"
            r"|^/s\b|^[a-z]:(?: |$)|/w:|shadowcopy delete|recoveryenabled|delete catalog|set-executionpolicy"
            r"|disablerealtimemonitoring"
            r"|clear-eventlog|iex\b|invoke-expression|downloadstring|^-recurse|-enc(?:odedcommand)?\b"
        )
        | Test(
            lambda view: view.name in ("Clear-Disk", "Format-Volume", "Stop-Computer", "Restart-Computer", "Clear-RecycleBin")
        ),
        "destroys data, stops things or runs hidden code (Windows)",
        yes=("powershell Remove-Item x -Recurse -Force", "cmd /c 'rd /s /q x'", "vssadmin delete shadows /all"),
        no=("powershell Get-Item x", "pwsh -c 'Get-Process'"),
    ),
)
