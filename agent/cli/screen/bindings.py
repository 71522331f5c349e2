"""Bind keys to actions: the chat's own, as configured, in addition to those of prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.screen.list_picker import MOVES

if TYPE_CHECKING:
    from prompt_toolkit.filters import Filter
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_PREFIXES: Mapping[str, str] = {"ctrl": "c-", "shift": "s-"}


def pressed(key: str) -> tuple[str, ...]:
    """Return a key such as ``ctrl-x alt-s`` in the form of prompt_toolkit: ``("c-x", "escape", "s")``."""
    found: list[str] = []
    for one in key.split():
        rest = one
        if rest.startswith("alt-"):
            found.append("escape")
            rest = rest.removeprefix("alt-")
        for name, short in _PREFIXES.items():
            if rest.startswith(f"{name}-"):
                rest = f"{short}{rest.removeprefix(f'{name}-')}"
        found.append(rest)
    return tuple(found)


def bindings(
    acts: Mapping[str, Callable[[], Any]],
    keys: Mapping[str, Sequence[str]],
    paste: Callable[[str], None],
    *,
    is_asked: Callable[[], bool],
    can_take_back: Callable[[], bool],
) -> KeyBindings:
    """Return the key bindings. ``acts`` maps actions to functions, ``keys`` maps actions to keys; ``paste`` receives pastes.

    While ``is_asked`` returns True, keys for the draft do nothing. With the keys of vi, Escape first leaves the insert mode,
    and never begins a sequence.
    """
    from prompt_toolkit.filters import Condition, is_searching, vi_mode, vi_navigation_mode
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
    from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
    from prompt_toolkit.keys import Keys

    made = KeyBindings()
    always, editing = Condition(lambda: True), ~is_searching
    drafting = editing & Condition(lambda: not is_asked())
    filters: Mapping[str, Filter] = {  # for actions that do not only change the draft
        **dict.fromkeys(("send", "newline", "break_off", "leave"), editing),
        **dict.fromkeys(("clear", "suspend", "interrupt"), always),
        "take_back": drafting & Condition(can_take_back),
    }
    theirs = {"complete": get_by_name("menu-complete"), "search": start_reverse_incremental_search}
    for action, bound in keys.items():
        for key in bound:
            name = "break_off" if action == "interrupt" and key != "ctrl-c" else action
            handler = theirs[name] if name in theirs else _handler(acts[name])
            sequence, when = pressed(key), filters.get(name, drafting)
            if sequence[0] == "escape":
                when = when & (~vi_mode | ~drafting | vi_navigation_mode) if len(sequence) == 1 else when & ~vi_mode
            made.add(*sequence, filter=when)(handler)

    @made.add("escape", Keys.Any, filter=editing & ~drafting)
    def _is_no_answer(event: KeyPressEvent) -> None:
        """Do nothing: Alt with a letter must not count as the letter."""

    @made.add(Keys.BracketedPaste, filter=editing)
    def _pasted(event: KeyPressEvent) -> None:
        paste(event.data)

    return made


def picker_bindings(picker: Callable[[], object | None], moved: Callable[[str], None]) -> KeyBindings:
    """Return the bindings that move the mark of a list, while ``picker`` returns one."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    made = KeyBindings()
    is_picking = Condition(lambda: picker() is not None)
    for name in MOVES:
        made.add(name, filter=is_picking)(lambda event, name=name: moved(name))
    return made


def _handler(act: Callable[[], Any]) -> Any:
    """Return a handler for prompt_toolkit that calls ``act``, which may be a coroutine function."""

    def handle(event: KeyPressEvent) -> Any:
        return act()

    return handle
