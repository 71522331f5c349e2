"""Single keys from a real terminal: input that was typed ahead or pasted does not count."""

from __future__ import annotations

import asyncio
import os
import pty
import select
from collections.abc import Iterator
from typing import TextIO

import pytest

from agent.cli.keypress import QUIET, SingleKeys


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """Yield the user's end of a terminal, and the program's end."""
    hand, program = pty.openpty()
    with os.fdopen(program, encoding="utf-8") as source:
        yield hand, source
    os.close(hand)


async def pressed(terminal: tuple[int, TextIO], *typed: bytes, quiet: bool = False) -> str:
    hand, source = terminal
    keyboard = SingleKeys(source)

    async def types() -> None:
        for keys in typed:
            await asyncio.sleep(0.1)
            os.write(hand, keys)
            select.select([source], [], [], 1)  # the kernel may pass them on late

    typing = asyncio.create_task(types())
    try:
        if quiet:
            await keyboard.wait_for_quiet()
        async with asyncio.timeout(60):  # in this task: a KeyboardInterrupt would leave another task in the loop
            return await keyboard.press()
    finally:
        await typing


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        (b"o", "o"),
        (b"?", "?"),
        (b"\r", "enter"),
        (b"\x1b[C", "right"),
        (b"\x1b[D", "left"),
        (b"\x1b[A", "up"),
        (b"\x1b[B", "down"),
    ],
)
def test_a_key_has_a_name(terminal: tuple[int, TextIO], typed: bytes, key: str) -> None:
    assert asyncio.run(pressed(terminal, typed)) == key


def test_what_comes_at_once_was_pasted(terminal: tuple[int, TextIO]) -> None:
    """Together with all input that follows without a pause: the rest of a paste that arrived in pieces is no answer either."""
    assert asyncio.run(pressed(terminal, b"o\r", b"once\n", b"d")) == "pasted"
    assert asyncio.run(pressed(terminal, b"\x1b[5~", b"d")) == "d"


@pytest.mark.parametrize("first", [b"d", b"o", b"v"])
def test_a_letter_that_another_key_follows_begins_a_text(terminal: tuple[int, TextIO], first: bytes) -> None:
    assert asyncio.run(pressed(terminal, first, b"o it", b" differently")) == "pasted"
    assert asyncio.run(pressed(terminal, first, b"\r")) == first.decode()


def test_what_was_typed_before_it_was_quiet_is_forgotten(terminal: tuple[int, TextIO]) -> None:
    async def late() -> str:
        hand, _ = terminal
        os.write(hand, b"o")
        loop = asyncio.get_running_loop()
        loop.call_later(5 * QUIET, os.write, hand, b"d")
        return await pressed(terminal, b"o", b"o", quiet=True)

    assert asyncio.run(late()) == "d"


@pytest.mark.parametrize(("typed", "error"), [(b"\x03", KeyboardInterrupt), (b"\x04", EOFError), (b"o\x04", EOFError)])
@pytest.mark.parametrize("quiet", [True, False])
def test_ctrl_c_and_ctrl_d_count_at_any_time(
    terminal: tuple[int, TextIO], typed: bytes, error: type[BaseException], quiet: bool
) -> None:
    async def ends() -> None:
        with pytest.raises(error):
            await pressed(terminal, typed, quiet=quiet)

    asyncio.run(ends())


def test_the_end_of_input_right_before_keys_are_read_counts(terminal: tuple[int, TextIO]) -> None:
    """Ctrl-D that arrived while the terminal still read lines."""
    os.write(terminal[0], b"\x04")
    with pytest.raises(EOFError):
        asyncio.run(pressed(terminal))
