"""Keys to actions: those of the chat, as they are configured, beside those of prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.filters import Filter
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_PREFIXES: Mapping[str, str] = {"ctrl": "c-", "shift": "s-"}


def pressed(key: str) -> tuple[str, ...]:
    """Return ``ctrl-x alt-s`` as prompt_toolkit has it: ``("c-x", "escape", "s")``."""
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
    """Make the key bindings: ``acts`` are the functions of the actions, ``keys`` their keys, and ``paste`` takes a paste.

    While ``is_asked`` returns True, keys that are for the draft do nothing.
    """
    from prompt_toolkit.filters import Condition, is_searching
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
    from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
    from prompt_toolkit.keys import Keys

    made = KeyBindings()
    always, editing = Condition(lambda: True), ~is_searching
    drafting = editing & Condition(lambda: not is_asked())
    filters: Mapping[str, Filter] = {  # of the actions that are not for the draft alone
        **dict.fromkeys(("send", "newline", "break_off", "leave"), editing),
        **dict.fromkeys(("clear", "suspend", "interrupt"), always),
        "take_back": drafting & Condition(can_take_back),
    }
    theirs = {"complete": get_by_name("menu-complete"), "search": start_reverse_incremental_search}
    for action, bound in keys.items():
        for key in bound:
            name = "break_off" if action == "interrupt" and key != "ctrl-c" else action
            handler = theirs[name] if name in theirs else _handler(acts[name])
            made.add(*pressed(key), filter=filters.get(name, drafting))(handler)

    @made.add("escape", Keys.Any, filter=editing & ~drafting)
    def _is_no_answer(event: KeyPressEvent) -> None:
        """Alt and a letter are not the letter."""

    @made.add(Keys.BracketedPaste, filter=editing)
    def _pasted(event: KeyPressEvent) -> None:
        paste(event.data)

    return made


def _handler(act: Callable[[], Any]) -> Any:
    """Make a handler of prompt_toolkit of what takes no event; it may be a coroutine function."""

    def handle(event: KeyPressEvent) -> Any:
        return act()

    return handle
