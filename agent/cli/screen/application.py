"""The application of prompt_toolkit that reads the chat's keys and draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.cli.screen.tty import typed_before, typed_since

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.layout import Window

    from agent.cli.screen.key_receivers import Hands

_ESCAPE = 0.3
"""Seconds after Escape within which another key counts as Alt with that key."""


def application(
    draft: Buffer,
    answer: Buffer,
    hands: Hands,
    keys: Input | None,
    bindings: Sequence[KeyBindings],
    pressed: Callable[[], None],
    *,
    vi: bool = False,
) -> tuple[Application[None], tuple[Window, Window]]:
    """Return the application with its invisible windows for the draft and for answers. Later ``bindings`` of a key have
    priority over earlier ones; ``pressed`` is called for each key. ``vi``: the draft is edited with the keys of vi instead of
    those of emacs.
    """
    from prompt_toolkit.application import Application
    from prompt_toolkit.enums import EditingMode
    from prompt_toolkit.key_binding import merge_key_bindings
    from prompt_toolkit.layout import HSplit, Layout, Window
    from prompt_toolkit.layout.controls import BufferControl, SearchBufferControl
    from prompt_toolkit.output import DummyOutput

    class KeysOnly(Application[None]):
        """Reads keys; another module draws the screen."""

        def _redraw(self, render_as_done: bool = False) -> None:
            if self.is_running and not render_as_done:
                hands.changed(whole=False)

        def _on_resize(self) -> None:
            hands.changed(whole=True)

    search = SearchBufferControl()
    windows = (
        Window(BufferControl(draft, search_buffer_control=search)),
        Window(BufferControl(answer, focusable=True)),
    )
    app: Application[None] = KeysOnly(
        layout=Layout(HSplit([*windows, Window(search)]), focused_element=windows[0]),
        key_bindings=merge_key_bindings(bindings),
        input=keys,
        output=DummyOutput(),
        editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
        enable_page_navigation_bindings=False,
        max_render_postpone_time=None,
    )
    app.ttimeoutlen = 0.1
    usual = app.timeoutlen

    def waiting(_: Any) -> None:
        """Wait a shorter time after Escape, which is a key of its own, than between other keys of a sequence."""
        app.timeoutlen = _ESCAPE if [one.key for one in app.key_processor.key_buffer] == ["escape"] else usual

    app.key_processor.before_key_press += lambda _: pressed()
    app.key_processor.after_key_press += waiting
    draft.on_completions_changed += lambda _: hands.changed(whole=False)
    draft.on_text_changed += lambda _: app.invalidate()  # a completion may arrive after the key that requested it
    return app, windows


@contextmanager
def taken_over(source: Input) -> Iterator[None]:
    """Within the block, read every key unbuffered; keys typed before come first.

    The earlier keys are read before any prompt appears. Each line break among them means Enter; in raw mode it would mean
    Ctrl-J.
    """
    try:
        typed = typed_before(descriptor := source.fileno())
    except NotImplementedError:  # the keys come from elsewhere
        yield
        return
    with source.raw_mode():
        if typed is not None:
            _type_ahead(source, typed + typed_since(descriptor))
        yield


def _type_ahead(source: Input, typed: str) -> None:
    from prompt_toolkit.input.typeahead import store_typeahead
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding import KeyPress

    pressed: list[KeyPress] = []
    parser = Vt100Parser(pressed.append)
    parser.feed(typed.replace("\n", "\r"))
    parser.flush()
    store_typeahead(source, pressed)
