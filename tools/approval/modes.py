"""Modes of a session: what is asked or refused besides what the rules find. A mode never loosens anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from tools.judge.findings import Finding, visible

if TYPE_CHECKING:  # the judge loads before the first call
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
        DEFAULT: "what the rules find is asked or refused, all else runs",
        CAUTIOUS: "as the default, and also what the sandbox stops or an undo takes back is asked about",
        CONFIRM: "every edit, and every command that may write, is asked about each time",
        PLAN: "only reading runs: edits, and commands that may write, are refused",
    }
)
"""Modes from the loosest to the strictest, each with what it means for people."""

ADDING: Collection[Mode] = (CONFIRM, PLAN)
"""Modes in which calls are asked about or refused that have no finding."""

CONFIRM_KEY = "mode.confirm-edits"
"""Key of the finding that a mode adds to a call which may change something."""

_MAY_BE_FOUND = ("secret.",)
"""Beginnings of keys of findings that a command may have which only reads: these are asked about in plan mode as ever."""


def mode_of(name: object) -> Mode:
    """Return the mode with this name; the strictest where there is none: what nobody can read must not loosen anything."""
    return cast(Mode, name) if name in MODES else PLAN


def is_stricter(one: Mode, other: Mode) -> bool:
    """Return whether ``one`` asks or refuses more than ``other``."""
    order = list(MODES)
    return order.index(one) > order.index(other)


def mode_after(now: Mode, configured: str) -> Mode:
    """Return the mode that follows ``now`` when a person switches through them: behind plan comes cautious or the default one,
    as configured.
    """
    loosest = CAUTIOUS if configured == CAUTIOUS else DEFAULT
    names = (loosest if now in ADDING else now, *ADDING)
    return names[(names.index(now) + 1) % len(names)]


def acts(
    mode: Mode, entry: ToolEntry, effects: Sequence[Effect], findings: Sequence[Finding], setting: Setting, files: Snapshot
) -> str:
    """Return why a call may change something, "" where it is judged to write nothing, or the mode does not ask."""
    if mode not in ADDING:
        return ""
    from tools.judge.passive import may_act

    why = may_act(entry, effects, setting=setting, files=files)
    if not why and entry.kind == "execute":
        bad = next((one for one in findings if one.level != "allow" and not one.key.startswith(_MAY_BE_FOUND)), None)
        return "" if bad is None else bad.why
    return why


def refusal(why: str) -> str:
    """Return what a model is told of a call that plan mode refuses."""
    return (
        f"Refused: the session is in plan mode, in which nothing is changed. {visible(why, 200)}. Go on with reading tools and"
        " commands that only read, and tell the person what you would change; only they can switch the mode."
    )


def confirmed(why: str, name: str) -> Finding:
    """Return the finding by which a person is asked about a call that may change something."""
    return Finding(CONFIRM_KEY, "ask-once", "this session confirms every change", visible(f"{name}: {why}"))
