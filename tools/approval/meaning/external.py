"""Programs: wrappers are looked through, code and scripts are read, files they write are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.approval.folders import under
from tools.approval.meaning import code, effects, filestate, interpreters, mounts, output, recipes
from tools.approval.meaning.act import Code, RedirectTarget
from tools.approval.meaning.ending import finished
from tools.approval.meaning.shellstate import State
from tools.approval.meaning.specials import SPECIALS
from tools.approval.meaning.value import HOLE, Taint, Value, unknown
from tools.approval.meaning.wrappers import WRAPPERS, Inner, inner
from tools.approval.shell.tree import Simple

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter

Values = Sequence[Value]
Targets = Sequence[RedirectTarget]

_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/")
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - told apart, not used
_MAYBE_NOTHING = Taint.REMOTE | Taint.DECODED | Taint.SECRET


def unknown_command(it: Interpreter, state: State, argv: Values, targets: Targets, cmd: Simple | None) -> list[State]:
    """Run a command whose name is unknown."""
    first = argv[0]
    it.act(state, argv, targets, name=HOLE if first.text == HOLE or first.pattern else None)
    if state.capture:
        state.emit(unknown((state.stdin.taint if state.stdin is not None else Taint.NONE) | first.taint))
    state.status = None
    if first.text == HOLE and not first.pattern and not first.taint & _MAYBE_NOTHING and len(argv) > 1:
        other = state.copy()
        other.out = state.out
        return it.merge([state, *it.dispatch(other, argv[1:], targets, cmd)])
    return [state]


def child(it: Interpreter, state: State, argv: Values, targets: Targets = ()) -> list[State]:
    """A program that another one starts: no function, no builtin."""
    if not argv:
        state.status = None
        return [state]
    it.step()
    first = argv[0]
    if HOLE in first.text or first.pattern:
        it.act(state, argv, targets, name=HOLE if first.text == HOLE or first.pattern else None)
        if first.text == HOLE and len(argv) > 1 and not first.pattern and not first.taint & _MAYBE_NOTHING:
            child(it, state.copy(), argv[1:], targets)
        if state.capture:
            state.emit(unknown(first.taint))
        state.status = None
        return [state]
    return run(it, state, argv, targets)


def run(it: Interpreter, state: State, argv: Values, targets: Targets) -> list[State]:
    if "/" not in argv[0].text and (path := path_of(it, state)):
        _shadowed(it, state, path, argv, targets)
    name = it.bare(state, argv)
    if name in WRAPPERS or name in SPECIALS:
        found = inner(name, argv)
        special = SPECIALS.get(name)
        if special is not None:
            found = (found or []) + special(argv, state.stdin)
        if found:
            return _wrapped(it, state, name, argv, targets, found)
    if name in interpreters.SHELLS:
        return code.shell_program(it, state, name, argv, targets)
    spec = interpreters.known(name)
    if spec is not None:
        return code.interpreter(it, state, name, spec, argv, targets)
    first = argv[0].text
    if "/" in first and (found_codes := _program_file(it, state, name, argv, targets)) is not None:
        return found_codes
    if state.files:
        if steps := recipes.inner(it, state, name, argv):
            return _wrapped(it, state, name, argv, targets, steps)
        it.act(state, filestate.marked(it, state, argv), targets)
    else:
        it.act(state, argv, targets)
    return finished(it, state, name, argv)


def path_of(it: Interpreter, state: State) -> str:
    """PATH as far as it is known; "" where nothing set it."""
    var = state.vars.get("PATH")
    value = state.env.get("PATH") or (var.scalar() if var is not None else None)
    return value.text if value is not None else it.now.variables.get("PATH", "")


def _shadowed(it: Interpreter, state: State, path: str, argv: Values, targets: Targets) -> None:
    """Add the acts of a file named ``git`` which others could have put into a folder of PATH; besides those of git itself."""
    for entry in path.split(":"):
        if HOLE in entry:
            continue
        for folder in filestate.absolute(it, state, entry or "."):
            if not folder.startswith("/") or folder.startswith(_SYSTEM):
                continue
            file = f"{folder}/{argv[0].text}"
            near = folder.startswith(_OPEN_TO_ALL) or any(under(folder, cwd) for cwd in state.cwds)
            if file in it.shadowing or not (file in state.files or (near and it.snapshot.look(file).kind != "missing")):
                continue
            it.shadowing.add(file)
            try:
                run(it, state.copy(), [argv[0]._replace(text=file), *argv[1:]], targets)
            finally:
                it.shadowing.discard(file)


def _wrapped(it: Interpreter, state: State, name: str, argv: Values, targets: Targets, found: list[Inner]) -> list[State]:
    if it.depth >= it.budget.depth:
        it.fault("depth", "wrapped too deeply")
        return [state]
    if targets or any(one.own for one in found) or (name in SPECIALS and name not in ("xargs", "env", "parallel", "gxargs")):
        it.act(state, argv, targets)
    effects.apply(it, state, name, argv)
    it.depth += 1
    states = [state]
    try:
        for one in found:
            after: list[State] = []
            for current in states:
                after += _inner(it, current, name, one)
            states = it.merge(after)
    finally:
        it.depth -= 1
    for one_state in states:
        if name in SPECIALS and name not in ("env", "xargs", "parallel") and one_state.capture:
            one_state.emit(output.of_program(it, one_state, name, argv))
        if name not in ("env", "sudo", "command"):
            one_state.status = None
    return states


_RESETTING = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "run0"})
"""Programs that run a command in an environment other than their own."""


def _inner(it: Interpreter, state: State, name: str, one: Inner) -> list[State]:
    context = it.context
    changes = {
        "wrappers": (*context.wrappers, name),
        "place": one.place or context.place,
        "fed": context.fed or one.fed,
    }
    env, cwds, stdin, wild, files = state.env, state.cwds, state.stdin, state.wild, state.files
    if one.bare or name in _RESETTING:
        state.wild |= Taint.UNKNOWN
    if one.environment:
        state.env = {**env, **one.environment}
    if one.mounts:
        given = tuple((to, path) for to, source in one.mounts for path in filestate.absolute(it, state, source.text))
        changes["mounts"] = given
        state.cwds, state.files = (one.cwd.text,) if one.cwd is not None else (), mounts.inside(given, files)
    elif one.cwd is not None:
        found = filestate.absolute(it, state, one.cwd.text) if one.cwd.known else []
        state.cwds = tuple(path for path in found if path.startswith("/"))
    if one.place and not one.place.startswith("chroot"):
        state.cwds, state.files = (), {}
    if one.stdin is not None:
        state.stdin = one.stdin
    elif name in ("find", "xargs", "fd", "parallel"):
        state.stdin = None
    if one.text is not None:
        text = one.text
        results = it.within(lambda: _text(it, state, text), **changes)
    else:
        results = it.within(lambda: child(it, state, one.argv), **changes)
    for result in results:
        result.env, result.cwds, result.stdin, result.wild = env, cwds, stdin, wild
        if one.place or one.mounts:
            result.files = files
    return results


def _text(it: Interpreter, state: State, text: Value) -> list[State]:
    return code.shell_text(it, state, text, "argument", [Value("sh"), Value("-c"), text])


def _program_file(it: Interpreter, state: State, name: str, argv: Values, targets: Targets) -> list[State] | None:
    """``./x``, ``bin/x``: a script, a program of another name, or None where nothing is known of it."""
    path = argv[0]
    names = filestate.absolute(it, state, path.text)
    for one in names:
        if one in state.hashed:
            return run(it, state, [state.hashed[one], *argv[1:]], targets)
    written = any(one in state.files for one in names)
    if not written and ((len(names) == 1 and names[0].startswith(_SYSTEM)) or not names[0].startswith("/")):
        return None
    text = filestate.content(it, state, path)
    if text is None:
        return None
    if text.known:
        head = text.text.partition("\n")[0]
        language = head[2:].strip() if head.startswith("#!") else ""
        return code.script(it, state, text, language, argv, targets, name)
    unread = not written and any(it.snapshot.look(one).kind == "unreadable" for one in names)
    if written or unread or text.taint & (Taint.REMOTE | Taint.DECODED):
        it.act(state, argv, targets, code=[Code("shell", text, "file", names[0])])
        if state.capture:
            state.emit(unknown(text.taint))
        state.status = None
        return [state]
    return None
