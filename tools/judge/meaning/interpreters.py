"""Interpreters of other languages: the arguments that are code, and the files of code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import Value
from tools.judge.options import read

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "pdksh", "yash", "posh", "lksh"})


class InterpreterOptions(NamedTuple):
    """The options of an interpreter.

    ``code``: options whose value is code; ``file``: options whose value is a file of code; ``valued``: others with a value.
    ``attached``: letters that take the rest of a cluster as a value (``perl -i.bak``). ``first``: the operand at that place is
    code unless an option gave some. ``script``: the first operand is a file. ``stdin``: without other code, it reads standard
    input. ``sub``: first words before code (``deno eval``). ``runs``: subcommands that run a file, or ``-``. ``checks``: options
    that make it only check the code. ``tests``: an option that makes each operand a test, or a folder of tests.
    """

    language: str
    code: frozenset[str]
    file: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    attached: str = ""
    first: int = -1
    script: bool = True
    stdin: bool = True
    sub: str = ""
    runs: frozenset[str] = frozenset()
    checks: frozenset[str] = frozenset()
    tests: str = ""


class FoundCode(NamedTuple):
    """The code in a command. ``pieces``: code itself; ``files``: paths of code; ``args``: the code's arguments.

    ``reads``: whether code comes from standard input. ``modules``: files that run in place of a library's module, if they exist.
    ``tests``: files, patterns and folders of tests.
    """

    pieces: list[Value]
    files: list[Value]
    args: list[Value]
    reads: bool
    modules: tuple[Value, ...] = ()
    tests: tuple[Value, ...] = ()


def _one(
    language: str,
    code: str,
    file: str = "",
    valued: str = "",
    attached: str = "",
    *,
    first: int = -1,
    script: bool = True,
    stdin: bool = True,
    sub: str = "",
    runs: str = "",
    checks: str = "",
    tests: str = "",
) -> InterpreterOptions:
    one, two, three, four, five = (frozenset(names.split()) for names in (code, file, valued, runs, checks))
    return InterpreterOptions(language, one, two, three, attached, first, script, stdin, sub, four, five, tests)


_SQL = "--host --port --user --username --dbname --database -h -p -U -d -P -D -v --set --variable"

_OWN_OPTIONS = {
    "python": _one("python", "-c", "", "-W -X -m --check-hash-based-pycs", "mWX"),
    "pypy": _one("python", "-c", "", "-W -X -m", "mWX"),
    "ipython": _one("python", "-c", "", "-m --profile", "m"),
    "perl": _one("perl", "-e -E", "", "-I", "iMmIFxCDV"),
    "ruby": _one("ruby", "-e", "", "-I -r -C -E", "iIrFKETWxC"),
    "node": _one(
        "javascript",
        "-e -p --eval --print -pe",
        "",
        "-r --require --import --loader --experimental-loader -C --conditions",
        checks="-c --check",
        tests="--test",
    ),
    "bun": _one("javascript", "-e --eval -p --print", runs="run"),
    "deno": _one("javascript", "", "", "", first=0, script=False, stdin=False, sub="eval", runs="run serve"),
    "tsx": _one("javascript", "-e --eval -p --print"),
    "php": _one("php", "-r -B -R -E", "-f", "-d -c -z -S -t", "dcz"),
    "lua": _one("lua", "-e", "", "-l"),
    "luajit": _one("lua", "-e", "", "-l"),
    "Rscript": _one("r", "-e"),
    "julia": _one("julia", "-e -E --eval"),
    "elixir": _one("elixir", "-e --eval"),
    "osascript": _one("applescript", "-e"),
    "groovy": _one("groovy", "-e"),
    "R": _one("r", "-e", script=False, stdin=False),
    "octave": _one("octave", "--eval", script=False, stdin=False),
    "gnuplot": _one("gnuplot", "-e", script=False, stdin=False),
    "ghci": _one("haskell", "-e", script=False, stdin=False),
    "ghc": _one("haskell", "-e", script=False, stdin=False),
    "scala": _one("scala", "-e", script=False, stdin=False),
    "erl": _one("erlang", "-eval", script=False, stdin=False),
    "sbcl": _one("lisp", "--eval", script=False, stdin=False),
    "ocaml": _one("ocaml", "-e", script=False, stdin=False),
    "dc": _one("dc", "-e --expression", script=False, stdin=False),
    "tclsh": _one("tcl", ""),
    "expect": _one("tcl", "-c", "-f"),
    "racket": _one("scheme", "-e --eval", "-f --load -r -u -t --require"),
    "clojure": _one("clojure", "-e --eval -M", "-i --init"),
    "bb": _one("clojure", "-e", "-f --file"),
    "raku": _one("raku", "-e"),
    "swift": _one("swift", "-e"),
    "crystal": _one("crystal", "", "", first=0, script=False, stdin=False, sub="eval", runs="run"),
    "jshell": _one("java", ""),
    "zx": _one("javascript", "--eval"),
    "guile": _one("scheme", "-c -e"),
    "emacs": _one("elisp", "--eval --execute -eval", "-l -load --load -script --script", "-Q", script=False, stdin=False),
    "pwsh": _one("powershell", "-c -Command -command -C -EncodedCommand -enc -e", "-File -f", "", script=True),
    "powershell": _one("powershell", "-c -Command -command -C -EncodedCommand -enc -e", "-File -f", "", first=0, script=False),
    "awk": _one("awk", "-e --source", "-f --file", "-v -F --assign --field-separator", "vF", first=0, script=False, stdin=False),
    "sed": _one("sed", "-e --expression", "-f --file", "-l --line-length", "il", first=0, script=False, stdin=False),
    "vim": _one("vim", "-c --cmd", "-S -s -u", "-i -T -W -w", script=False, stdin=False),
    "ex": _one("vim", "-c --cmd", "-S", "", script=False),
    "ed": _one("ed", "", "", "-p", script=False),
    "sqlite3": _one("sql", "-cmd", "-init", "-separator -nullvalue -newline -bail", first=1, script=False),
    "psql": _one("sql", "-c --command", "-f --file", _SQL, script=False),
    "mysql": _one("sql", "-e --execute", "", "-h -u -P -D --host --user --port --database", "pu", script=False),
    "duckdb": _one("sql", "-c -s", "-f", "", first=1, script=False),
    "clickhouse-client": _one(
        "sql", "-q --query", "--queries-file", "-h -u -d --host --user --password --database", script=False
    ),
    "cockroach": _one("sql", "-e --execute", "-f", "--host --url", script=False),
    "sqlcmd": _one("sql", "-Q -q", "-i", "-S -U -P -d", script=False),
    "mongosh": _one("mongo", "--eval", "-f --file", "--host --port -u -p", script=False),
    "redis-cli": _one("redis", "", "", "-h -p -a -n -u", script=False),
}
_SAME = {
    "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "vi": "vim", "nvim": "vim", "view": "vim", "vimdiff": "vim",
    "mariadb": "mysql", "mongo": "mongosh", "sqlite": "sqlite3", "jruby": "ruby", "pypy3": "pypy", "gvim": "vim", "rvim": "vim",
    "irb": "ruby", "octave-cli": "octave", "ts-node": "tsx", "psql15": "psql", "emacsclient": "emacs", "wish": "tclsh",
    "nodejs": "node",
    "redis": "redis-cli",
    "valkey-cli": "redis-cli",
}  # fmt: skip
INTERPRETERS = {**_OWN_OPTIONS, **{name: _OWN_OPTIONS[of] for name, of in _SAME.items()}}


def code_of(spec: InterpreterOptions, argv: Sequence[Value]) -> FoundCode:
    """Find the parts of ``argv`` that are code."""
    found = FoundCode([], [], [], True)
    if (spec.checks or spec.tests) and (special := _not_run(spec, argv)) is not None:
        return special
    operands: list[Value] = []
    at = 1
    if len(argv) > 1 and argv[1].text in spec.runs:
        return code_of(spec._replace(sub="", runs=frozenset(), first=-1, script=True, stdin=True), [argv[0], *argv[2:]])
    if spec.sub:
        if len(argv) < 2 or argv[1].text != spec.sub:
            return FoundCode([], [], [], False)
        at = 2
    while at < len(argv):
        text = argv[at].text
        if text == "--":
            operands += argv[at + 1 :]
            break
        if spec.language == "vim" and text.startswith("+") and len(text) > 1:
            found.pieces.append(Value(text[1:], argv[at].taint))
            at += 1
        elif spec.language == "vim" and _is_silent(text, argv[1:at]):
            if text[-1] == "c":
                found.pieces.extend(argv[at + 1 : at + 2])
                at += 1
            at += 1
        elif len(text) > 1 and text[0] == "-" and not (operands and spec.script):
            at = _option(spec, argv, at, found)
        elif spec.script and not found.pieces:
            operands += argv[at:]
            break
        else:
            operands.append(argv[at])
            at += 1
    return _operands(spec, found, operands)


def _of_vim(found: FoundCode, operands: list[Value]) -> FoundCode:
    """Treat vim's input as commands or keys, unless the input is text to edit, or a command ends vim before vim reads it."""
    ended = any(_LEAVES.match(piece.text) for piece in found.pieces)
    return found._replace(args=operands, reads=not ended and all(value.text != "-" for value in operands))


_LEAVES = Regex(r"[\s:]*(?:(?:sil(?:ent)?!?)\s+)?(?:%?w?q(?:a|all|uit)?|wqa(?:ll)?|x|xa(?:ll)?|cq(?:uit)?|qa(?:ll)?)!?\s*$")


def _not_run(spec: InterpreterOptions, argv: Sequence[Value]) -> FoundCode | None:
    """Return the code of ``node --check FILE`` and ``node --test FOLDER``, which do not run their operand as a script. Return
    None for any other command.
    """
    texts = [value.text for value in argv]
    given: set[str] = set()
    at = 1
    while at < len(argv) and texts[at][:1] == "-" and len(texts[at]) > 1:
        given.add(texts[at])
        at += 2 if texts[at] in spec.valued else 1
        if texts[at - 1] == "--":
            break
    if not given.isdisjoint(spec.code):
        return None
    if not given.isdisjoint(spec.checks):
        return FoundCode([], [], [], False)
    if spec.tests in given:
        return FoundCode([], [], [], False, (), tuple(argv[at:]) or (Value("."),))
    return None


def _is_silent(text: str, before: Sequence[Value]) -> bool:
    """Return whether this is ``vim -es`` or ``vim -e -s``: then the next word is not a script, unlike after ``-s`` alone."""
    return re.fullmatch(r"-[a-zA-Z]*[eE]s[a-zA-Z]*", text) is not None or (
        text == "-s" and any(one.text in ("-e", "-E") for one in before)
    )


def _option(spec: InterpreterOptions, argv: Sequence[Value], at: int, found: FoundCode) -> int:
    value = argv[at]
    text = value.text
    following = argv[at + 1] if at + 1 < len(argv) else None
    name, equals, given = text.partition("=")
    for names, into in ((spec.code, found.pieces), (spec.file, found.files)):
        if text in names:
            if following is not None:
                into.append(following)
            return at + 2
        if equals and name in names and text.startswith("--"):
            into.append(value._replace(text=given))
            return at + 1
    if text in spec.valued:
        if text == "-m" and spec.language == "python":
            _of_module(argv[at + 1 :], found)
            return len(argv) + 1
        return at + 2
    return at + 1 if text.startswith("--") else _cluster(spec, value, following, at, found)


_RUN_FILES = frozenset({"cProfile", "profile", "trace", "pdb", "runpy"})
_MODULE_OPTIONS = frozenset(
    "-n --number -r --repeat -u --unit -s --setup -o --outfile -c --command -f --file -C --coverdir".split()
)


def _of_module(args: Sequence[Value], found: FoundCode) -> None:
    """Add the code of ``python -m timeit CODE`` or ``python -m cProfile FILE``: modules that run their arguments."""
    found.args.extend(args)
    name = args[0].text if args else ""
    if name != "timeit" and name not in _RUN_FILES:
        return
    reading = read([value.text for value in args], "", _MODULE_OPTIONS)
    wanted = {"timeit": ("-s", "--setup"), "pdb": ("-c", "--command")}.get(name, ())
    for option in reading.options:
        if option.name in wanted and option.value is not None:
            found.pieces.append(Value(option.value.removeprefix("!"), args[option.value_at].taint))
    operands = [args[at] for at in reading.operands]
    if name == "timeit":
        found.pieces.extend(operands)
    else:
        found.files.extend(operands[:1])


def _cluster(spec: InterpreterOptions, value: Value, following: Value | None, at: int, found: FoundCode) -> int:
    """Parse short options in one word: ``perl -lane CODE``, ``python3 -Ic CODE``, ``psql -cCODE``. Return the next index."""
    text = value.text
    for index, letter in enumerate(text[1:], start=1):
        for names, into in ((spec.code, found.pieces), (spec.file, found.files)):
            if f"-{letter}" in names:
                rest = text[index + 1 :]
                if rest and spec.language not in ("javascript",):
                    into.append(value._replace(text=rest, shown=""))
                    return at + 1
                if not rest and following is not None:
                    into.append(following)
                    return at + 2
        if letter in spec.attached:
            return at + 1
        if f"-{letter}" in spec.valued:
            return at + 1 if text[index + 1 :] else at + 2
    return at + 1


def _operands(spec: InterpreterOptions, found: FoundCode, operands: list[Value]) -> FoundCode:
    if spec.language == "vim":
        return _of_vim(found, operands)
    pieces, files, args, *_ = found
    if spec.first >= 0 and not pieces and not files:
        if len(operands) > spec.first:
            if spec.language == "sql":  # sqlite3 DATABASE SQL SQL
                return FoundCode(operands[spec.first :], files, [], False)
            pieces.append(operands[spec.first])
            return FoundCode(pieces, files, operands[spec.first + 1 :], False)
        return FoundCode(pieces, files, operands, spec.stdin)
    if spec.script and not pieces and not files and operands:
        if operands[0].text == "-":
            return FoundCode(pieces, files, operands[1:], True)
        return FoundCode(pieces, [operands[0]], operands[1:], False)
    module = bool(args)
    reads = spec.stdin and not pieces and not files and not module
    return FoundCode(pieces, files, operands or args, reads, _modules(args[0]) if module and not operands else ())


def _modules(name: Value) -> tuple[Value, ...]:
    """Return the files in the working folder that ``python -m NAME`` would run: that folder comes before all libraries."""
    if not name.known or not all(map(str.isidentifier, name.text.split("."))):
        return ()
    path = name.text.replace(".", "/")
    return Value(f"{path}.py", name.taint), Value(f"{path}/__main__.py", name.taint)
