"""Keys to actions: those of the chat, as they are configured, beside those of prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent

    from agent.cli.screen.keyboard import Keyboard

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


def bindings(keyboard: Keyboard, keys: Mapping[str, Sequence[str]]) -> Any:
    """Make the key bindings; ``keys`` are those of each action."""
    from prompt_toolkit.filters import Condition, is_searching
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
    from prompt_toolkit.key_binding.bindings.search import start_reverse_incremental_search
    from prompt_toolkit.keys import Keys

    made = KeyBindings()
    always, editing = Condition(lambda: True), ~is_searching
    drafting = editing & Condition(lambda: not keyboard.is_asked)
    acts: Mapping[str, tuple[Callable[[], Any], Any]] = {
        "send": (keyboard.enter, editing),
        "newline": (keyboard.newline, editing),
        "steer": (keyboard.steer, drafting),
        "edit": (keyboard.edit, drafting),
        "paste_image": (keyboard.paste_image, drafting),
        "next_mode": (keyboard.next_mode, drafting),
        "clear": (keyboard.clear, always),
        "take_back": (keyboard.take_back, drafting & Condition(lambda: keyboard.can_take_back)),
        "suspend": (keyboard.suspend, always),
        "interrupt": (keyboard.interrupt, always),
        "break_off": (keyboard.break_off, editing),
        "leave": (keyboard.end_of_input, editing),
    }
    theirs = {"complete": get_by_name("menu-complete"), "search": start_reverse_incremental_search}
    for action, bound in keys.items():
        for key in bound:
            act, where = acts.get("break_off" if action == "interrupt" and key != "ctrl-c" else action, (None, drafting))
            made.add(*pressed(key), filter=where)(theirs[action] if act is None else _handler(act))

    @made.add("escape", Keys.Any, filter=editing & ~drafting)
    def _is_no_answer(event: KeyPressEvent) -> None:
        """Alt and a letter are not the letter."""

    @made.add(Keys.BracketedPaste, filter=editing)
    def _pasted(event: KeyPressEvent) -> None:
        keyboard.paste(event.data)

    return made


def _handler(act: Callable[[], Any]) -> Any:
    """Make a handler of prompt_toolkit of what takes no event; it may be a coroutine function."""

    def handle(event: KeyPressEvent) -> Any:
        return act()

    return handle
