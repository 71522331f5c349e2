"""Modes of a session, which ask or refuse more than the rules do. A mode never allows more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from tools.judge.findings import Finding, visible

if TYPE_CHECKING:  # the judge is not imported at the start, but before the first call
    from toolcrib.contract.effects import Effect
    from toolcrib.contract.entry import ToolEntry
    from tools.judge.meaning.state import Snapshot
    from tools.judge.setting import Setting

Mode: TypeAlias = Literal["default", "cautious", "confirm-edits", "plan"]

DEFAULT: Mode = "default"
CAUTIOUS: Mode = "cautious"
CONFIRM: Mode = "confirm-edits"
PLAN: Mode = "plan"

MODES: Mapping[Mode, str] = MappingProxyType(
    {
        DEFAULT: "calls that match a rule are asked about or denied, all others run",
        CAUTIOUS: "like default, and also asks about calls whose effects the sandbox contains or an undo can revert",
        CONFIRM: "every edit and every command that may write is asked about; an answer can allow the session's edits",
        PLAN: "only reading is allowed: edits and commands that may write are denied",
    }
)
"""Modes from the loosest to the strictest, each with its explanation for users."""

ADDING: Collection[Mode] = (CONFIRM, PLAN)
"""Modes that ask about or refuse calls without findings."""

CONFIRM_KEY = "mode.confirm-edits"
"""Key of the finding that a mode adds to a call that may change something."""
ALL_EDITS = "all edits"
"""Text for users in place of ``CONFIRM_KEY``: a grant for it covers all edits by toolcrib's own tools."""

_MAY_BE_FOUND = ("secret.",)
"""Key prefixes of findings that a read-only command may have: plan mode asks about these as usual."""


def mode_of(name: object) -> Mode:
    """Return the mode with this name; the strictest for an unknown name, which must not allow more."""
    return cast(Mode, name) if name in MODES else PLAN


def is_stricter(one: Mode, other: Mode) -> bool:
    """Return whether ``one`` asks or refuses more than ``other``."""
    order = list(MODES)
    return order.index(one) > order.index(other)


def mode_after(now: Mode, configured: str) -> Mode:
    """Return the mode that follows ``now`` when the user switches. After plan comes cautious or the default, as configured."""
    loosest = CAUTIOUS if configured == CAUTIOUS else DEFAULT
    names = (loosest if now in ADDING else now, *ADDING)
    return names[(names.index(now) + 1) % len(names)]


def acts(
    mode: Mode, entry: ToolEntry, effects: Sequence[Effect], findings: Sequence[Finding], setting: Setting, files: Snapshot
) -> str:
    """Return why a call may change something; "" if it is judged to write nothing, or the mode does not ask."""
    if mode not in ADDING:
        return ""
    from tools.judge.passive import may_act

    why = may_act(entry, effects, setting=setting, files=files)
    if not why and entry.kind == "execute":
        bad = next((one for one in findings if one.level != "allow" and not one.key.startswith(_MAY_BE_FOUND)), None)
        return "" if bad is None else bad.why
    return why


def refusal(why: str) -> str:
    """Return the message for the model about a call that plan mode refuses."""
    return (
        f"Denied: the session is in plan mode, so it changes nothing. {visible(why, 200)}. Continue with reading tools and"
        " commands that only read, and propose your changes to the user; only the user can switch the mode."
    )


def confirmed(why: str, name: str, entry: ToolEntry | None = None, effects: Sequence[Effect] = ()) -> Finding:
    """Return the finding that asks the user about a call that may change something.

    A grant may cover an edit by one of toolcrib's own tools. All other calls are asked about every time.
    """
    text, reason = visible(f"{name}: {why}"), "this session asks about every change"
    if entry is None or entry.kind != "edit" or not entry.is_built_in or not (paths := _edited(effects)):
        return Finding(CONFIRM_KEY, "ask-once", reason, text)
    return Finding(CONFIRM_KEY, "ask", reason, text, paths=paths)


def _edited(effects: Sequence[Effect]) -> tuple[str, ...]:
    """Return the files that a call changes; empty if it may do anything else."""
    from toolcrib.contract.effects import DeletesFile, ReadsFile, WritesFile

    if not all(isinstance(effect, WritesFile | DeletesFile | ReadsFile) for effect in effects):
        return ()
    return tuple(effect.path for effect in effects if isinstance(effect, WritesFile | DeletesFile))
