"""Programs: resolve wrappers, read code and scripts, record the files they write."""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.folders import under
from tools.judge.globs import part_matches
from tools.judge.meaning import (
    code,
    effects,
    feeding,
    filestate,
    interpreters,
    journal,
    keys,
    launching,
    mounts,
    output,
    owned,
    preset,
    recipes,
    sources,
    tables,
    tails,
)
from tools.judge.meaning.act import Code, RedirectTarget
from tools.judge.meaning.ending import finished
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, names, unglobbed, unknown
from tools.judge.meaning.walk import DETACHED, Walker
from tools.judge.meaning.wrappers import Inner, inner
from tools.judge.shell.tree import Simple

Values = Sequence[Value]
Targets = Sequence[RedirectTarget]

_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/")
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - compared, not used
_MAYBE_NOTHING = Taint.REMOTE | Taint.DECODED | Taint.SECRET


def unknown_command(it: Walker, state: State, argv: Values, targets: Targets, cmd: Simple | None) -> list[State]:
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


def child(it: Walker, state: State, argv: Values, targets: Targets = ()) -> list[State]:
    """Run a program that another one starts: not a function or a builtin."""
    if not argv:
        state.status = None
        return [state]
    it.limits.step()
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


def run(it: Walker, state: State, argv: Values, targets: Targets) -> list[State]:
    if "/" not in argv[0].text and path_of(it, state):
        _shadowed(it, state, argv, targets)
    if "/" in argv[0].text and (other := _identity(it, state, argv[0])) is not None:
        return run(it, state, [other, *argv[1:]], targets)
    name = filestate.program_name(state, argv)
    _with_options(it, state, argv, targets)
    argv = launching.expanded(it, state, name, preset.extended(it, state, name, argv))
    wrappers, special = tables.WRAPPERS.rows.get(name, ()), tables.SPECIALS.rows.get(name)
    found = inner(wrappers, argv) or []
    if special is not None:
        file = feeding.list_of(argv) if name in feeding.LISTS else None
        given = state.stdin if file is None else filestate.content(it, state, file)
        if name in feeding.LISTS and given is not None and len(given.text.split()) > feeding.MOST:
            filestate.lost(it, given)
        found += special(argv, given)
        for one in found if file is not None else ():
            one.own = True  # the program itself reads that file
    if found:
        return _wrapped(it, state, name, argv, targets, [*found, *recipes.inner(it, state, name, argv)])
    if name in interpreters.SHELLS:
        return code.shell_program(it, state, name, argv, targets)
    spec = tables.interpreter(name)
    if spec is not None:
        return code.interpreter(it, state, name, spec, argv, targets)
    first = argv[0].text
    if "/" in first and (found_codes := _program_file(it, state, name, argv, targets)) is not None:
        return found_codes
    tails.follow(it, state, name, argv)
    if pieces := sources.compiled(it, state, name, argv):
        code.evaluated(it, state, name, pieces)
    if steps := recipes.inner(it, state, name, argv):
        return _wrapped(it, state, name, argv, targets, steps)
    it.act(state, keys.marked(it, state, argv), targets)
    return finished(it, state, name, argv)


_BEFORE_NAMES = frozenset("*?[-+@!")
"""First characters of a pattern that may match a name with a leading dash."""


def _with_options(it: Walker, state: State, argv: Values, targets: Targets) -> None:
    """If a pattern matches files of the session whose names look like options, run the program with these names too."""
    for value in argv[1:]:
        if value.pattern and value.text[0] in _BEFORE_NAMES and "/" not in value.text:
            break
    else:
        return
    dashed = [name for path in owned.below(it, state, ".", "", deep=False) if (name := path.rpartition("/")[2])[0] == "-"]
    found: list[Value] = []
    for value in argv if dashed else ():
        if value.pattern and "/" not in value.text:
            found += [Value(name) for name in dashed if part_matches(value.text, name)]
        found.append(unglobbed(value) if value.pattern else value)
    if len(found) > len(argv):
        run(it, state.copy(), found, targets)


_BOXES = ("busybox", "toybox", "coreutils")
"""Programs that act according to the name that they are called by."""


def _identity(it: Walker, state: State, first: Value) -> Value | None:
    """Return the program behind the file ``first``, with links and copies followed; None if its name fits the program."""
    found: set[str] = set()
    for name in filestate.absolute(it, state, first.text):
        if HOLE in name or name[:1] != "/" or (name.startswith(("/lib", *_SYSTEM)) and name not in state.files):
            continue
        entry = journal.find(state.files, name) if state.files else None
        if entry is not None and entry.shown != journal.DISK:
            continue
        there = entry.text if entry is not None else name
        there = filestate.real(it, there)
        there = filestate.copy_of(it, there) or there
        if there != name and _is_another(name, there):
            base = there.rpartition("/")[2]
            own = name.rpartition("/")[2]
            found.add(own if base in _BOXES and not own.startswith(base) else there)
    return first._replace(text=min(found), shown="") if found else None


def _is_another(name: str, there: str) -> bool:
    """Return whether the program at ``there`` differs from the one that ``name`` suggests; ``python3.12`` is ``python``."""
    own, base = name.rpartition("/")[2], there.rpartition("/")[2]
    plain = filestate.is_program(name) and base.startswith(own) and not base[len(own) :].strip("0123456789.-")
    return not plain and (there.startswith(_SYSTEM) or filestate.is_program(there))


def _copied_program(it: Walker, state: State, path: Value, argv: Values, targets: Targets) -> list[State] | None:
    """Run a copied program as unknown code; return None, without running it, if its original is known."""
    for name in filestate.absolute(it, state, path.text):
        entry = journal.find(state.files, name) if state.files else None
        of_disk = entry is not None and entry.shown == journal.DISK
        source = entry.text if entry is not None and of_disk else filestate.copy_of(it, name)
        if not source or not _is_known(it, source):
            return code.unread(it, state, path, argv, targets, "a copy of another program")
    return None


def _is_known(it: Walker, path: str) -> bool:
    """Return whether a compiled program is trusted: one of the system's, or one that the session did not assemble."""
    for _ in range(_MOST_COPIES):
        if not path:
            break
        if path.startswith(_SYSTEM) or not filestate.origin(it, path) & Taint.PROGRAM:
            return True
        path = filestate.copy_of(it, path)
    return False


_MOST_COPIES = 8


def path_of(it: Walker, state: State) -> str:
    """Return PATH as far as it is known; "" if it is not set."""
    var = state.vars.get("PATH")
    value = state.env.get("PATH") or (var.scalar() if var is not None else None)
    return value.text if value is not None else it.now.variables.get("PATH", "")


def placed(it: Walker, state: State, name: str) -> list[str]:
    """Return the files called ``name`` in folders of PATH where the session, the project or another user can write."""
    found: list[str] = []
    for entry in path_of(it, state).split(":"):
        if HOLE in entry:
            continue
        for folder in filestate.absolute(it, state, entry or "."):
            if not folder.startswith("/") or folder.startswith(_SYSTEM):
                continue
            file = f"{folder}/{name}"
            near = folder.startswith(_OPEN_TO_ALL) or any(under(folder, cwd) for cwd in state.cwds)
            if journal.find(state.files, file) is not None or (near and it.snapshot.inspect_path(file).kind != "missing"):
                found.append(file)
    return found


def _shadowed(it: Walker, state: State, argv: Values, targets: Targets) -> None:
    """Besides a program such as ``git``, run the files of the same name that ``placed`` returns.

    Also run the session's own files in these folders that the program would start as helpers, such as ``git-NAME``.
    """
    for file in [*placed(it, state, argv[0].text), *launching.helpers(it, state, argv[0].text, path_of(it, state))]:
        if file not in it.context.shadowing:
            with it.inside() as inner:
                inner.shadowing |= {file}
                run(it, state.copy(), [argv[0]._replace(text=file), *argv[1:]], targets)


def _wrapped(it: Walker, state: State, name: str, argv: Values, targets: Targets, found: list[Inner]) -> list[State]:
    if it.too_deep("wrapped too deeply"):
        return [state]
    special, slow = name in tables.SPECIALS.rows, it.found.slow
    if targets or any(one.own for one in found) or (special and name not in ("xargs", "env", "parallel", "gxargs")):
        it.act(state, argv, targets)
        it.found.slow = slow  # its commands follow
    effects.apply(it, state, name, argv)
    states = [state]
    for one in found:
        after: list[State] = []
        for current in states:
            after += _inner(it, current, name, one)
        states = it.merge(after)
    it.found.slow = it.found.slow or bool(it.context.outlasts)
    for one_state in states:
        if special and name not in ("env", "xargs", "parallel") and one_state.capture:
            one_state.emit(output.of_program(it, one_state, name, argv))
        if name not in ("env", "sudo", "command"):
            one_state.status = None
    return states


_RESETTING = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "run0"})
"""Programs that run a command in a different environment from their own."""


_REPEATS = names("watch find gfind fd fdfind xargs gxargs parallel")
_DETACHES = names("setsid daemon daemonize start-stop-daemon systemd-run at batch tmux screen dtach abduco pueue tsp nq")
"""Programs that may return while the command that they start still runs."""


def _inner(it: Walker, state: State, name: str, one: Inner) -> list[State]:
    mounted: tuple[tuple[str, str], ...] = ()
    env, cwds, stdin, wild, files = state.env, state.cwds, state.stdin, state.wild, state.files
    if one.bare or name in _RESETTING:
        state.wild |= Taint.UNKNOWN
    if one.environment:
        state.env = {**env, **one.environment}
    if one.mounts:
        mounted = tuple((to, path) for to, source in one.mounts for path in filestate.absolute(it, state, source.text))
        state.cwds, state.files = (one.cwd.text,) if one.cwd is not None else (), mounts.inside(mounted, files)
    elif one.cwd is not None:
        found = filestate.absolute(it, state, one.cwd.text) if one.cwd.known else []
        state.cwds = tuple(path for path in found if path.startswith("/"))
    if one.place and not one.place.startswith("chroot"):
        state.cwds, state.files = (), {}
    if one.stdin is not None:
        state.stdin = one.stdin
    elif name in ("find", "xargs", "fd", "parallel"):
        state.stdin = None
    with it.inside() as inner:
        inner.wrappers = (*inner.wrappers, name)
        inner.place = one.place or inner.place
        inner.fed = inner.fed or one.fed
        inner.later = inner.later or name in ("at", "batch")
        inner.outlasts = DETACHED if name in _DETACHES else inner.outlasts
        inner.loops += name in _REPEATS
        inner.mounts, inner.copied = mounted or inner.mounts, inner.copied or one.copied
        inner.depth += 1
        results = _text(it, state, one.text) if one.text is not None else child(it, state, one.argv)
    for result in results:
        result.env, result.cwds, result.stdin, result.wild = env, cwds, stdin, wild
        if one.place or one.mounts:
            result.files = files
    return results


def _text(it: Walker, state: State, text: Value) -> list[State]:
    return code.shell_text(it, state, text, "argument", [Value("sh"), Value("-c"), text])


def _program_file(it: Walker, state: State, name: str, argv: Values, targets: Targets) -> list[State] | None:
    """Run ``./x`` or ``bin/x``: a script, or a copy of a program under another name. Return None if the caller has
    to judge it like an ordinary program.
    """
    path = argv[0]
    names = filestate.absolute(it, state, path.text)
    if (len(names) == 1 and names[0].startswith(_SYSTEM) and names[0] not in state.files) or not names[0].startswith("/"):
        return None
    if maker := code.unfollowed(it, state, path):
        return code.unread(it, state, path, argv, targets, maker)
    text = filestate.content(it, state, path)
    if text is None:
        return None
    if text.known:
        head = text.text.partition("\n")[0]
        language = head[2:].strip() if head.startswith("#!") else ""
        return code.script(it, state, text, language, argv, targets, name)
    written = any(one in state.files for one in names)
    unread = not written and any(it.snapshot.inspect_path(one).kind == "unreadable" for one in names)
    if text.taint & Taint.PROGRAM and (written or any(filestate.origin(it, one) & Taint.PROGRAM for one in names)):
        return _copied_program(it, state, path, argv, targets)
    if written or unread or text.taint & (Taint.REMOTE | Taint.DECODED):
        it.act(state, argv, targets, code=[Code("shell", text, "file", names[0])])
        if state.capture:
            state.emit(unknown(text.taint))
        state.status = None
        return [state]
    return None
