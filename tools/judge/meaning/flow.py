"""if, case, loops and function calls: every branch is followed, and loops are repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tools.judge.meaning import conditions, expand, failed_expansions, filestate, patterns
from tools.judge.meaning.act import Act
from tools.judge.meaning.shellstate import Body, State, Var, merged
from tools.judge.meaning.value import EMPTY, Elastic, Taint, Value, any_of, joined, names, settled, tainted, unglobbed, unknown
from tools.judge.meaning.walk import Called, Walker
from tools.judge.shell.tree import ArithmeticFor, Case, For, If, Loop, Script, Word

_MAX_ROUNDS = 48
"""Number of iterations of one loop that are followed exactly; then changed values become unknown."""
_FEW_ROUNDS = 3
"""Limit of iterations if their number is unknown."""
_LEFT_OPEN = 3
"""Limit of states after a ``while`` or similar loop: one without an iteration, one after one iteration, one for all others."""
_FEW_WITHIN = 2
"""Limit of iterations in a nested loop. It is lower, because the iterations of nested loops multiply."""
_MAX_SAME_CALL = 8
_WIDEN_CALL = 3
_Condition: TypeAlias = Script | Word | None  # None is the read of a ``select``


def branches(it: Walker, command: If, state: State) -> list[State]:
    done: list[State] = []
    open_states = [state]
    for condition, body in command.branches:
        after: list[State] = []
        for one in open_states:
            for tested in it.script(condition, one):
                yes, no = parted(tested)
                if no is not None and not no.flow:
                    after.append(no)
                elif no is not None:
                    done.append(no)
                if yes is not None:
                    done += _perhaps(it, body, yes) if no is not None else it.script(body, yes)
        open_states = it.merge(after)
    for one in open_states:
        if command.otherwise is not None:
            done += _perhaps(it, command.otherwise, one)
        else:
            one.status = 0
            done.append(one)
    return it.merge(done)


def _perhaps(it: Walker, body: Script, state: State) -> list[State]:
    """Run a part that depends on a condition."""
    with it.inside() as inner:
        inner.conditional += 1
        return it.script(body, state)


def parted(state: State, op: str = "&&") -> tuple[State | None, State | None]:
    """Return the state that runs the part after a condition, and the one that skips it."""
    if state.flow:
        return None, state
    if state.status is not None:
        return (state, None) if (state.status == 0) == (op == "&&") else (None, state)
    go, stay = state, state.copy()
    go.status, stay.status = (0, -1) if op == "&&" else (-1, 0)
    return go, stay


def case(it: Walker, command: Case, state: State) -> list[State]:
    subject, done = failed_expansions.attempted(it, expand.compared, it, state, command.subject)
    open_states: list[State] = [state]
    falling: list[State] = []
    for item in command.items:
        inside, falling, tested, open_states = falling, [], open_states, []
        for one in tested:
            (matching, others), failed = failed_expansions.attempted(it, _matching, it, one, subject, item.patterns)
            inside += matching
            open_states += others
            done += failed
        open_states = it.merge(open_states)
        results: list[State] = []
        for one in it.merge(inside):
            one.status = one.status if item.body.items else 0
            results += _perhaps(it, item.body, one) if not one.flow else [one]
        if item.ends == ";&":
            falling = [one for one in results if not one.flow]
            done += [one for one in results if one.flow]
        elif item.ends == ";;&":
            open_states = it.merge(open_states + [one for one in results if not one.flow])
            done += [one for one in results if one.flow]
        else:
            done += results
    for one in open_states:
        one.status = 0
    return it.merge(done + open_states + falling)


def _matching(it: Walker, state: State, subject: Value, words: Sequence[Word]) -> tuple[list[State], list[State]]:
    """Return the states that a pattern may match, and the others. Patterns after a match are not expanded."""
    found: list[State] = []
    for word in words:
        matches = _matches(subject, expand.pattern(it, state, word))
        if matches is False and "nocasematch" in state.options:
            matches = None
        if matches:
            return [*found, state], []
        if matches is None:
            found.append(state.copy())
    return it.merge(found), [state]


def _matches(subject: Value, pattern: Value) -> bool | None:
    if pattern.text == "*":
        return True
    if not subject.known or not pattern.known or subject.taint & Taint.MAYBE or len(subject.text) > 2_000:
        return None
    compiled = patterns.for_text(pattern.text, subject.text)
    return None if compiled is None else compiled.fullmatch(subject.text) is not None


# -- loops ---------------------------------------------------------------------------------------------------------


def each(it: Walker, command: For, state: State) -> list[State]:
    given = command.words
    words, done = (state.positional, []) if given is None else failed_expansions.attempted(it, expand.fields, it, state, given)
    values = [_looped(value) for value in words]
    if command.select and values:
        return it.merge(done + _chosen(it, command, values, state))
    states = [state]
    state.status = state.status if values else 0
    for at, value in enumerate(values[:_MAX_ROUNDS]):
        skipped = [one.copy() for one in states] if not value.known else []
        for one in skipped if not at else ():
            one.status = 0
        for one in states:
            _, failed = failed_expansions.attempted(it, it.assign_name, one, command.name, value)
            done += failed
        states, ended = _round(it, command.body, states)
        done += ended
        states = it.merge(states + skipped) if skipped else states
        if not states:
            break
    if states and (extra := values[_MAX_ROUNDS:]):
        filestate.lost(it, joined(extra, "\n"))
        states, ended = _widened(it, [command.name], tainted(any_of(extra), Taint.FOUND), command.body, states)
        done += ended
    return it.merge(done + states)


def _chosen(it: Walker, command: For, values: list[Value], state: State) -> list[State]:
    """Run a ``select``: each iteration reads a line, and any of the words may be chosen, or none."""
    going, done = list[State](), [state]
    for value in [*values[:_MAX_ROUNDS], EMPTY]:
        one = state.copy()
        it.assign_name(one, command.name, value)
        after, ended = _round(it, command.body, _tested(it, None, one))
        going, done = going + after, done + ended
    for one in it.merge(going):
        it.assign_name(one, command.name, unknown(joined(values).taint))
        done += _while(it, None, command.body, None, one, until=False)
    return done


def _looped(value: Value) -> Value:
    if isinstance(value, Elastic):
        return unknown(value.taint | Taint.MANY)
    return unglobbed(value) if value.pattern else value


def _round(it: Walker, body: Script, states: list[State]) -> tuple[list[State], list[State]]:
    """Run one iteration of a loop. Return the states that stay in the loop, and the states that leave it."""
    after: list[State] = []
    with it.inside() as inner:
        inner.loops += 1
        for one in it.limited(states):
            after += it.script(body, one)
    return _settled(it.merge(after))


def _settled(states: list[State]) -> tuple[list[State], list[State]]:
    going: list[State] = []
    ended: list[State] = []
    for one in states:
        if one.flow in ("break", "continue"):
            leaves = one.flow == "break" or one.levels > 1
            one.levels -= 1
            if one.levels < 1:
                one.flow, one.levels, one.status = "", 0, 0
            (ended if leaves else going).append(one)
        else:
            (ended if one.flow else going).append(one)
    return going, ended


def _widened(it: Walker, names: list[str], value: Value, body: Script, states: list[State]) -> tuple[list[State], list[State]]:
    """Run any number of further iterations, with the changed values unknown."""
    done: list[State] = []
    for _ in range(4):
        before = [one.copy() for one in states]
        for one in states:
            for name in names:
                it.assign_name(one, name, value)
        states, ended = _round(it, body, states)
        done += ended
        if not states or all(any(one.same(old) for old in before) for one in states):
            break
        states = it.merge([blurred(old, one) for old, one in zip(_spread(before, len(states)), states, strict=False)])
    return states, done


def _spread(states: list[State], count: int) -> list[State]:
    return [states[min(index, len(states) - 1)] for index in range(count)]


def blurred(before: State, after: State) -> State:
    """Return ``after``, with all values unknown that an iteration changed."""
    for name, var in list(after.vars.items()):
        old = before.vars.get(name)
        if old == var:
            continue
        if var.items is not None:
            taint = joined(var.items.values()).taint
            after.put(name, var._replace(items={key: unknown(one.taint) for key, one in var.items.items()}, open=True))
        else:
            taint = (var.value or EMPTY).taint | ((old.value or EMPTY).taint if old is not None else Taint.NONE)
            after.put(name, Var(unknown(taint), None, var.flags))
    if before.positional != after.positional:
        after.positional = (unknown(joined(after.positional).taint),)
    if before.stdin != after.stdin:
        after.stdin = unknown((after.stdin or EMPTY).taint)
    if before.fds is not after.fds:
        changed = ((fd, value) for fd, value in after.fds.items() if before.fds.get(fd) != value)
        after.fds = {**after.fds, **{fd: unknown(value.taint) for fd, value in changed}}
    if before.cwds != after.cwds:
        after.cwds = ()
    if before.out is not after.out:
        piece = unknown(after.printed().taint)
        same = before.out is not None and before.out[1] == piece  # already made unknown by an earlier iteration
        after.out = before.out if same else (before.out, piece)
    if before.files is not after.files:
        moved = {path: one for path, one in after.files.items() if path in before.files and before.files[path] != one}
        after.files = {**after.files, **{path: unknown(one.taint | before.files[path].taint) for path, one in moved.items()}}
    return after


def loop(it: Walker, command: Loop, state: State) -> list[State]:
    it.found.waits = it.found.waits or bool(it.context.background)
    return _while(it, command.condition, command.body, None, state, until=command.until)


def counted(it: Walker, command: ArithmeticFor, state: State) -> list[State]:
    _, failed = conditions.calculated(it, state, command.parts[0])
    it.found.waits = it.found.waits or bool(it.context.background)
    return _while(it, command.parts[1], command.body, command.parts[2], state, until=False) + failed


def _while(it: Walker, condition: _Condition, body: Script, step: Word | None, state: State, *, until: bool) -> list[State]:
    states = [state]
    done: list[State] = []
    seen: list[State] = []
    rest: list[State] = []
    acts, began = len(it.found.acts), it.limits.steps
    few = _FEW_WITHIN if it.context.loops or it.limits.is_long else _FEW_ROUNDS
    for count in range(_MAX_ROUNDS + 6):
        going = it.merge(_going(it, condition, states, done, until=until, first=count == 0))
        going = _fresh(going, seen)
        if going and count >= (few if done or it.limits.is_long_since(began) else _MAX_ROUNDS) and seen:
            old = _spread(seen[-len(going) :], len(going))
            for one in going:
                one.stdin = filestate.lost(it, one.stdin) if one.stdin is not None and one.stdin.text else one.stdin
            going = _fresh(it.merge([blurred(before, one) for before, one in zip(old, going, strict=False)]), seen)
        if not going:
            break
        seen += [one.copy() for one in going]
        del seen[:-8]
        states, ended = _round(it, body, going)
        done += ended
        if len(done) > it.limits.alternatives():
            done = it.merge(done)
        if step is not None:
            for one in states:
                done += conditions.calculated(it, one, step)[1]
        if not states:
            break
    else:
        rest = states
    if not done and seen and _piles_up(list(it.found.acts.values())[acts:], it.context.background):
        it.act(seen[-1], [Value("@endless")], name="@endless")
    # An endless loop is interrupted, or ends with its pipe.
    return merged(it.merge(done + rest), _LEFT_OPEN) or [one.copy() for one in seen[-1:]]


def _fresh(states: list[State], seen: list[State]) -> list[State]:
    """Return the states whose iteration would differ from every earlier one."""
    return [one for one in states if not any(one.same(old) and one.cwds == old.cwds for old in seen)]


_AT_ONCE = names(
    ": true echo printf cat mkdir cd touch [ test [[ cp head date let seq tee sed tr base64 mv ln export declare local"
)
"""Commands that return at once: a loop of only these never waits."""


def _piles_up(acts: list[Act], background: int) -> bool:
    """Return whether endless rounds each leave a process, folder or data, and never wait. ``background``: jobs around it."""
    here = {act.name for act in acts if act.background <= background and act.name}
    if not here <= _AT_ONCE:
        return False
    grows = any(target.op == ">>" and not target.path.text.startswith("/dev/") for act in acts for target in act.redirects)
    return grows or {"mkdir", "cd"} <= here or any(act.background > background and act.argv for act in acts)


def _going(it: Walker, condition: _Condition, states: list[State], done: list[State], *, until: bool, first: bool) -> list[State]:
    """Return the states that enter another iteration. Others are added to ``done``, with the previous iteration's status."""
    going: list[State] = []
    for one in states:
        one_before = one.status
        last = 0 if first else one_before
        for tested in _tested(it, condition, one):
            yes, no = parted(tested)
            if until and not (no is not None and no.flow):
                yes, no = no, yes
            if no is not None:
                no.status = last if not no.flow else no.status
                done.append(no)
            if yes is not None:
                # A (( )) between two iterations is not a command: $? is unchanged.
                yes.status = one_before if isinstance(condition, Word) else yes.status
                going.append(yes)
    return going


def _tested(it: Walker, condition: _Condition, state: State) -> list[State]:
    if not isinstance(condition, Word):
        with it.inside() as inner:
            inner.rounds += 1
            if condition is None:
                return it.dispatch(state, [Value("read")], (), functions=False)
            return it.script(condition, state)
    number, failed = conditions.calculated(it, state, condition) if it.context.source(condition).strip() else (1, [])
    state.status = None if number is None else int(number == 0)
    return [state, *failed]


# -- functions -----------------------------------------------------------------------------------------------------


def call(it: Walker, state: State, name: str, bodies: Sequence[Body], arguments: Sequence[Value]) -> list[State]:
    """Run a function in this shell."""
    context = it.context
    same = [entry for entry in context.calls if entry.name == name and any(entry.body is body.command for body in bodies)]
    if same and context.spawned > same[-1].spawned and context.conditional == same[-1].conditional:
        it.act(state, [Value(name), *arguments], name="@forkbomb")
        return [state]
    if it.too_deep("functions call each other too deeply"):
        return [state]
    deep = len(same) >= _WIDEN_CALL
    if deep:
        arguments = [unknown(value.taint) if value.text else value for value in settled(arguments)]
        blurred(same[-1].state, state)
    if len(same) > _WIDEN_CALL and _again(same[-1].state, state, settled(arguments)):
        state.status = None
        return [state]
    if len(same) >= _MAX_SAME_CALL:
        it.fault("depth", f"{name} calls itself too often")
        return [state]
    states: list[State] = []
    for index, body in enumerate(bodies):
        one = state.copy() if index + 1 < len(bodies) else state
        before = one.copy()
        results = _called(it, one, name, body, arguments)
        states += [blurred(before, after) for after in results] if deep else results
    return it.merge(states)


def _again(before: State, state: State, arguments: tuple[Value, ...]) -> bool:
    """Return whether a call would do the same as the call that contains it."""
    probe = state.copy()
    probe.positional, probe.frames, probe.status, probe.out = arguments, before.frames, before.status, before.out
    return probe.same(before) and probe.cwds == before.cwds


def _called(it: Walker, state: State, name: str, body: Body, arguments: Sequence[Value]) -> list[State]:
    outer = state.positional
    state.positional = settled(arguments)
    state.frames = (*state.frames, {})
    with it.inside() as inner:
        inner.calls = (*inner.calls, Called(name, inner.spawned, inner.conditional, state.copy(), body.command))
        inner.depth += 1
        inner.span = inner.span if body.text is inner.text or inner.span is not None else it.span
        inner.text, inner.parsed = body.text, body.parsed
        states = it.command(body.command, state)
    for one in states:
        one.leave()
        one.positional = outer
        if one.flow in ("return", "break", "continue"):
            one.flow, one.levels = "", 0
    return states
