"""The session's own source files that a program compiles, or that an interpreter loads besides the code in its arguments."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, owned
from tools.judge.meaning.act import Code
from tools.judge.meaning.interpreters import FoundCode
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value, names
from tools.judge.meaning.walk import Walker

Values = Sequence[Value]

_SUFFIXES = {
    ".c": "c", ".cc": "c", ".cpp": "c", ".cxx": "c", ".h": "c", ".hpp": "c", ".m": "c",
    ".go": "go", ".rs": "rust", ".java": "java",
}  # fmt: skip


def compiled(it: Walker, state: State, name: str, argv: Values) -> list[Code]:
    """Return the session's own sources that ``name`` compiles, to run now or later."""
    reader = _COMPILERS.get(name)
    return reader(it, state, argv) if reader is not None else []


def _piece(it: Walker, state: State, path: str) -> list[Code]:
    language = _SUFFIXES.get(posixpath.splitext(path)[1])
    text = owned.content(it, state, path) if language is not None else None
    return [Code(language, text, "file", path)] if language is not None and text is not None else []


def _named(it: Walker, state: State, argv: Values) -> list[Code]:
    """Return the source files among the arguments, and standard input if there is a ``-``."""
    found = [piece for value in argv[1:] for piece in _piece(it, state, value.text)]
    if any(value.text == "-" for value in argv[1:]) and state.stdin is not None:
        found.append(Code("c", state.stdin, "stdin"))
    return found


def _below(*endings: str) -> Callable[[Walker, State, Values], list[Code]]:
    return lambda it, state, argv: [piece for path in owned.below(it, state, ".", *endings) for piece in _piece(it, state, path)]


def _go(it: Walker, state: State, argv: Values) -> list[Code]:
    words = [value.text for value in argv[1:]]
    if words[:1] not in (["run"], ["build"], ["install"], ["test"], ["generate"]):
        return []
    given = [word for word in words[1:] if word.endswith(".go")]
    return [piece for path in given or owned.below(it, state, ".", ".go") for piece in _piece(it, state, path)]


def _cargo(it: Walker, state: State, argv: Values) -> list[Code]:
    words = {value.text for value in argv[1:3]}
    return _below(".rs")(it, state, argv) if words & {"run", "build", "test", "install", "bench", "r", "b", "t"} else []


_COMPILERS: dict[str, Callable[[Walker, State, Values], list[Code]]] = {
    **dict.fromkeys(["cc", "gcc", "g++", "c++", "clang", "clang++", "tcc", "rustc", "java", "javac"], _named),
    **dict.fromkeys(["make", "gmake", "ninja"], _below(".c", ".cc", ".cpp", ".cxx")),
    "go": _go,
    "cargo": _cargo,
}

# -- modules ----------------------------------------------------------------------------------------------------------

_RUN_A_FILE = names("pdb cProfile profile trace bdb runpy coverage kernprof viztracer memory_profiler line_profiler")
_DOCTEST = Regex(r"^\s*(?:>>>|\.\.\.) ?(.*)$", re.MULTILINE)


def of_interpreter(it: Walker, state: State, language: str, argv: Values, found: FoundCode) -> list[Code]:
    """Return the code that an interpreter loads in addition to the code in its arguments."""
    if language == "python":
        return [*_shadowing(it, state, found), *_by_module(it, state, argv)]
    if language == "javascript":
        return _required(it, state, argv)
    if language in ("perl", "ruby"):
        return [*_libraries(it, state, language, argv), *(_of_perls_options(argv) if language == "perl" else ())]
    return []


def _shadowing(it: Walker, state: State, found: FoundCode) -> list[Code]:
    """Return the session's own modules that Python may load. Beside the script these are modules named like one of the
    standard library, sitecustomize.py and all packages; in the folders of PYTHONPATH all modules.
    """
    folders = {posixpath.dirname(path.text) or "." for path in found.files} or {"."}
    pieces: list[Code] = []
    for folder in sorted(folders):
        for path in owned.below(it, state, folder, ".py", deep=False):
            if posixpath.basename(path)[:-3] in sys.stdlib_module_names or posixpath.basename(path) == "sitecustomize.py":
                pieces += _source(it, state, "python", path)
        for path in owned.below(it, state, folder, "/__init__.py"):
            if path.count("/") == len(filestate.absolute(it, state, folder)[0].split("/")) + 1:
                pieces += _source(it, state, "python", path)
    for folder in _paths(state, "PYTHONPATH"):
        for path in owned.below(it, state, folder, ".py", deep=False):
            pieces += _source(it, state, "python", path)
    return pieces


def loaded(it: Walker, state: State, path: str) -> None:
    """Record that a process may load the module ``path`` late: from its folder, or from the same place in a folder of
    PYTHONPATH.
    """
    owned.read_by_job(it, state, path, by_lines=True)
    for folder in _paths(state, "PYTHONPATH"):
        for name in {posixpath.basename(path), path.removeprefix("./")}:
            owned.read_by_job(it, state, f"{folder}/{name}", by_lines=True)


_IMPORTS = Regex(r"(?m)(?:^|[;:])[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*))")


def imported(it: Walker, state: State, piece: Code) -> None:
    """Record the modules that a Python program imports which itself starts late."""
    folder = posixpath.dirname(piece.path)
    for found in _IMPORTS.finditer(piece.text.text):
        for name in (found[1] or found[2]).split(","):
            top = name.strip().partition(" ")[0].partition(".")[0]
            for end in (".py", "/__init__.py"):
                loaded(it, state, posixpath.join(folder, f"{top}{end}"))
    owned.read_by_job(it, state, posixpath.join(folder, "sitecustomize.py"), by_lines=True)


def _paths(state: State, name: str) -> list[str]:
    var = state.vars.get(name)
    value = state.env.get(name) or (var.scalar() if var is not None else None)
    return [one for one in value.text.split(":") if one] if value is not None and value.known else []


def _source(it: Walker, state: State, language: str, path: str) -> list[Code]:
    text = owned.content(it, state, path)
    return [Code(language, text, "file", path)] if text is not None else []


def _by_module(it: Walker, state: State, argv: Values) -> list[Code]:
    """Return the code that ``python -m NAME`` runs, if NAME is a module that runs code, files or tests."""
    at = next((at for at, value in enumerate(argv[:-1]) if value.text == "-m"), 0)
    if not at:
        return []
    name, rest = argv[at + 1].text, argv[at + 2 :]
    operands = [value for value in rest if value.text[:1] != "-"]
    if name == "timeit":
        return [Code("python", value) for value in operands]
    if name in ("unittest", "pytest", "nose2", "tox"):
        tests = [path for path in owned.below(it, state, ".", ".py") if posixpath.basename(path).startswith(("test", "conftest"))]
        return [piece for path in tests for piece in _source(it, state, "python", path)]
    if name == "doctest":
        texts = [(value.text, filestate.content(it, state, value)) for value in operands]
        known = [(file, text) for file, text in texts if text is not None and text.known]
        modules = [Code("python", text, "file", file) for file, text in known if file.endswith(".py")]
        examples = [(file, text._replace(text="\n".join(_DOCTEST.findall(text.text)))) for file, text in known]
        return [*modules, *(Code("python", text, "file", file) for file, text in examples)]
    if name in _RUN_A_FILE:
        commands = [rest[at + 1] for at, value in enumerate(rest[:-1]) if value.text == "-c"]
        pieces = [Code("python", one._replace(text=one.text.lstrip("!"))) for one in commands]
        files = [value for value in operands if value not in commands]
        for value in files:
            text = filestate.content(it, state, value)
            if text is not None and text.known:
                return [*pieces, Code("python", text, "file", value.text)]
        return pieces
    return []


def _required(it: Walker, state: State, argv: Values) -> list[Code]:
    """Return the files that options make node load first, and the session's own packages in node_modules."""
    pieces: list[Code] = []
    for at, value in enumerate(argv[1:-1], start=1):
        if value.text in ("-r", "--require", "--import", "--loader", "--experimental-loader"):
            for path in script_names(argv[at + 1].text):
                text = filestate.content(it, state, Value(path))
                if text is not None and text.known:
                    pieces.append(Code("javascript", text, "file", path))
                    break
    for path in owned.below(it, state, "node_modules", ".js", ".cjs", ".mjs"):
        pieces += _source(it, state, "javascript", path)
    return pieces


_TESTS = {"javascript": (".js", ".cjs", ".mjs", ".ts", ".mts", ".cts")}


def tests(it: Walker, state: State, language: str, path: Value) -> list[Code] | None:
    """Return the session's own tests in a folder or in the folder of a pattern; None if the path is neither."""
    folder = re.split(r"[*?{\[]", path.text)[0]
    if folder != path.text:
        folder = posixpath.dirname(folder) or "."
    elif not path.known or any(
        it.snapshot.inspect_path(name).kind != "dir" for name in filestate.absolute(it, state, folder) if name[:1] == "/"
    ):
        return None
    found = owned.below(it, state, folder, *_TESTS[language])
    return [piece for one in found for piece in _source(it, state, language, one)]


def _libraries(it: Walker, state: State, language: str, argv: Values) -> list[Code]:
    """Return the session's own modules in the folders of ``-I`` and PERL5LIB or RUBYLIB."""
    folders = _paths(state, "PERL5LIB" if language == "perl" else "RUBYLIB")
    for at, value in enumerate(argv[1:], start=1):
        if value.text[:2] == "-I":
            folders.append(value.text[2:] or (argv[at + 1].text if at + 1 < len(argv) else "."))
    ending = ".pm" if language == "perl" else ".rb"
    return [
        piece
        for folder in folders
        for path in owned.below(it, state, folder, ending)
        for piece in _source(it, state, language, path)
    ]


_LOOPS = Regex(r"-[acdlsStTuUwWX0-9]*[np]")
_OPENS = Regex(r"\s*[|>]|.*\|\s*$", re.DOTALL)
"""A file's name that is a command, or a file to write to, if perl opens it with ``<>``."""
_USES = Regex(r"-[acdlnpsStTuUwWX0-9]*[mM]-?(.*[^\w:=,.].*)", re.DOTALL)


def _of_perls_options(argv: Values) -> list[Code]:
    """Return the code of ``perl -n``, which reads its arguments as ``<>`` does, and of ``perl "-Mstrict;..."``: ``use
    strict;...``.
    """
    found: list[Code] = []
    opens = any(_OPENS.match(value.text) for value in argv[1:])
    for value in argv[1:]:
        if opens and _LOOPS.match(value.text):
            found.append(Code("perl", Value("<>"), "argument"))
        elif match := _USES.match(value.text):
            found.append(Code("perl", value._replace(text=f"use {match[1]}"), "argument"))
    return found


def script_names(path: str) -> list[str]:
    """Return the files that ``path`` may stand for in node."""
    return [path, *(f"{path}{end}" for end in (".js", ".cjs", ".mjs", ".ts", "/index.js"))]
