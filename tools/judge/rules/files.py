"""Rules: deleting, overwriting and discarding files."""

from __future__ import annotations

import posixpath

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.meaning.value import HOLE, Elastic, Taint, Value
from tools.judge.paths import root_of
from tools.judge.table import ANY, FED, ActView, Test, count, last, operand, operands, opt, rule, sub, text, value, word
from tools.judge.writes import EXTRACTS

_RECURSIVE = opt("-r -R --recursive")
_SCRATCH = r"/(?:tmp)/.*"
_WORD_OF_NAME = Regex(r"[A-Za-z0-9]{2}")


def _some(view: ActView) -> list[Value]:
    """Return the patterns among the operands that name only some of a folder's files."""
    return [one for one in view.operands() if one.pattern and _WORD_OF_NAME.search(one.text.rpartition("/")[2])]


def _in_a_root(view: ActView, looks: Looks) -> bool:
    """Return whether a pattern names files directly in a home or a system root."""
    folders = (one._replace(text=posixpath.dirname(one.text) or ".", pattern=False) for one in _some(view))
    return any(root_of(one, view.act.cwds, looks.home) for one in folders)


def _is_made(given: Value) -> bool:
    """Return whether a word is the whole name of a folder that ``mktemp -d`` made. (If mktemp failed, the word is empty.)"""
    if not given.taint & Taint.MADE or given.pattern or given.text == HOLE:
        return False
    return HOLE not in given.text or (given.text[-1] == HOLE and (given.text.count(HOLE) == 1 or not isinstance(given, Elastic)))


def _only_made(view: ActView) -> bool:
    """Return whether the command deletes only folders that ``mktemp -d`` made in the same line."""
    return not view.act.fed and not view.act.place and all(map(_is_made, view.operands()))


def _many(view: ActView) -> bool:
    """Return whether the command names a list that is only known at run time, or all contents of a folder."""
    return view.act.fed or any(_is_many(given) for given in view.operands())


def _is_many(given: Value) -> bool:
    """Return whether a word may name many files: most commands' output, or a pattern without letters of a name, as ``dir/*``."""
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


_RSYNC_DELETES = word(r"--del(ete)?(-.*)?|--remove-source-files|--remove-sent-files|--ignore-errors") & ~(
    word("--dry-run") | word(r"-[a-zA-Z]*n[a-zA-Z]*")
)
_RSYNC_ELSEWHERE = operand(rf"[^/]*[:{HOLE}].*")
"""Test for a source or target of rsync that is, or may be, on another host."""

RULES = (
    rule(
        "fs.recursive-delete",
        "ask",
        "rm grm srm trash rip gtrash safe-rm",
        opt("-r -R --recursive"),
        "deletes folders with all their contents",
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
        "deletes folders with all their contents",
        yes="rimraf build",
        no="rimraf --help",
        paths=operands,
        roots=True,
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "rm unlink trash trash-put rip grm",
        Test(lambda view: bool(_some(view))) & ~_RECURSIVE,
        "deletes files of a home or a system folder by a pattern",
        yes=("rm ~/*.log", "rm -f /etc/*.conf"),
        no=("rm *.log", "rm ~/project/*.log"),
        paths=operands,
        seen=_in_a_root,
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "rm unlink trash trash-put rip grm",
        _MANY & ~_RECURSIVE,
        "deletes all files of a folder, or a list that is only known when it runs",
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
        "fs.wipe",
        "ask",
        "shred srm wipe scrub gshred nwipe dban secure-delete sfill sdmem sswap bcwipe",
        count(1) | FED,
        "overwrites data beyond recovery",
        yes="shred -u notes.txt",
        no="shred --help",
        paths=operands,
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "rsync openrsync",
        _RSYNC_DELETES & ~_RSYNC_ELSEWHERE,
        "deletes files that the source does not have, or files of the source",
        yes=("rsync -av --delete a/ b/", "rsync -a --delete-after a b", "rsync --remove-source-files a b"),
        no=("rsync -av a/ b/", "rsync -avn --delete a/ b/"),
        paths=last,
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "rsync openrsync",
        _RSYNC_DELETES & _RSYNC_ELSEWHERE,
        "deletes files that the source does not have, or files of the source",
        yes=("rsync -av --delete a/ h:b/", "rsync --remove-source-files h:a .", 'rsync -a --delete a/ "$(cat dest)"'),
        no=("rsync -avn --delete a/ h:b/", "rsync -a h:a/ b/"),
        paths=last,
        effect="remote",
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
        effect="remote",
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "unison",
        value("-force -prefer", ".+") | word("-force"),
        "overwrites one side with the other",
        yes="unison a b -force a",
        no="unison a b -testserver",
        effect="remote",
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "lftp",
        text(r"mirror\b.*(?:--delete|-e\b|--Remove-source)|\bmrm\b|\brm -r"),
        "deletes what the other side does not have",
        yes="lftp -c 'open h; mirror -R --delete a b'",
        no="lftp -c 'open h; mirror a b'",
        effect="remote",
    ),
    rule(
        "fs.sync-delete",
        "ask",
        "robocopy",
        text(r"/(?:mir|purge|move|mov)\b"),
        "deletes files that the source does not have, or files of the source",
        yes="robocopy a b /MIR",
        no="robocopy a b /E",
    ),
    rule(
        "fs.discard",
        "ask",
        "mv gmv",
        operand("/dev/null", -1) | value("-t --target-directory", "/dev/null"),
        "moves data to a place that destroys it",
        yes="mv data /dev/null",
        no="mv a.py b.py",
        paths=lambda view: view.operands()[:-1],
    ),
    rule(
        "fs.discard",
        "ask",
        "cp ln gcp install",
        operand("/dev/null", 0) & count(2) & ~operand(_SCRATCH + r"|.*\.(?:log|out|tmp|pid|txt)", -1),
        "replaces a file with an empty one",
        yes=("cp /dev/null app.sqlite", "ln -sf /dev/null ~/.bash_history"),
        no=("cp a.py b.py", "cp -r a b"),
        paths=last,
    ),
    rule(
        "fs.move-system",
        "ask",
        "mv",
        count(2),
        "moves a system root or a home",
        yes=("mv /home/dev /tmp/x", "mv ~ x", "mv ~/* x"),
        no="mv a b",
        paths=lambda view: view.operands()[:-1],
        seen=lambda view, looks: any(root_of(one, view.act.cwds, looks.home) for one in view.operands()[:-1]),
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
        "deletes duplicate files",
        yes=("fdupes -rdN photos", "rdfind -deleteduplicates true x", "czkawka_cli dup -d . -D AEN"),
        no="fdupes -r photos",
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "tmpreaper tmpwatch bleachbit cleanmgr",
        (count(1) & Test(lambda view: view.name != "bleachbit") | opt("-c --clean --shred -s")) & ~opt("-t --test -p --preview"),
        "deletes files that it considers old or useless",
        yes=("tmpreaper 7d /tmp", "bleachbit --clean system.cache"),
        no="bleachbit --list",
    ),
    rule(
        "fs.bulk-delete",
        "ask",
        "systemd-tmpfiles",
        opt("--remove --clean --purge"),
        "deletes files that it considers old or useless",
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
