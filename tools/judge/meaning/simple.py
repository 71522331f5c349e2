"""Simple commands: aliases, assignments, redirects, and then the command that the name stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.meaning import assigning, expand, external, failed_expansions, flow, streams, tables, traps
from tools.judge.meaning.act import RedirectTarget
from tools.judge.meaning.call import BuiltinCall
from tools.judge.meaning.shellstate import UNDEFINED, Body, State, Var
from tools.judge.meaning.streams import Streams
from tools.judge.meaning.value import HOLE, Value, changed, joined, settled, unknown
from tools.judge.meaning.walk import Doubts, Walker
from tools.judge.shell.tree import (
    AndOr,
    Assignment,
    Command,
    Function,
    Group,
    Pipeline,
    Plain,
    Redirected,
    Script,
    ScriptItem,
    Simple,
    Word,
)


class Prepared(NamedTuple):
    argv: list[Value]
    streams: Streams


def run(it: Walker, cmd: Simple, state: State) -> list[State]:
    it.limits.step()
    if it.found.traps:
        traps.again(it, state)
    if it.context.span is None:
        it.span = (cmd.start, cmd.end)
    if state.aliases and cmd.words:
        spliced = _aliased(it, cmd, state)
        if spliced is not None:
            return spliced
    context = it.context
    outer, doubts = context.doubts, Doubts(0, None if cmd.words else 0)
    context.doubts = doubts
    argv = it.constants(cmd)
    try:
        if argv is not None and not cmd.redirects:
            ended = _plain(it, cmd, state, [*argv])
            return _last_noted(ended, argv) if it.found.last else ended
        before = state.copy()
        passes = [(state, _prepared(it, cmd, state, argv))]
        for number in _more_passes(doubts) if doubts.names else ():
            doubts.choice, other = number, before.copy()
            passes.append((other, _prepared(it, cmd, other, argv)))
        doubts.choice = 0
        results = failed_expansions.after(it, doubts) if doubts.failed else []
        several = bool(results) or len(passes) > 1
        for one, prepared in passes:
            ended = _assigned(it, cmd, one, prepared)
            results += _last_noted(ended, prepared.argv) if it.found.last else ended
        return it.merge(results) if several else results
    finally:
        context.doubts = outer


def _last_noted(ended: list[State], argv: Sequence[Value]) -> list[State]:
    """Set ``$_`` to the last word of the command."""
    for end in ended:
        end.put("_", Var(changed(settled(argv[-1:])[0]) if argv else unknown()))
    return ended


def _prepared(it: Walker, cmd: Simple, state: State, constants: Sequence[Value] | None) -> Prepared:
    argv = expand.fields(it, state, cmd.words) if constants is None else [*constants]
    return Prepared(argv, streams.opened(it, state, cmd.redirects))


def _more_passes(doubts: Doubts) -> Sequence[int]:
    """Return the choices of further passes: all uncertain variables unset and, if there are several, all of them unknown."""
    return ((), (1,), (1, 2))[min(len(doubts.names), 2)]


def _assigned(it: Walker, cmd: Simple, state: State, prepared: Prepared) -> list[State]:
    if not cmd.assignments:
        return _execute(it, cmd, state, prepared)
    if not prepared.argv:
        return _assignments_only(it, cmd, state, prepared)
    before = {one.name: state.vars.get(one.name) for one in cmd.assignments}
    now = dict(before)

    def expanded() -> None:
        """Record the variables that an expansion has set: they keep these values after the command."""
        for name, old in now.items():
            if (var := state.vars.get(name)) is not old:
                before[name] = now[name] = var

    for one in cmd.assignments:
        assigning.assign(it, state, one, expanded)
        var = state.vars.get(one.name)
        if var is not None and "x" not in var.flags:
            state.put(one.name, var._replace(flags=var.flags + "x"))
        now[one.name] = state.vars.get(one.name)
    results = _execute(it, cmd, state, prepared)
    kept = [one.copy() for one in results] if prepared.argv[0].text in _SPECIAL and _may_be_posix(it, state) else []
    for result in results:
        for name, old in before.items():
            result.put(name, old)
    return it.merge(results + kept) if kept else results


def _may_be_posix(it: Walker, state: State) -> bool:
    """Return whether the shell may be in POSIX mode, which keeps assignments before special builtins."""
    variable = "POSIXLY_CORRECT"
    return "posix" in state.options or variable in state.vars or variable in state.env or variable in it.now.variables


def _assignments_only(it: Walker, cmd: Simple, state: State, prepared: Prepared) -> list[State]:
    states, doubts = [state], it.context.doubts
    failed: list[State] = []
    for one in cmd.assignments:
        after: list[State] = []
        for current in states:
            doubts.choice, doubts.names = 0, set()
            before = current.copy()
            assigning.assign(it, current, one)
            after.append(current)
            for number in _more_passes(doubts) if doubts.names else ():
                doubts.choice, other = number, before.copy()
                assigning.assign(it, other, one)
                after.append(other)
        failed += failed_expansions.after(it, doubts)
        doubts.choice, doubts.names = 0, set()
        states = after if len(after) == 1 else it.merge(after)
    for current in states:
        current.status = doubts.substituted
        made: dict[str, Value] = {}
        for one in cmd.assignments:
            var = current.vars.get(one.name)
            if var is not None:
                made[one.name] = (
                    var.value if var.items is None and var.value is not None else joined((var.items or {}).values(), " ")
                )
        it.act(current, (), prepared.streams.targets, environment=made)
        streams.through(it, current, prepared.streams, lambda one: [one])
    return states + failed


def _execute(it: Walker, cmd: Simple, state: State, prepared: Prepared) -> list[State]:
    argv, stream = prepared
    if stream is streams.PLAIN:
        return _plain(it, cmd, state, argv)
    if _is_bare_exec(argv):
        it.act(state, argv, stream.targets)
        streams.kept(it, state, stream)
        return [state]
    return streams.through(it, state, stream, lambda one: _dispatched(it, one, argv, stream.targets, cmd))


def _plain(it: Walker, cmd: Simple, state: State, argv: Sequence[Value]) -> list[State]:
    """Run a command without redirects."""
    if _is_bare_exec(argv):
        it.act(state, argv)
        return [state]
    return _dispatched(it, state, argv, (), cmd)


def _is_bare_exec(argv: Sequence[Value]) -> bool:
    return len(argv) == 1 and argv[0].text == "exec"


def _dispatched(it: Walker, state: State, argv: Sequence[Value], targets: Sequence[RedirectTarget], cmd: Simple) -> list[State]:
    results = dispatch(it, state, argv, targets, cmd)
    doubts = it.context.doubts  # a builtin that sets variables may fail as an assignment does
    return results + failed_expansions.after(it, doubts) if doubts.failed else results


def dispatch(
    it: Walker,
    state: State,
    argv: Sequence[Value],
    targets: Sequence[RedirectTarget],
    cmd: Simple | None = None,
    *,
    functions: bool = True,
) -> list[State]:
    """Run the command that a name stands for: a function, a builtin or a program."""
    if not argv:
        if targets:
            it.act(state, (), targets)
            if state.capture and state.stdin is not None and targets[0].op == "<":
                state.emit(state.stdin)
        state.status = it.context.doubts.substituted
        return [state]
    first = argv[0]
    name = first.text
    if HOLE in name or first.pattern:
        return external.unknown_command(it, state, argv, targets, cmd)
    if functions and (name in state.functions or name in it.now.functions) and (bodies := _function(it, state, name)):
        if targets:
            it.act(state, (), targets)
        passed_on = "child" not in state.options or name in state.functions
        if passed_on and name not in _SPECIAL and "functions?" not in state.options:
            known = [body for body in bodies if body is not UNDEFINED]
            if len(known) == len(bodies):
                return flow.call(it, state, name, bodies, argv[1:])
            called = flow.call(it, state.copy(), name, known, argv[1:])
            return it.merge(called + dispatch(it, state, argv, targets, cmd, functions=False))
        # The shell may not call the function: it may not be exported, may be unset, or a builtin may precede it in POSIX mode.
        flow.call(it, state.copy(), name, bodies, argv[1:])
    if name in state.hashed:
        argv = [state.hashed[name], *argv[1:]]
        name = argv[0].text
    handler = tables.BUILTINS.rows.get(name)
    if handler is not None:
        return handler(BuiltinCall(it, state, argv, targets, cmd))
    return external.run(it, state, argv, targets)


_SPECIAL = frozenset({"break", ":", ".", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift",
                      "source", "times", "trap", "unset"})  # fmt: skip
"""Builtins that have precedence over functions in POSIX mode."""


def _function(it: Walker, state: State, name: str) -> tuple[Body, ...]:
    bodies = state.functions.get(name)
    if bodies is not None:
        return bodies if bodies != (UNDEFINED,) else ()
    text = it.now.functions.get(name)
    if text is None:
        return ()
    script = it.parse(text)
    if script is None:
        return ()
    command: Command = Group(script)
    for item in script.items:
        if isinstance(item.command, Function) and item.command.name == name:
            command = item.command.body
    found = (Body(command, text),)
    if "child" not in state.options:
        state.functions = {**state.functions, name: found}
    return found


def define(it: Walker, command: Function, state: State) -> None:
    state.functions = {
        **state.functions,
        command.name: (Body(command.body, it.context.text, (it.context.epoch, it.context.line)),),
    }


def redirected(it: Walker, command: Redirected, state: State) -> list[State]:
    stream, failed = failed_expansions.attempted(it, streams.opened, it, state, command.redirects)
    count = len(it.found.acts)
    noted = it.act(state, (), stream.targets, compound=True) if stream.targets else None
    fresh = len(it.found.acts) > count
    results = streams.through(it, state, stream, lambda one: it.command(command.command, one))
    if noted is not None:
        texts = [one.text.replace(HOLE, "") for one in stream.produced]
        noted.prints = (fresh or noted.prints) and bool(texts) and all(map(str.strip, texts))
    return results + failed


# -- aliases -------------------------------------------------------------------------------------------------------


_QUOTED = Regex(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_CUTS = Regex(r"(?:^|[\s;&|()])#|(?<!<)<<(?!<)|['\"\\]")
"""The beginning of a comment, a here-document or an unclosed quote in an alias, which would extend beyond its text."""


def _aliased(it: Walker, cmd: Simple, state: State) -> list[State] | None:
    """Return the states after the command with its alias expanded, or None if it runs without an alias."""
    word = cmd.words[0]
    if not isinstance(word, Word) or len(word.parts) != 1:
        return None
    part = word.parts[0]
    entry = state.aliases.get(part.text) if isinstance(part, Plain) else None
    if entry is None or not isinstance(part, Plain):
        return None
    text, epoch, line = entry
    if _CUTS.search(_QUOTED.sub("_", text)):  # the shell reads the text after the alias differently than it was parsed here
        it.fault("opaque", f"the alias {part.text} may begin a comment, a quote or a here-document")
    aliases = state.aliases
    inner = {name: value for name, value in aliases.items() if name != part.text}
    now = it.context.parsed or (it.context.epoch, it.context.line)
    certain = epoch < now[0] or (epoch == now[0] and line < now[1])
    certain = certain and "expand_aliases" in state.options
    plain: list[State] = []
    other = state if certain else state.copy()
    script = _spliced(it, cmd, text, inner)
    if script is None:
        if not certain:
            return None
        it.fault("opaque", f"the command can't be parsed after the alias {part.text} is expanded")
        return [state]
    other.aliases = inner
    results = it.script(script, other)
    for one in results:
        if one.aliases is inner:
            one.aliases = aliases
    if not certain:
        state.aliases = inner
        plain = run(it, cmd, state)
        for one in plain:
            if one.aliases is inner:
                one.aliases = aliases
    return it.merge(results + plain)


def _spliced(it: Walker, cmd: Simple, text: str, aliases: Mapping[str, tuple[str, int, int]]) -> Script | None:
    rest = list(cmd.words[1:])
    if text[-1:] in (" ", "\t") and rest and isinstance(rest[0], Word):
        part = rest[0].parts[0] if len(rest[0].parts) == 1 else None
        follower = part.text if isinstance(part, Plain) else ""
        if follower in aliases:
            text += aliases[follower][0]
            rest = rest[1:]
    faults = dict(it.found.faults)
    script = it.parse(text)
    if script is None:
        it.found.faults = faults
        source = it.context.text[cmd.start : cmd.end]
        name = getattr(getattr(cmd.words[0], "parts", [None])[0], "text", "")
        at = source.find(name)
        script = it.parse(f"{source[:at]}{text}{source[at + len(name) :]}") if at >= 0 else None
        it.found.faults = faults
        return script
    if not script.items:
        return Script([ScriptItem(Simple(cmd.assignments, rest, cmd.redirects, cmd.start, cmd.end))]) if rest else script
    items = list(script.items)
    last = _extended(items[-1].command, cmd, rest)
    if last is None:
        items.append(ScriptItem(Simple(cmd.assignments, rest, cmd.redirects, cmd.start, cmd.end)))
    else:
        items[-1] = ScriptItem(last, items[-1].background)
    return Script(items)


def _extended(command: Command, cmd: Simple, rest: Sequence[Word | Assignment]) -> Command | None:
    """Return the alias's last command with the words that came after the alias; None if it is a compound command."""
    if isinstance(command, Simple):
        words = [*command.words, *rest]
        assignments = [*cmd.assignments, *command.assignments]
        return Simple(assignments, words, [*command.redirects, *cmd.redirects], cmd.start, cmd.end)
    if isinstance(command, Pipeline):
        last = _extended(command.commands[-1], cmd, rest)
        if last is None:
            return None
        return Pipeline([*command.commands[:-1], last], command.negated, command.timed, command.stderr_too)
    if isinstance(command, AndOr):
        right = _extended(command.right, cmd, rest)
        return None if right is None else AndOr(command.left, command.op, right)
    return None
