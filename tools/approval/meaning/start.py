"""The way in: a text, a shell, files; out comes the Meaning, whatever happens."""

from __future__ import annotations

from tools.approval.meaning.act import Fault, Meaning
from tools.approval.meaning.base import Context, Stop
from tools.approval.meaning.run import Interpreter
from tools.approval.meaning.shellstate import State
from tools.approval.meaning.state import Budget, ShellNow, Snapshot
from tools.approval.meaning.value import Value
from tools.approval.shell import ShellSyntaxError, ShellTooComplex, parse


def interpreted(text: str, now: ShellNow, snapshot: Snapshot, budget: Budget) -> Meaning:
    it = Interpreter(now, snapshot, budget)
    try:
        script = parse(text, budget)
        it.context = Context(text=text)
        it.traps(it.whole(script, _begin(now)))
    except ShellSyntaxError as error:
        it.faults[Fault("syntax", str(error), getattr(error, "offset", 0))] = None
    except ShellTooComplex as error:
        it.faults[Fault(getattr(error, "kind", "depth"), str(error), getattr(error, "offset", 0) or 0)] = None
    except Stop as stop:
        it.faults[Fault(stop.kind, str(stop), it.span[0])] = None
    except RecursionError:
        it.faults[Fault("depth", "nested too deeply", it.span[0])] = None
    except Exception as error:  # noqa: BLE001  # a judge that fails must ask, never let pass
        it.faults[Fault("opaque", f"{type(error).__name__}: {error}"[:200], it.span[0])] = None
    return Meaning(tuple(it.acts.values()), tuple(it.faults), tuple(it.read), it.tainted, it.steps)


def _begin(now: ShellNow) -> State:
    state = State()
    if now.cwd.startswith("/"):
        state.cwds = (now.cwd,)
    state.positional = tuple(map(Value, now.positional))
    if now.interactive:
        state.aliases = {name: (text, -1, -1) for name, text in now.aliases.items()}
    return state
