"""Run a picker on the whole screen. The picker decides what is shown, and what each key does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from agent.cli.screen.cells import Row

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

Outcome: TypeAlias = Literal["done", "leave"]
"""The outcome of a picker: accepted, or left without a change."""
_NAMES = "up down pageup pagedown home end enter escape backspace c-u c-c c-d".split()
_STYLES = {"heading": "bold", "strong": "bold", "em": "italic", "chosen": "reverse"}
_ESCAPE = 0.1
"""Seconds after Escape within which further characters make it the beginning of a sequence."""


class Picker(Protocol):
    """A view that takes the whole screen. Keys have prompt_toolkit's names; a blank is ``space``, and a paste is a single
    key.
    """

    def rows(self, columns: int, height: int) -> Sequence[Row]:
        """Return the rows of a screen of this size."""
        ...

    def pressed(self, key: str) -> Outcome | Callable[[], None] | None:
        """Handle a key. Return the outcome, or work that takes a moment: until it is done, all keys but Ctrl-C are ignored."""
        ...


def pick(picker: Picker) -> Outcome:
    """Show the picker on the whole terminal until it ends. Raises exceptions of its work. A closed terminal counts as "leave"."""
    from prompt_toolkit.application import Application
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window
    from prompt_toolkit.styles import Style

    def text() -> StyleAndTextTuples:
        size = app.output.get_size()
        found: StyleAndTextTuples = []
        for number, row in enumerate(picker.rows(max(size.columns - 1, 1), size.rows)):
            found += [("", "\n")] if number else []
            found += [(_STYLES.get(style, ""), part) for part, style in row]
        return found

    app: Application[Outcome] = Application(
        Layout(Window(FormattedTextControl(text, focusable=True, show_cursor=False), always_hide_cursor=True)),
        key_bindings=_bindings(picker),
        style=Style([]),
        full_screen=True,
    )
    app.ttimeoutlen = _ESCAPE
    try:
        return app.run()
    except EOFError:
        return "leave"


def _bindings(picker: Picker) -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    bindings, at_work = KeyBindings(), False

    def act(event: KeyPressEvent, key: str) -> None:
        nonlocal at_work
        if at_work and key != "c-c":
            return
        done = picker.pressed(key)
        if callable(done):
            at_work = True
            event.app.create_background_task(work(event.app, done))
        elif done is not None and not event.app.is_done:
            event.app.exit(result=done)

    async def work(app: Any, do: Callable[[], None]) -> None:
        nonlocal at_work
        import asyncio

        try:
            await asyncio.to_thread(do)
        except Exception as error:  # noqa: BLE001 - the application ends with it and raises it again
            app.exit(exception=error)
        at_work = False
        app.renderer.clear()  # removes lines that the work logged
        app.invalidate()

    for name in _NAMES:
        bindings.add(name, eager=name == "escape")(lambda event, name=name: act(event, name))
    bindings.add(" ")(lambda event: act(event, "space"))
    bindings.add(Keys.SIGINT)(lambda event: act(event, "c-c"))
    bindings.add(Keys.Any)(lambda event: act(event, event.data) if event.data.isprintable() else None)
    bindings.add(Keys.BracketedPaste)(lambda event: act(event, event.data))
    return bindings
