"""Describe undos: what would happen to each file, what can't be undone, and what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.escape import exact, one_line
from agent.cli.short_forms import ago
from agent.undo import UndoPlan, What
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.undo import ChangeStep, FileChange, FileState
from tools.approval.policy import Policy
from tools.undo.keeper import size_of
from tools.undo.restore import Action, Done, UndoItem

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.conversation.session import Session
    from tools.undo.differences import FileDifference

_WILL: Mapping[Action, str] = {"restore": "restore", "remove": "remove", "recreate": "recreate", "nothing": "leave"}
_DID: Mapping[Action, str] = {"restore": "restored", "remove": "removed", "recreate": "recreated", "nothing": "left"}
_CALLS = 5
_FILES = 200
PREVIEW_LINES = 400
"""Maximum number of lines of the diff that is shown before an undo."""


def compared(found: Sequence[FileDifference], most: int = 0, folder: str = "") -> str:
    """Return a unified diff of the files, with at most ``most`` lines (0: all), or why a file can't be compared. Paths below
    ``folder`` are relative to it.
    """
    lines = [line for one in found for line in _diff_lines(one, f"{folder.rstrip('/')}/" if folder else "")]
    if most and len(lines) > most:
        lines[most:] = [f"and {len(lines) - most} more lines"]
    return "\n".join(lines)


def _diff_lines(one: FileDifference, folder: str) -> Sequence[str]:
    path = one.path.removeprefix(folder)
    if one.why:
        return [f"{exact(path)}: {exact(one.why)}"]
    if path == one.path:
        return one.lines
    head = next((number for number, line in enumerate(one.lines) if line.startswith("@@")), len(one.lines))
    named = [line.replace(f" a{one.path}", f" a/{path}").replace(f" b{one.path}", f" b/{path}") for line in one.lines[:head]]
    return [*named, *one.lines[head:]]


def project_of(session: Session) -> str:
    """Return the folder of a session's project."""
    policy = session.scope.policy
    return (policy.project_root or "") if isinstance(policy, Policy) else ""


def title(plan: UndoPlan, now: float) -> str:
    """Return a plan's title, such as ``undo turn 3 (write_file, patch, 2 min ago)``."""
    steps, last = plan.steps, plan.steps[-1]
    tools = ", ".join(dict.fromkeys(step.tool for step in steps))
    if plan.wanted.what == "redo":
        what = f"redo the changes that an undo reverted {ago(last.at, now)}"
        return f"{what} (of turn {last.turn})" if last.turn else what
    what = f"undo turn {last.turn}" if plan.wanted.what == "turn" and last.turn else f"undo the call {last.call_id}"
    return f"{what} ({tools}, {ago(last.at, now)})"


def other_turns(steps: Sequence[ChangeStep], but: int) -> str:
    """Return a line with the numbers of the other turns that can be undone, the newest first; "" if there are none."""
    found: dict[int, dict[str, None]] = {}
    for step in reversed(steps):
        if step.kind == "call" and step.turn not in (0, but) and any(change.in_effect for change in step.changes):
            found.setdefault(step.turn, {})[step.tool] = None
    if not found:
        return ""
    named = [f"/undo {turn} ({', '.join(tools)})" for turn, tools in found.items()]
    return f"other turns: {', '.join(named[:_CALLS])}{f' and {len(named) - _CALLS} more' if len(named) > _CALLS else ''}"


def planned(plan: UndoPlan, now: float, force: str) -> Iterator[str]:
    """Yield lines about a plan: what will be reverted, and what can't be. ``force``: the command to include changed files."""
    yield from _since(plan)
    yield exact(title(plan, now))
    yield from _acted(plan.items, _WILL)
    yield from _rest(plan.items, plan.others)
    if any(item.forceable for item in plan.items):
        yield f"  {force} also reverts files that have changed since, and keeps their content for a redo"


def done(plan: UndoPlan, found: Done) -> Iterator[str]:
    """Yield lines about the outcome of a plan."""
    yield from _acted(found.items, _DID)
    yield from _rest(found.items, plan.others)
    yield from (f"  {line}" for line in _since(plan))
    yield from (f"  {exact(note)}" for note in found.notes)


def _acted(items: Sequence[UndoItem], words: Mapping[Action, str]) -> Iterator[str]:
    """Yield a line for each changed file, at most ``_FILES`` of them, then the number of the others."""
    acting = [item for item in items if not item.why_not]
    yield from (f"  {_line(item, words)}" for item in acting[:_FILES])
    if len(acting) > _FILES:
        yield f"  and {len(acting) - _FILES} more; to list them: toolcrib undo --list"


def _since(plan: UndoPlan) -> Iterator[str]:
    """Yield lines about calls of later turns: the user may mean to undo these."""
    for call in plan.since[-_CALLS:]:
        yield f"after turn {plan.steps[-1].turn} `{exact(one_line(call, 100))}` ran; its effects cannot be undone"
    if len(plan.since) > _CALLS:
        yield f"{len(plan.since) - _CALLS} more calls ran after turn {plan.steps[-1].turn}; their effects are not undone"


def _rest(items: Sequence[UndoItem], others: Sequence[str]) -> Iterator[str]:
    for item in items:
        if item.why_not:
            yield f"  not {exact(item.path)}: {exact(item.why_not)}"
    for other in others[:_CALLS]:
        yield f"  `{exact(one_line(other, 100))}` ran too; its effects are not undone"
    if len(others) > _CALLS:
        yield f"  {len(others) - _CALLS} more calls ran too; their effects are not undone"


def _line(item: UndoItem, words: Mapping[Action, str]) -> str:
    text = f"{words[item.action]:<9} {exact(item.path)}"
    if item.action == "nothing":
        return f"{text}  (unchanged)"
    size = item.found if item.target.to is None else item.target.to
    facts = [_lines(item)] if item.added is not None else [size_of(size.size)] if size is not None else []
    facts += [f"by force: {item.by_force}"] if item.by_force else []
    facts += ["an interrupted edit left it incomplete"] if item.torn is not None else []
    return f"{text}  ({exact('; '.join(facts))})" if facts else text


def _lines(item: UndoItem) -> str:
    if item.found is None:
        return f"{item.added} line{'' if item.added == 1 else 's'}"
    return f"+{item.added} -{item.removed} lines"


def as_json(plan: UndoPlan, carried: Done | None) -> dict[str, Any]:
    """Return a plan as JSON, or its outcome."""
    items = plan.items if carried is None else carried.items
    return {
        "what": plan.wanted.what,
        "session": plan.steps[-1].session_id,
        "turn": plan.steps[-1].turn,
        "calls": [step.call_id for step in plan.steps],
        "done": carried is not None,
        "files": [
            {
                "path": item.path,
                "place": item.target.holder,
                "action": None if item.why_not else item.action,
                "why_not": item.why_not or None,
                "by_force": item.by_force or None,
                "added": item.added,
                "removed": item.removed,
            }
            for item in items
        ],
        "not_undone": list(plan.others),
        "ran_since": list(plan.since),
        "notes": [] if carried is None else list(carried.notes),
    }


# -- the list --------------------------------------------------------------------------------------------------------


SPARE, WHOLE = (2, 4, 3), (6,)
"""Columns of ``rows`` that a narrow terminal can drop, least important first, and the column that is cut last, the files."""


def rows(steps: Sequence[ChangeStep], now: float, folder: str = "") -> list[tuple[str, ...]]:
    """Return table rows about steps, the newest first. Paths below ``folder`` are relative to it."""
    found: list[tuple[str, ...]] = [("SESSION", "TURN", "CALL", "WHEN", "BY", "STATE", "FILES")]
    for step in sorted(steps, key=lambda one: one.at, reverse=True):
        files = ", ".join(_change(change, folder) for change in step.changes) or "-"
        call = exact(step.call_id[:24]) or "-"
        found.append((step.session_id[:12], str(step.turn or "-"), call, ago(step.at, now), step.tool, _state(step), files))
    return found


def step_json(step: ChangeStep) -> dict[str, Any]:
    return {
        "session": step.session_id,
        "turn": step.turn,
        "call": step.call_id,
        "kind": step.kind,
        "tool": step.tool,
        "at": step.at,
        "state": _state(step),
        "files": [
            {
                "path": change.path,
                "place": change.holder,
                "before": _json(change.before),
                "after": _json(change.after),
                "lost": change.lost or None,
            }
            for change in step.changes
        ],
    }


def _json(state: FileState | None) -> dict[str, Any] | None:
    return None if state is None else {"sha256": state.digest or None, "size": state.size, "mode": state.mode}


def _state(step: ChangeStep) -> str:
    counts = [change.in_effect for change in step.changes]
    if step.kind != "call":
        return "done" if any(counts) or not counts else "taken back"
    if all(counts):
        return "could not" if all(change.passed_by for change in step.changes) else "in effect"
    return "partly undone" if any(counts) else "undone"


def _change(change: FileChange, folder: str) -> str:
    """Return a change with git's letter: A for added, D for deleted, M for modified."""
    letter = "A" if change.before is None else "D" if change.after is None else "M"
    path = change.path.removeprefix(f"{folder.rstrip('/')}/") if folder else change.path
    return f"{letter} {exact(path)}{' (not kept)' if change.lost else ''}"


async def undo_in_chat(chat: Conversation, rest: str) -> None:
    """Undo what /undo asks for, after the user approves the plan. Raises ToolcribError."""
    from agent.undo import UndoRequest

    words = rest.split()
    force = "force" in words
    what, *names = [word for word in words if word != "force"] or ["turn"]
    if what.isdecimal() and not names:
        what, names = "turn", [what]
    kinds: dict[str, What] = {"turn": "turn", "call": "call", "redo": "redo"}
    if what not in kinds or len(names) > (what != "redo"):
        raise ToolcribError(
            "use /undo, /undo turn [N], /undo N, /undo call [ID] or /undo redo; add `force` to include changed files"
        )
    undo, environment = chat.opening.crib.undo(chat.session.identity.session_id), chat.session.scope.environment
    plan = await undo.plan(UndoRequest(kinds[what], names[0] if names else "", force), environment)
    if plan.acting:
        chat.screen.diff(compared(await undo.preview(plan, environment), PREVIEW_LINES, project_of(chat.session)))
    chat.screen.print_note("\n".join(planned(plan, time.time(), "/undo force")))
    if what == "turn" and (others := other_turns(await undo.steps(), plan.steps[-1].turn)):
        chat.screen.print_note(exact(others))
    if not plan.acting:
        raise ToolcribError("none of it can be undone; for earlier changes: /undo turn N or /undo call ID")
    if chat.opening.confirm is None:
        raise ToolcribError("nothing was done: no user can be asked here; without asking: toolcrib undo --yes")
    if not await chat.opening.confirm("Apply these changes?"):
        chat.screen.print_note("nothing was done")
        return
    carried = await undo.carry_out(plan, environment)
    chat.screen.text("\n".join(done(plan, carried)))
