"""Keys of the chat: each action, its default keys and what it does. Bindings, ``/keys`` and ``/help`` come from this table."""

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
"""Plain characters, which are allowed as keys after the first one of a sequence."""
FIXED = {"interrupt": ("ctrl-c",), "leave": ("ctrl-d",)}
"""Keys that no action can take, so that the user can always interrupt a run and leave."""
FIXED_WORDS = {
    "interrupt": "Interrupt the run, or deny the request; Ctrl-C also saves the draft in the history.",
    "leave": "Leave, if the draft is empty.",
}
EXPECT = (
    "a list of keys, such as ctrl-t, alt-s, f5, alt-enter or escape, or of key sequences, such as 'ctrl-x ctrl-s'; "
    "ctrl-c and ctrl-d are reserved"
)
CLASH = "a different key for each action, and no key that begins another action's sequence"


def _one_of(keys: str, doc: str, check: Callable[[tuple[str, ...]], bool] | None = None) -> tuple[str, ...]:
    default = tuple(keys.split(", ")) if keys else ()
    return setting(default, doc, expect=EXPECT, check=check or are_keys)  # type: ignore[no-any-return]  # a field, for the class


def are_keys(values: Sequence[str]) -> bool:
    """Return whether each value is a key, or several keys separated by blanks, that an action may have."""
    return all(_is_sequence(value.split()) for value in values)


def _is_sequence(parts: Sequence[str]) -> bool:
    taken = {key for keys in FIXED.values() for key in keys}
    later = all(_KEY.fullmatch(part) or _LATER.fullmatch(part) for part in parts[1:])
    return bool(parts) and _KEY.fullmatch(parts[0]) is not None and later and not taken & set(parts)


@dataclass(frozen=True, slots=True)
class KeysConfig:
    """Keys of the chat by action, each a list; [] removes an action's keys. /keys lists them and the fixed keys"""

    send: tuple[str, ...] = _one_of(
        "enter", "Send the message, or queue it during a run.", lambda values: bool(values) and are_keys(values)
    )
    newline: tuple[str, ...] = _one_of("alt-enter, ctrl-j", "Start a new line; a backslash before Enter does too.")
    steer: tuple[str, ...] = _one_of("alt-s, ctrl-x ctrl-s", "Send the message to the model with the next tool results.")
    take_back: tuple[str, ...] = _one_of("up", "Edit the last queued message, if the draft is empty.")
    edit: tuple[str, ...] = _one_of("ctrl-x ctrl-e", "Open the draft in $VISUAL or $EDITOR.")
    next_mode: tuple[str, ...] = _one_of("shift-tab", "Switch the mode: default, confirm-edits, plan.")
    complete: tuple[str, ...] = _one_of("tab", "Complete a command, @file, tool or session.")
    search: tuple[str, ...] = _one_of("ctrl-r", "Search the history.")
    paste_image: tuple[str, ...] = _one_of("ctrl-v", "Attach the image on the clipboard to the next message.")
    clear: tuple[str, ...] = _one_of("ctrl-l", "Clear the screen; the scrollback stays.")
    suspend: tuple[str, ...] = _one_of("ctrl-z", "Suspend toolcrib; the shell's fg resumes it.")
    interrupt: tuple[str, ...] = _one_of("escape", "Interrupt the run, or deny the request; Ctrl-C always does.")


def do_not_clash(keys: KeysConfig) -> bool:
    """Return True if no key has two actions, and none begins another action's sequence."""
    known = [tuple(key.split()) for _, values in actions(keys) for key in values]
    return not any(one == other[: len(one)] for place, one in enumerate(known) for at, other in enumerate(known) if place != at)


def actions(keys: KeysConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each action with its keys."""
    for one in fields(KeysConfig):
        yield one.name, getattr(keys, one.name)


def key_table(keys: KeysConfig) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield (action, keys, description) for each action; fixed keys come last."""
    for one in fields(KeysConfig):
        if one.name not in FIXED:
            yield one.name, getattr(keys, one.name), str(one.metadata["doc"])
    for name, fixed in FIXED.items():
        yield name, (*fixed, *getattr(keys, name, ())), FIXED_WORDS[name]


def key_label(key: str) -> str:
    """Return a key as it is shown to users: ``Ctrl-X Ctrl-S``."""
    return " ".join("-".join(part.capitalize() for part in one.split("-")) if len(one) > 1 else one for one in key.split())
