"""Simple commands: aliases, assignments, redirects, and then whatever the name stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tools.approval.meaning import arithmetic, builtins, expand, external, flow, parameters, streams
from tools.approval.meaning.act import Target
from tools.approval.meaning.call import Call
from tools.approval.meaning.shellstate import Body, State, Var
from tools.approval.meaning.streams import Streams
from tools.approval.meaning.value import EMPTY, HOLE, Value, either, joined, unknown
from tools.approval.shell.tree import (
    AndOr,
    Assignment,
    Command,
    Compound,
    Function,
    Group,
    Item,
    Pipeline,
    Plain,
    Redirected,
    Script,
    Simple,
    Word,
)

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter

_LATE = frozenset({"PS0", "PS1", "PS2", "PS4"})
"""Variables whose text bash expands when it shows them."""


class Prepared(NamedTuple):
    argv: list[Value]
    streams: Streams


def run(it: Interpreter, cmd: Simple, state: State) -> list[State]:
    it.step()
    if it.context.span is None:
        it.span = (cmd.start, cmd.end)
    if state.aliases and cmd.words:
        spliced = _aliased(it, cmd, state)
        if spliced is not None:
            return spliced
    choice, forked = it.choice, it.forked
    it.choice, it.forked, it.mishap, it.substituted = 0, False, False, None if cmd.words else 0
    try:
        second: State | None = None
        prepared = Prepared(expand.fields(it, state, cmd.words), streams.opened(it, state, cmd.redirects))
        if it.forked:
            second = state.copy()
            it.choice = 1
            again = Prepared(expand.fields(it, second, cmd.words), streams.opened(it, second, cmd.redirects))
            it.choice = 0
        failed = _failed(state) if it.mishap else []
        it.mishap = False
        results = _assigned(it, cmd, state, prepared)
        if failed:
            results = it.merge([*results, *failed])
        if second is not None:
            results += _assigned(it, cmd, second, again)
            results = it.merge(results)
        return results
    finally:
        it.choice, it.forked = choice, forked


def _failed(state: State) -> list[State]:
    """Where an expansion goes wrong, the command is not executed, nor what it is a part of."""
    kept = state.copy()
    kept.status = -1
    ended = state.copy()
    ended.status, ended.flow = -1, "abort"
    return [kept, ended]


def _assigned(it: Interpreter, cmd: Simple, state: State, prepared: Prepared) -> list[State]:
    if not cmd.assignments:
        return _execute(it, cmd, state, prepared)
    if not prepared.argv:
        return _assignments_only(it, cmd, state, prepared)
    before = {one.name: state.vars.get(one.name) for one in cmd.assignments}
    for one in cmd.assignments:
        assign(it, state, one)
        var = state.vars.get(one.name)
        if var is not None and "x" not in var.flags:
            state.put(one.name, var._replace(flags=var.flags + "x"))
    results = _execute(it, cmd, state, prepared)
    for result in results:
        for name, old in before.items():
            result.put(name, old)
    return results


def _assignments_only(it: Interpreter, cmd: Simple, state: State, prepared: Prepared) -> list[State]:
    states = [state]
    for one in cmd.assignments:
        after: list[State] = []
        for current in states:
            it.choice, it.forked = 0, False
            other = current.copy()
            assign(it, current, one)
            after.append(current)
            if it.mishap:
                after += _failed(other)
                it.mishap = False
            if it.forked:
                it.choice = 1
                assign(it, other, one)
                after.append(other)
        it.choice, it.forked = 0, False
        states = after if len(after) == 1 else it.merge(after)
    for current in states:
        current.status = it.substituted
        made: dict[str, Value] = {}
        for one in cmd.assignments:
            var = current.vars.get(one.name)
            if var is not None:
                made[one.name] = (
                    var.value if var.items is None and var.value is not None else joined((var.items or {}).values(), " ")
                )
        it.act(current, (), prepared.streams.targets, environment=made)
        streams.through(it, current, prepared.streams, lambda one: [one])
    return states


def _execute(it: Interpreter, cmd: Simple, state: State, prepared: Prepared) -> list[State]:
    argv, stream = prepared
    if argv and argv[0].text == "exec" and len(argv) == 1:
        it.act(state, argv, stream.targets)
        streams.kept(it, state, stream)
        return [state]
    if stream is streams.PLAIN:
        return dispatch(it, state, argv, (), cmd)
    return streams.through(it, state, stream, lambda one: dispatch(it, one, argv, stream.targets, cmd))


def dispatch(
    it: Interpreter,
    state: State,
    argv: Sequence[Value],
    targets: Sequence[Target],
    cmd: Simple | None = None,
    *,
    functions: bool = True,
) -> list[State]:
    """What a name stands for: a function, a builtin, a program."""
    if not argv:
        if targets:
            it.act(state, (), targets)
            if state.capture and state.stdin is not None and targets[0].op == "<":
                state.emit(state.stdin)
        state.status = it.substituted
        return [state]
    first = argv[0]
    name = first.text
    if HOLE in name or first.pattern:
        return external.unknown_command(it, state, argv, targets, cmd)
    if functions and (bodies := _function(it, state, name)):
        if targets:
            it.act(state, (), targets)
        return flow.call(it, state, name, bodies, argv[1:])
    if name in state.hashed:
        argv = [state.hashed[name], *argv[1:]]
        name = argv[0].text
    handler = builtins.TABLE.get(name)
    if handler is not None:
        return handler(Call(it, state, argv, targets, cmd))
    return external.run(it, state, argv, targets)


def _function(it: Interpreter, state: State, name: str) -> tuple[Body, ...]:
    bodies = state.functions.get(name)
    if bodies is not None:
        return bodies
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
    state.functions = {**state.functions, name: found}
    return found


def define(it: Interpreter, command: Function, state: State) -> None:
    state.functions = {**state.functions, command.name: (Body(command.body, it.context.text),)}


def redirected(it: Interpreter, command: Redirected, state: State) -> list[State]:
    choice, it.choice = it.choice, -1
    stream = streams.opened(it, state, command.redirects)
    it.choice = choice
    if stream.targets:
        it.act(state, (), stream.targets)
    return streams.through(it, state, stream, lambda one: it.command(command.command, one))


# -- variables -----------------------------------------------------------------------------------------------------


def assign(it: Interpreter, state: State, one: Assignment) -> None:
    """``name=value`` in all its forms."""
    compound = next((part for part in one.value.parts if isinstance(part, Compound)), None)
    if compound is not None:
        old = state.vars.get(one.name)
        flags = old.flags if old is not None else ""
        found, more = expand.items(it, state, compound, keyed="A" in flags)
        if one.append and old is not None:
            known = dict(old.items) if old.items is not None else ({"0": old.value} if old.value is not None else {})
            if "A" not in flags:
                shift = max((int(key) for key in known if key.isdigit()), default=-1) + 1
                explicit = {str(at) for at, (key, _) in enumerate(compound.items) if key is not None}
                found = {key if key in explicit else str(int(key) + shift): value for key, value in found.items()}
            found = {**known, **found}
            more = more or old.open
        state.put(one.name, Var(None, found, flags, more))
        return
    value = expand.single(it, state, one.value, assigned=True)
    key = None
    if one.index is not None:
        key = parameters.index_key(it, state, one.index, state.vars.get(one.name))
        key = HOLE if key is None else key
    store(it, state, one.name, value, key, append=one.append)


def store(it: Interpreter, state: State, name: str, value: Value, key: str | None = None, *, append: bool = False) -> None:
    """Sets a variable, or one element of it (``key`` HOLE: one that is not known)."""
    if "[" in name:
        name, _, key = name.rstrip("]").partition("[")
    var = state.vars.get(name)
    for _ in range(8):
        if var is None or "n" not in var.flags or var.value is None:
            break
        name, _, key = var.value.text.partition("[") if key is None else (var.value.text, "", key)
        key = key.rstrip("]") if isinstance(key, str) and key else None
        var = state.vars.get(name)
    old = var if var is not None else _inherited(it, name)
    if "r" in old.flags:
        return
    value = _by_flags(it, state, old, value, key, append=append)
    if key is not None or old.items is not None:
        _element(state, name, old, value, key)
    else:
        state.put(name, Var(value, None, _all_exported(state, old.flags)))
    _takes_effect(it, state, name, value)


def _inherited(it: Interpreter, name: str) -> Var:
    known = it.now.variables.get(name)
    return Var(Value(known), None, "") if known is not None else Var()


def _all_exported(state: State, flags: str) -> str:
    return flags + "x" if "allexport" in state.options and "x" not in flags else flags


def _by_flags(it: Interpreter, state: State, var: Var, value: Value, key: str | None, *, append: bool) -> Value:
    if "i" in var.flags:
        number = arithmetic.evaluate(it, state, value)
        if append and number is not None and var.value is not None:
            old = arithmetic.evaluate(it, state, var.value)
            number = None if old is None else old + number
        return unknown(value.taint) if number is None else Value(str(number), value.taint)
    if append:
        before = var.scalar() if key is None else (var.items or {}).get(key, unknown() if key == HOLE or var.open else EMPTY)
        if before is None and not var.flags and var.items is None and key is None:
            before = EMPTY if var.value is None else var.value
        value = joined([before or EMPTY, value])
        it.spend(len(value.text))
    if "l" in var.flags:
        value = value._replace(text=value.text.lower())
    elif "u" in var.flags:
        value = value._replace(text=value.text.upper())
    return value


def _element(state: State, name: str, old: Var, value: Value, key: str | None) -> None:
    items: dict[str, Value] = dict(old.items) if old.items is not None else {}
    if old.items is None and old.value is not None:
        items["0"] = old.value
    if key == HOLE:
        items = {one: either(kept, value) for one, kept in items.items()}
        state.put(name, Var(None, items or {"0": unknown(value.taint)}, old.flags, open=True))
        return
    items["0" if key is None else key] = value
    state.put(name, Var(None, items, old.flags, old.open))


def _takes_effect(it: Interpreter, state: State, name: str, value: Value) -> None:
    """Variables whose text the shell itself runs."""
    if name == "PROMPT_COMMAND":
        it.text(value.text, state.copy())
    elif name in _LATE:
        it.embedded(state, value)
    elif name in ("BASH_ENV", "ENV") and value.text:
        it.embedded(state, value)
        external.script_file(it, state.copy(), value, [value], "shell", [Value("bash")], ())


# -- aliases -------------------------------------------------------------------------------------------------------


def _aliased(it: Interpreter, cmd: Simple, state: State) -> list[State] | None:
    """The states after the command with its alias put in; None where there is none."""
    word = cmd.words[0]
    if not isinstance(word, Word) or len(word.parts) != 1:
        return None
    part = word.parts[0]
    entry = state.aliases.get(part.text) if isinstance(part, Plain) else None
    if entry is None or not isinstance(part, Plain):
        return None
    text, epoch, line = entry
    aliases = state.aliases
    inner = {name: value for name, value in aliases.items() if name != part.text}
    certain = epoch < it.context.epoch or (epoch == it.context.epoch and line < it.line)
    certain = certain and ("expand_aliases" in state.options or it.now.interactive)
    plain: list[State] = []
    other = state if certain else state.copy()
    script = _spliced(it, cmd, text, inner)
    if script is None:
        if not certain:
            return None
        it.fault("opaque", f"the alias {part.text} can't be put in its place")
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


def _spliced(it: Interpreter, cmd: Simple, text: str, aliases: Mapping[str, tuple[str, int, int]]) -> Script | None:
    rest = list(cmd.words[1:])
    if text[-1:] in (" ", "\t") and rest and isinstance(rest[0], Word):
        follower = getattr(rest[0].parts[0], "text", "") if len(rest[0].parts) == 1 else ""
        if follower in aliases:
            text += aliases[follower][0]
            rest = rest[1:]
    faults = dict(it.faults)
    script = it.parse(text)
    if script is None:
        it.faults = faults
        source = it.context.text[cmd.start : cmd.end]
        name = getattr(getattr(cmd.words[0], "parts", [None])[0], "text", "")
        at = source.find(name)
        script = it.parse(f"{source[:at]}{text}{source[at + len(name) :]}") if at >= 0 else None
        it.faults = faults
        return script
    if not script.items:
        return Script([Item(Simple(cmd.assignments, rest, cmd.redirects, cmd.start, cmd.end))]) if rest else script
    items = list(script.items)
    last = _extended(items[-1].command, cmd, rest)
    if last is None:
        items.append(Item(Simple(cmd.assignments, rest, cmd.redirects, cmd.start, cmd.end)))
    else:
        items[-1] = Item(last, items[-1].background)
    return Script(items)


def _extended(command: Command, cmd: Simple, rest: Sequence[Word | Assignment]) -> Command | None:
    """The alias's last command with the words that stood behind the alias."""
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
