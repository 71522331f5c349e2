"""Rules: emptying files, completely or partly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import Taint, Value
from tools.judge.table import ActView, Test, last, opt, rule, text, value, word

_DATA_FILE = Regex(
    r".*\.(?:db|sqlite3?|mdb|accdb|sql|dump|kdbx|dat|data|csv|parquet|xlsx?|docx?|tar|tgz|gz|zip|7z|bak|backup|rdb|aof|ibd"
    r"|frm|myd|img|qcow2|vmdk|iso|pst)"
)


_SCRATCH = Regex(r"/tmp/.*|.*\.(?:log|out|tmp|pid)")  # noqa: S108  # a pattern, no file is made


def _is_one_of_many(path: Value) -> bool:
    return bool(path.taint & Taint.MANY) and _SCRATCH.fullmatch(path.text) is None


def _loses(act: Act, path: Value) -> bool:
    """Return whether a redirect empties an important file. For code that is not shell, the act's input is the written data."""
    if _is_one_of_many(path):
        return True
    return _DATA_FILE.fullmatch(path.text) is not None and (act.language == "shell" or not act.read().text.strip())


def _emptied(view: ActView) -> bool:
    """Return whether a redirect empties a file because the command prints nothing: ``> app.db``, ``: > app.db``."""
    act = view.act
    return (
        not act.prints
        and (view.name in ("", ":", "true") or view.words in _PRINTS_NOTHING.get(view.name, ()))
        and any(target.op in (">", ">|") and _loses(act, target.path) for target in act.redirects)
    )


_PRINTS_NOTHING = {"cat": (["/dev/null"],), "printf": ([""], ["%s", ""]), "echo": (["-n"], ["-n", ""])}


_ALL_LINES = Regex(r"(?:1,\$|0,/\^/|//|/\.\*/|/\^/)?\s*d(?:;.*)?")
"""The sed scripts that delete all lines."""


def _drops_all(view: ActView) -> bool:
    return any(code.language == "sed" and _ALL_LINES.fullmatch(code.text.text.strip()) for code in view.act.code)


def _truncated(view: ActView) -> Sequence[Value]:
    return view.operands(frozenset({"-s", "--size", "-r", "--reference"}))


def _was_there(paths: Callable[[ActView], Sequence[Value]]) -> Callable[[ActView, Looks], bool]:
    """Make a row's ``seen``: it returns False if no file at ``paths`` exists yet, so that nothing is emptied."""

    def seen(view: ActView, looks: Looks) -> bool:
        given = paths(view)
        return view.act.fed or not given or not looks.are_inside(view.act, given, new=True)

    return seen


RULES = (
    rule(
        "fs.truncate",
        "ask",
        "@redirected",
        Test(_emptied),
        "empties a file",
        yes=(
            "> production.db",
            ": > data.csv",
            "cat /dev/null > app.db",
            "printf '' > app.db",
            'for f in *.py; do : > "$f"; done',
            "{ :; } > app.db",
            "{ echo a; } > app.db; > app.db",
            "> app.db; { echo a; } > app.db",
            'for f in *.py; do { cat "$f.x"; } > "$f"; done',
        ),
        no=(
            "> out.log",
            ": > a.txt",
            "echo a > b.csv",
            "cat /dev/null > a.log",
            'for f in *.log; do : > "$f"; done',
            "{ echo a; } > b.csv",
        ),
        seen=_was_there(lambda view: [target.path for target in view.act.redirects if target.op in (">", ">|")]),
    ),
    rule(
        "fs.truncate",
        "ask",
        "dd gdd",
        word("if=/dev/null")
        & Test(lambda view: any(_DATA_FILE.fullmatch(word) for word in view.words))
        & ~word("conv=.*notrunc.*"),
        "empties a file",
        yes="dd if=/dev/null of=app.db",
        no=("dd if=/dev/null of=out.log", "dd if=/dev/null of=app.db bs=1 seek=4096 conv=notrunc"),
        seen=_was_there(lambda view: [one._replace(text=one.text[3:]) for one in view.act.argv if one.text[:3] == "of="]),
    ),
    rule(
        "fs.truncate",
        "ask",
        "sed gsed",
        Test(_drops_all) & (opt("--in-place") | word(r"-[nEerszul]*i.*")),
        "empties files",
        yes=("sed -i '1,$d' data/a.csv", "sed -i d src/a.py"),
        no=("sed -i 3d notes.md", "sed -i '/x/d' a", "sed 1,$d a", "sed -i '1,3d' a"),
    ),
    rule(
        "fs.truncate",
        "ask",
        "perl",
        word(r"-[a-hj-zA-Z0]*i(\..*)?")
        & word(r"-\w*n\w*")
        & Test(lambda view: bool(view.act.code) and not any(code.text.text.strip() for code in view.act.code)),
        "empties files",
        yes="perl -i -ne '' src/a.js",
        no=("perl -ne '' a", "perl -i -ne 'print unless /x/' a"),
    ),
    rule(
        "fs.truncate",
        "ask",
        "truncate gtruncate",
        value("-s --size", r"[<-]?0.*|-\d.*|[/%].*") | text(r"(?:-s ?|--size[= ])(?:0|-\d)"),
        "empties or shortens a file",
        yes=("truncate -s 0 app.db", "truncate --size=0 x", "truncate -s0 x"),
        no="truncate -s 10M sparse.bin",
        paths=_truncated,
        seen=_was_there(_truncated),
    ),
    rule(
        "fs.truncate",
        "ask",
        "fallocate",
        opt("-p --punch-hole -z --zero-range -c --collapse-range"),
        "cuts a part out of a file",
        yes="fallocate -c -o 0 -l 4096 app.db",
        no="fallocate -l 1M x.img",
        paths=last,
    ),
)
