"""The shell's builtins that print, change later commands, or run text."""

from __future__ import annotations

import re

from tools.judge.meaning import arithmetic, code, conditions, external, file_reads, moving, output, tables, traps
from tools.judge.meaning.call import BuiltinCall
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, joined, settled, tainted, unknown


def _nothing(call: BuiltinCall) -> list[State]:
    call.record_act()
    return call.end(0)


def _false(call: BuiltinCall) -> list[State]:
    return call.end(1)


def _prints(call: BuiltinCall) -> list[State]:
    call.record_act()
    if call.state.capture and call.argv[1:2] and call.argv[0].text == "printf" and call.argv[1].text == "-v":
        return file_reads.printf_into(call)
    if call.argv[0].text == "printf" and call.argv[1:2] and call.argv[1].text.startswith("-v"):
        return file_reads.printf_into(call)
    if call.state.capture:
        call.state.emit(output.of_program(call.it, call.state, call.argv[0].text, call.argv))
    return call.end(0)


def _test(call: BuiltinCall) -> list[State]:
    call.record_act()
    values = list(call.argv[1:])
    if call.argv[0].text == "[" and values and values[-1].text == "]":
        values.pop()
    answer = conditions.truth(call.it, call.state, values)
    return call.end(None if answer is None else int(not answer))


def _exit(call: BuiltinCall) -> list[State]:
    call.record_act()
    state, words = call.state, call.argv[1:]
    name = call.argv[0].text
    number = int(words[0].text) if words and words[0].text.isdigit() else None
    if name == "return":
        if state.frames or call.it.context.sourced:
            state.flow = "return"
            return call.end(number if words else state.status)
        return call.end(2)
    if len(words) > 1:
        return call.end(None)
    state.flow = "exit"
    return call.end(number if words else state.status)


def _break(call: BuiltinCall) -> list[State]:
    words = call.argv[1:]
    call.state.flow = call.argv[0].text
    call.state.levels = int(words[0].text) if words and words[0].text.isdigit() and words[0].text != "0" else 1
    return call.end(0)


def _shift(call: BuiltinCall) -> list[State]:
    call.record_act()
    state = call.state
    count = arithmetic.evaluate(call.it, state, call.argv[1]) if len(call.argv) > 1 else 1
    if count is None or any(value.text == HOLE for value in state.positional[:count]):
        state.positional = (unknown(joined(state.positional).taint),)
        return call.end(None)
    if count > len(state.positional):
        return call.end(1)
    state.positional = state.positional[count:]
    return call.end(0)


_SET = {"a": "allexport", "C": "noclobber"}


def _set(call: BuiltinCall) -> list[State]:
    call.record_act()
    state = call.state
    words = call.argv[1:]
    if not words:
        state.emit(unknown(Taint.SECRET))
        return call.end(0)
    for at, value in enumerate(words):
        text = value.text
        if text in ("--", "-"):
            if words[at + 1 :] or text == "--":
                state.positional = settled(words[at + 1 :])
            break
        if text in ("-o", "+o") or (text[:1] in "-+" and at and words[at - 1].text in ("-o", "+o")):
            continue
        if at and words[at - 1].text in ("-o", "+o"):
            state.options = state.options | {text} if words[at - 1].text == "-o" else state.options - {text}
            continue
        if text[:1] not in ("-", "+") or not text[1:]:
            state.positional = settled(words[at:])
            break
        named = {_SET[letter] for letter in text[1:] if letter in _SET}
        state.options = state.options | named if text[0] == "-" else state.options - named
    return call.end(0)


def _shopt(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = [value.text for value in call.argv[1:]]
    named = {word for word in words if not word.startswith("-")}
    if any(re.fullmatch(r"-\w*s\w*", word) for word in words):
        call.state.options |= named
    elif any(re.fullmatch(r"-\w*u\w*", word) for word in words):
        call.state.options -= named
    return call.end(None)


def _let(call: BuiltinCall) -> list[State]:
    call.record_act()
    number: int | None = None
    for value in call.argv[1:]:
        number = arithmetic.command(call.it, call.state, value)
    return call.end(None if number is None else int(number == 0))


def _alias(call: BuiltinCall) -> list[State]:
    call.record_act()
    state = call.state
    for value in call.argv[1:]:
        name, equals, text = value.text.partition("=")
        if equals:
            state.aliases = {**state.aliases, name: (text, call.it.context.epoch, call.it.context.line)}
    return call.end(0)


def _unalias(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = {value.text for value in call.argv[1:]}
    state = call.state
    state.aliases = {} if "-a" in words else {name: text for name, text in state.aliases.items() if name not in words}
    return call.end(None)


def _trap(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = [value for value in call.argv[1:] if value.text not in ("--",)]
    state = call.state
    if len(words) < 2 or words[0].text.startswith("-"):
        return call.end(0)
    text = words[0]
    if text.text and text.text != HOLE:
        if traps.is_recurring(frozenset(value.text.upper().removeprefix("SIG") for value in words[1:])):
            traps.begin(call.it, state, text.text)
        now, child = call.it.now, "child" in state.options
        inherited = (name for name in now.variables if not child or "x" in now.attributes.get(name, ""))
        state.trapped(text.text, (name for name in inherited if name not in now.made))
    return call.end(0)


def _hash(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = list(call.argv[1:])
    if words and words[0].text == "-p" and len(words) > 2:
        call.state.hashed = {**call.state.hashed, **{value.text: words[1] for value in words[2:]}}
    return call.end(None)


def _history_again(call: BuiltinCall) -> list[State]:
    """Run a line of the history, which may be anything: ``fc -s``, ``fc -e EDITOR``."""
    options = [value.text for value in call.argv[1:] if value.text[:1] == "-" and not value.text[1:].isdigit()]
    if options and any("l" in text for text in options[:1]):
        return _nothing(call)
    return code.here(call.it, call.state, unknown(), "argument", call.argv, call.redirects)


def _getopts(call: BuiltinCall) -> list[State]:
    call.record_act()
    for name in (call.argv[2].text if len(call.argv) > 2 else "", "OPTARG", "OPTIND"):
        if name:
            call.it.assign_name(call.state, name, unknown(joined(call.state.positional).taint))
    return call.end(None)


# -- builtins that run something -----------------------------------------------------------------------------------


def _eval(call: BuiltinCall) -> list[State]:
    words = call.argv[2:] if call.argv[1:2] and call.argv[1].text == "--" else call.argv[1:]
    return code.here(call.it, call.state, joined(words, " "), "argument", call.argv, call.redirects)


def _source(call: BuiltinCall) -> list[State]:
    words = [value for value in call.argv[1:] if value.text != "--"]
    if not words:
        return call.end(2)
    if "/" not in words[0].text and words[0].known and not words[0].pattern:
        for file in external.placed(call.it, call.state, words[0].text):  # PATH comes before the current folder
            code.sourced(call.it, call.state.copy(), Value(file), words[1:], [call.argv[0], Value(file)], call.redirects)
    return code.sourced(call.it, call.state, words[0], words[1:], call.argv, call.redirects)


def _command(call: BuiltinCall) -> list[State]:
    it, state, argv = call.it, call.state, list(call.argv[1:])
    while argv and re.fullmatch(r"-[pvVc]+|--|-l|-[cl]*a", argv[0].text):
        text = argv.pop(0).text
        if "v" in text.lower():
            call.record_act()
            if state.capture:
                state.emit(joined([*map(_found, argv[:1]), Value("\n")]))
            return call.end(None)
        if text.endswith("a") and argv:
            argv.pop(0)
        if text == "--":
            break
    if not argv:
        call.record_act()
        return call.end(0)
    it.limits.step()
    if call.argv[0].text == "exec":
        return external.child(it, state, argv, call.redirects)
    return it.dispatch(state, argv, call.redirects, call.cmd, functions=False)


def _found(value: Value) -> Value:
    """Return what ``command -v`` prints: the word itself for a path or a builtin, else a likely path of the program."""
    plain = "/" in value.text or not value.known or value.text in tables.BUILTINS.rows
    return tainted(value if plain else Value(f"/usr/bin/{value.text}"), value.taint | Taint.MAYBE)


def _type(call: BuiltinCall) -> list[State]:
    call.record_act()
    if call.state.capture:
        given = [value for value in call.argv[1:] if not value.text.startswith("-")]
        paths = any(value.text in ("-p", "-P") for value in call.argv[1:])
        call.state.emit(Value(f"/usr/bin/{given[0].text}\n", given[0].taint) if paths and given else unknown())
    return call.end(None)


def _jobs(call: BuiltinCall) -> list[State]:
    call.record_act()
    if call.state.capture:
        call.state.emit(unknown(Taint.SECRET) if call.argv[0].text == "history" else unknown())
    return call.end(None)


def _compgen(call: BuiltinCall) -> list[State]:
    for at, value in enumerate(call.argv[1:-1], 1):
        following = call.argv[at + 1]
        if re.fullmatch(r"-\w*[CF]", value.text):
            call.it.text(following.text, call.state.copy())
        elif re.fullmatch(r"-\w*W", value.text):
            call.it.embedded(call.state, following)
    call.record_act()
    call.state.emit(unknown(Taint.FOUND))
    return call.end(None)


def _wait(call: BuiltinCall) -> list[State]:
    """Interpret commands in the arguments: the shell calculates a subscript in the name of ``wait -p NAME``."""
    for value in call.argv[1:]:
        call.it.embedded(call.state, value)
    call.record_act()
    return call.end(None)


BUILTINS = {
    ":": _nothing,
    "true": _nothing,
    "false": _false,
    "echo": _prints,
    "printf": _prints,
    "fc": _history_again,
    "pwd": _prints,
    "test": _test,
    "[": _test,
    "cd": moving.cd,
    "pushd": moving.pushd,
    "popd": moving.popd,
    "exit": _exit,
    "logout": _exit,
    "return": _exit,
    "break": _break,
    "continue": _break,
    "shift": _shift,
    "set": _set,
    "shopt": _shopt,
    "let": _let,
    "alias": _alias,
    "unalias": _unalias,
    "trap": _trap,
    "hash": _hash,
    "getopts": _getopts,
    "eval": _eval,
    ".": _source,
    "source": _source,
    "command": _command,
    "builtin": _command,
    "exec": _command,
    "type": _type,
    "compgen": _compgen,
    "wait": _wait,
    **dict.fromkeys(["jobs", "dirs", "times", "caller", "complete", "history", "ulimit", "umask"], _jobs),
}
