"""Text that is executed: by the shell itself, by another shell, by an interpreter of another language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, interpreters, owned, replay, sources, tables, unfinished, unknown_programs
from tools.judge.meaning.act import Code, RedirectTarget
from tools.judge.meaning.ending import finished
from tools.judge.meaning.logins import split_words
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import HOLE, Taint, Value, settled, unknown
from tools.judge.meaning.walk import DETACHED, Walker

Values = Sequence[Value]
Targets = Sequence[RedirectTarget]
Source = Literal["argument", "stdin", "file", "environment"]

_VALUED = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_POSIX = frozenset({"sh", "dash", "ash"})
_COMPLETED = _POSIX | {"bash"}
_BY_LINES = frozenset({"vim", "sql", "mongo"})
"""Languages whose programs read a script while they execute it, besides the shell."""
_LEAVES = Regex(r"\b(?:Popen|fork|posix_spawn\w*|create_subprocess\w*|detached|Process\.spawn)\b")
"""Names in other languages for starting a program without waiting for it."""
_SPREADS = Taint.REMOTE | Taint.DECODED
_CARRIED = _SPREADS | Taint.FOUND | Taint.SECRET
"""Taints of a text that its commands inherit."""


def _doubtful(text: Value, language: str, source: Source, path: str) -> list[Code]:
    if text.known and not text.taint:
        return []
    return [Code(language, text, source, path)]


def here(it: Walker, state: State, text: Value, source: Source, argv: Values, targets: Targets, path: str = "") -> list[State]:
    """Run text in the current shell, as ``eval`` and ``source`` do."""
    text = filestate.executed(it, text)
    it.act(state, argv, targets, code=_doubtful(text, "shell", source, path))
    if not text.text.replace(HOLE, "").strip():
        if text.text:
            state.wild |= text.taint | Taint.UNKNOWN
            state.unsettle(text.taint)
            if state.capture:
                state.emit(unknown(text.taint))
        state.status = None if text.text else 0
        return [state]
    if not text.known:
        state.wild |= Taint.UNKNOWN
    with it.inside() as inner:
        inner.taint |= text.taint & _CARRIED
        return it.text(text.text, state)


def new_shell(it: Walker, state: State, zero_and_args: Values) -> State:
    """Return the shell of a new process: it gets only the exported variables."""
    child = state.copy()
    passed = ((name, var) for name, var in state.vars.items() if var.items is None)
    child.vars = {name: var if "x" in var.flags else Var() for name, var in passed}
    child.vars |= {name: Var(value, None, "x") for name, value in state.env.items()}
    child.positional = settled(zero_and_args[1:])
    child.zero = zero_and_args[0] if zero_and_args else Value("bash")
    child.frames, child.aliases, child.traps, child.hashed = (), {}, (), {}
    child.options = state.options & {"export -f"} | {"child"}
    if "export -f" not in state.options:
        child.functions = {}
    child.out, child.flow, child.levels = None, "", 0
    return child


def shell_text(
    it: Walker,
    state: State,
    text: Value,
    source: Source,
    argv: Values,
    targets: Targets = (),
    zero_and_args: Values = (),
    path: str = "",
) -> list[State]:
    """Run text in a new shell."""
    program = argv[0].text.rpartition("/")[2] if argv else ""
    if source == "stdin" and program in _COMPLETED:
        text = unfinished.completed(it, text, program)
    text = filestate.executed(it, text, by_lines=source == "stdin")
    slow = it.found.slow
    it.act(state, argv, targets, code=_doubtful(text, "shell", source, path))
    it.found.slow = slow or (source == "stdin" and it.found.slow)  # its commands follow
    if not text.text.replace(HOLE, "").strip():
        if text.text and state.capture:
            state.emit(unknown(text.taint))
        state.status = None
        return [state]
    child = new_shell(it, state, zero_and_args)
    if source == "stdin":
        child.stdin = unknown(text.taint)
    if argv and (program in _POSIX or any(one.text in ("--posix", "posix") for one in argv[1:])):
        child.options |= {"posix"}
    place = it.context.place
    if place and not place.startswith("chroot"):
        child.wild = Taint.UNKNOWN
        child.vars, child.functions = {}, {}
    with it.inside() as outer:
        outer.sourced = False
        with it.inside() as inner:
            inner.taint |= text.taint & _CARRIED
            inner.language = "shell"
            ends = it.text(text.text, child)
        ends = it.traps(ends)
    files = ends[0].files
    for end in ends[1:]:
        files = {**files, **end.files}
    return it.returned(state, ends, files)


def unfollowed(it: Walker, state: State, path: Value) -> str:
    """Return which command may change the file ``path`` in an unknown way before the file runs; "" if none may."""
    if path.text in ("-", "/dev/stdin"):
        return ""
    owned.read_by_job(it, state, path.text)  # also a file that is missing now
    if maker := filestate.changed(it, state, path):
        return maker
    for name in filestate.absolute(it, state, path.text):
        if name.startswith(filestate.FIXED) or name in state.files:
            continue
        if filestate.comes_later(it, state, name, sure=path.known and not path.pattern):
            return "a later command"
        if filestate.origin(it, name) & Taint.CHANGING:
            return "a background process"
        if maker := unknown_programs.unknown_program(it, name):
            return maker
    return ""


def unread(
    it: Walker, state: State, path: Value, argv: Values, targets: Targets, maker: str, language: str = "shell"
) -> list[State]:
    """Run a file that ``maker`` may have changed: its effects are unknown."""
    owned.read_by_job(it, state, path.text, by_lines=True)
    found = filestate.content(it, state, path)
    text = unknown(found.taint if found is not None else Taint.NONE)
    it.act(state, argv, targets, code=[Code(language, text, "file", path.text, maker)])
    if state.capture:
        state.emit(text)
    state.status = None
    return [state]


def sourced(it: Walker, state: State, path: Value, args: Values, argv: Values, targets: Targets) -> list[State]:
    """Run a file in the current shell, as ``source`` and ``.`` do."""
    if maker := unfollowed(it, state, path):
        state.wild |= Taint.UNKNOWN
        return unread(it, state, path, argv, targets, maker)
    for file in owned.matching(it, state, path):
        sourced(it, state.copy(), Value(file), args, [argv[0], Value(file)], targets)
    text = filestate.content(it, state, path)
    if text is None:
        it.act(state, argv, targets)
        state.status = None
        return [state]
    owned.read_by_job(it, state, path.text, by_lines=True)
    before = state.positional
    if args:
        state.positional = settled(args)
    with it.inside() as inner:
        inner.sourced = True
        results = here(it, state, text, "file", argv, targets, path.text)
    for one in results:
        if args:
            one.positional = before
        if one.flow == "return":
            one.flow = ""
    return results


def script_file(it: Walker, state: State, path: Value, args: Values, argv: Values, targets: Targets) -> list[State]:
    """Run the file ``path`` in a shell; ``args`` are $0 and the rest."""
    if maker := unfollowed(it, state, path):
        return unread(it, state, path, argv, targets, maker)
    for file in owned.matching(it, state, path):
        script_file(it, state.copy(), Value(file), [Value(file), *args[1:]], [argv[0], Value(file)], targets)
    text = filestate.content(it, state, path)
    if text is None:
        it.act(state, argv, targets)
        state.status = None
        if state.capture:
            state.emit(unknown())
        return [state]
    owned.read_by_job(it, state, path.text, by_lines=True)
    return shell_text(it, state, text, "file", argv, targets, list(args), path.text)


def shell_program(it: Walker, state: State, name: str, argv: Values, targets: Targets) -> list[State]:
    """Run ``bash`` or another shell with its arguments."""
    at = 1
    text_wanted = from_stdin = no_run = False
    while at < len(argv):
        word = argv[at].text
        if word in ("--", "-"):
            at += 1
            break
        if word[:1] not in ("-", "+") or len(word) < 2:
            break
        if not word.startswith("--") and word not in _VALUED:
            text_wanted = text_wanted or ("c" in word and word[0] == "-")
            from_stdin = from_stdin or "s" in word
            no_run = no_run or ("n" in word and word[0] == "-")
            at += 1 + (word[-1] == "o" and word[1:] != "o")
        elif word in ("--rcfile", "--init-file") and at + 1 < len(argv):
            script_file(it, state.copy(), argv[at + 1], [argv[0]], argv, targets)
            at += 2
        else:
            no_run = no_run or word in ("--version", "--help")
            at += 2 if word in _VALUED else 1
    rest = list(argv[at:])
    if no_run:
        it.act(state, argv, targets)
        return finished(it, state, name, argv)
    if text_wanted and rest:
        return shell_text(it, state, rest[0], "argument", argv, targets, rest[1:] or [Value(name)])
    if rest and not from_stdin:
        return script_file(it, state, rest[0], rest, argv, targets)
    if state.stdin is not None:
        return shell_text(it, state, state.stdin, "stdin", argv, targets, [Value(name), *rest])
    it.act(state, argv, targets)
    return finished(it, state, name, argv)


def script(it: Walker, state: State, text: Value, head: str, argv: Values, targets: Targets, name: str) -> list[State]:
    """Run a readable file that is started by its path; ``head``: the text after its ``#!``."""
    words = _started_by(head)
    program = words[0].rpartition("/")[2] if words else "sh"
    owned.read_by_job(it, state, argv[0].text, by_lines=program in interpreters.SHELLS)
    if program in interpreters.SHELLS and all(word[:2] == "--" or (word[:1] in "-+" and "c" not in word) for word in words[1:]):
        return shell_text(it, state, text, "file", argv, targets, list(argv), argv[0].text)
    spec = tables.interpreter(program)
    if spec is None or program in interpreters.SHELLS:
        it.act(state, argv, targets)
        return it.program(state, [*map(Value, words), argv[0], *argv[1:]], targets)
    piece = Code(spec.language, text, "file", argv[0].text)
    return _read(it, state, name, argv, targets, [piece], list(argv[1:]))


def _started_by(head: str) -> list[str]:
    """Return the words after a script's ``#!``, without ``env`` and its options."""
    words = head.split()
    if words and words[0].endswith("/env"):
        words = split_words(head)[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = [words[0][2:], *words[1:]] if words[0].startswith("-S") and len(words[0]) > 2 else words[1:]
    return words


def interpreter(
    it: Walker, state: State, name: str, spec: interpreters.InterpreterOptions, argv: Values, targets: Targets
) -> list[State]:
    """Record the act of an interpreter, and run its code."""
    found = interpreters.code_of(spec, argv)
    pieces = [Code(spec.language, text, "argument") for text in found.pieces]
    files = [*found.files, *(Value(one) for path in found.files for one in owned.matching(it, state, path))]
    for path in found.tests:
        tests = sources.tests(it, state, spec.language, path)
        files, pieces = (files, pieces + tests) if tests is not None else ([*files, path], pieces)
    for path in files:
        path = _script_of(it, state, spec, path)
        text = filestate.content(it, state, path)
        if maker := unfollowed(it, state, path):
            taint = text.taint if text is not None else Taint.NONE
            pieces.append(Code(spec.language, unknown(taint), "file", path.text, maker))
        elif text is not None:
            pieces.append(Code(spec.language, text, "file", path.text))
    for path in found.modules if len(state.cwds) == 1 else ():
        text = filestate.content(it, state, path)
        if not unfollowed(it, state, path) and text is not None:
            pieces.append(Code(spec.language, text, "file", path.text))
    if found.reads and state.stdin is not None:
        pieces.append(Code(spec.language, state.stdin, "stdin"))
    pieces += sources.of_interpreter(it, state, spec.language, argv, found)
    return _read(it, state, name, argv, targets, pieces, found.args)


def _script_of(it: Walker, state: State, spec: interpreters.InterpreterOptions, path: Value) -> Value:
    """Return the file that the path names: node adds an ending, python takes the ``__main__.py`` of a folder."""
    if spec.language == "python" and path.known and not path.text.endswith(".py"):
        main = path._replace(text=f"{path.text.rstrip('/')}/__main__.py", shown="")
        if owned.content(it, state, main.text) is not None:
            return main
    if spec.language == "javascript" and path.known and "." not in path.text.rpartition("/")[2]:
        for name in sources.script_names(path.text):
            owned.read_by_job(it, state, name)
            found = filestate.content(it, state, Value(name))
            if found is not None and (found.known or found.taint & Taint.REMOTE):
                return path._replace(text=name)
    return path


def evaluated(it: Walker, state: State, name: str, pieces: Sequence[Code]) -> None:
    """Report the effects of the pieces, as the program ``name`` would run them."""
    sink = CodeSink(it, state, name)
    for piece in pieces:
        if not _understood(it, piece, (), sink) or piece.text.taint & _SPREADS:
            it.act(state, [Value(name)], code=[piece])


def _read(it: Walker, state: State, name: str, argv: Values, targets: Targets, pieces: list[Code], args: Values) -> list[State]:
    codes: list[Code] = []
    sink = CodeSink(it, state, name)
    for piece in pieces:
        if piece.language == "python" and sink.starts_late:
            sources.imported(it, state, piece)
        if piece.source == "file":
            owned.read_by_job(it, state, piece.path, by_lines=piece.language in _BY_LINES)
        if piece.source == "stdin" and not piece.text.taint & Taint.INPUT:
            sink.inherited = None  # the program reads all of its code before it runs it
    for piece in pieces:
        by_lines = piece.source == "stdin" and piece.language in _BY_LINES
        if piece.source == "stdin" and piece.language == "python":
            piece = piece._replace(text=unfinished.completed(it, piece.text, "python"))
        piece = piece._replace(text=filestate.executed(it, piece.text, by_lines=by_lines))
        if _understood(it, piece, args, sink):
            codes.append(piece)
        else:
            codes.append(piece._replace(text=piece.text._replace(taint=piece.text.taint | Taint.UNKNOWN)))
    it.act(state, argv, targets, code=codes)
    return finished(it, state, name, argv)


def _understood(it: Walker, piece: Code, args: Values, sink: CodeSink) -> bool:
    if not piece.text.text.replace(HOLE, "").strip():
        return not piece.text.text
    if it.too_deep("code is nested too deeply in other code"):
        return False
    with it.inside() as inner:
        inner.language = piece.language
        inner.span = inner.span if inner.span is not None else it.span
        inner.taint |= piece.text.taint & _SPREADS
        inner.depth += 1
        inner.outlasts = inner.outlasts or DETACHED * bool(_LEAVES.search(piece.text.text))
        it.found.slow = it.found.slow or bool(inner.outlasts)  # the code may wait
        it.limits.step()
        it.limits.spend(len(piece.text.text))
        return replay.read(it.readings, piece, args, sink)


class CodeSink:
    """A sink that adds the effects reported by another language's parser to the interpreter's acts."""

    def __init__(self, it: Walker, state: State, name: str) -> None:
        self.it = it
        self.state = state
        self.name = name
        self.starts_late = filestate.is_late(it)
        self.inherited = filestate.inherited(state)

    def _child(self, stdin: Value | None = None) -> State:
        child = new_shell(self.it, self.state, [])
        child.capture, child.stdin = False, self.inherited if stdin is None else stdin
        return child

    def _keep(self, ends: list[State]) -> None:
        if ends:
            self.state.files = ends[0].files

    def run(self, argv: Sequence[Value], redirects: Sequence[RedirectTarget] = (), stdin: Value | None = None) -> None:
        it = self.it
        if argv and argv[0].text == "@loads":
            sources.loaded(it, self.state, argv[1].text)
            return
        child = self._child(stdin)
        for target in redirects:
            if ">" in target.op:
                filestate.write(it, child, target.path, stdin if stdin is not None else unknown(), append=target.op == ">>")
        if argv:
            it.program(child, argv, redirects)
        elif redirects:
            it.act(child, (), redirects)
        self._keep([child])

    def shell(self, text: Value) -> None:
        self._keep(shell_text(self.it, self._child(), text, "argument", [Value("sh"), Value("-c"), text]))

    def code(self, code: Code) -> None:
        it = self.it
        code = code._replace(text=filestate.executed(it, code.text))
        if code.language == "shell":
            self.shell(code.text)
            return
        taken = _understood(it, code, (), self)
        if not taken or code.text.taint:
            kept = code if taken else code._replace(text=code.text._replace(taint=code.text.taint | Taint.UNKNOWN))
            it.act(self.state, [Value(self.name)], code=[kept])

    def inspect_path(self, path: str) -> Seen:
        if self.starts_late and path.endswith(".py"):
            sources.loaded(self.it, self.state, path)
        return filestate.seen_by_code(self.it, self.state, path)
