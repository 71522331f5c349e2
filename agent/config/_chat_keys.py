"""Keys of the chat: each action, its usual keys and what it does. Bindings, ``/keys`` and ``/help`` come from this table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

from agent.config._setting import setting
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex

_KEY = Regex(
    r"(?:(?:alt-)?ctrl-(?:[a-z]|[@\\\]^_]|up|down|left|right|home|end|delete|pageup|pagedown)"
    r"|(?:alt-)?shift-(?:tab|up|down|left|right|home|end|delete|pageup|pagedown)"
    r"|(?:alt-)?(?:enter|tab|up|down|left|right|home|end|pageup|pagedown|insert|delete|f(?:1?[0-9]|2[0-4]))"
    r"|alt-[!-~]|escape)"
)
_LATER = Regex(r"[!-~]")
"""A key behind the first one of a sequence may be a plain character."""
FIXED = {"interrupt": ("ctrl-c",), "leave": ("ctrl-d",)}
"""Keys that nothing else can have: whatever is configured, a person can stop what runs, and leave."""
FIXED_WORDS = {
    "interrupt": "Interrupt what runs, or deny what is asked; Ctrl-C alone also puts the draft into the history.",
    "leave": "Leave, where the draft is empty.",
}
EXPECT = (
    "a list of keys such as ctrl-t, alt-s, f5, alt-enter, escape, or of several one after the other, as in 'ctrl-x ctrl-s'; "
    "ctrl-c and ctrl-d are taken"
)
CLASH = "no two actions with the same key, nor one whose key another's begins with"


def _one_of(keys: str, doc: str, check: Callable[[tuple[str, ...]], bool] | None = None) -> tuple[str, ...]:
    default = tuple(keys.split(", ")) if keys else ()
    return setting(default, doc, expect=EXPECT, check=check or are_keys)  # type: ignore[no-any-return]  # a field, for the class


def are_keys(values: Sequence[str]) -> bool:
    """Return whether each is a key, or several with blanks between, that an action may have."""
    return all(_is_sequence(value.split()) for value in values)


def _is_sequence(parts: Sequence[str]) -> bool:
    taken = {key for keys in FIXED.values() for key in keys}
    later = all(_KEY.fullmatch(part) or _LATER.fullmatch(part) for part in parts[1:])
    return bool(parts) and _KEY.fullmatch(parts[0]) is not None and later and not taken & set(parts)


@dataclass(frozen=True, slots=True)
class KeysConfig:
    """Keys of the chat by action, each a list; [] takes an action its keys. /keys lists them, with what can't be changed"""

    send: tuple[str, ...] = _one_of(
        "enter", "Send the message; while it works, queue it.", lambda values: bool(values) and are_keys(values)
    )
    newline: tuple[str, ...] = _one_of("alt-enter, ctrl-j", "Begin another line; a backslash before Enter does too.")
    steer: tuple[str, ...] = _one_of("alt-s, ctrl-x ctrl-s", "Hand the message to the model with its next results.")
    take_back: tuple[str, ...] = _one_of("up", "Take the last queued message back, where the draft is empty.")
    edit: tuple[str, ...] = _one_of("ctrl-x ctrl-e", "Open the draft in $VISUAL or $EDITOR.")
    next_mode: tuple[str, ...] = _one_of("shift-tab", "Switch the mode: default, confirm-edits, plan.")
    complete: tuple[str, ...] = _one_of("tab", "Complete a command, @file, tool or session.")
    search: tuple[str, ...] = _one_of("ctrl-r", "Search the history.")
    paste_image: tuple[str, ...] = _one_of("ctrl-v", "Attach the picture of the desktop's clipboard to the next message.")
    clear: tuple[str, ...] = _one_of("ctrl-l", "Empty the screen; the scrollback stays.")
    suspend: tuple[str, ...] = _one_of("ctrl-z", "Go to the background; fg comes back.")
    interrupt: tuple[str, ...] = _one_of("escape", "Interrupt what runs, or deny what is asked; Ctrl-C does so always.")


def do_not_clash(keys: KeysConfig) -> bool:
    """Return whether every key leads to one action."""
    known = [tuple(key.split()) for _, values in actions(keys) for key in values]
    return not any(one == other[: len(one)] for place, one in enumerate(known) for at, other in enumerate(known) if place != at)


def actions(keys: KeysConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each action with its keys."""
    for one in fields(KeysConfig):
        yield one.name, getattr(keys, one.name)


def key_table(keys: KeysConfig) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield (action, keys, what it does), those with keys that can't be changed last."""
    for one in fields(KeysConfig):
        if one.name not in FIXED:
            yield one.name, getattr(keys, one.name), str(one.metadata["doc"])
    for name, fixed in FIXED.items():
        yield name, (*fixed, *getattr(keys, name, ())), FIXED_WORDS[name]


def key_label(key: str) -> str:
    """Return a key as people write it: ``Ctrl-X Ctrl-S``."""
    return " ".join("-".join(part.capitalize() for part in one.split("-")) if len(one) > 1 else one for one in key.split())
