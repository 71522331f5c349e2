"""Input that was typed before the chat reads keys, on a real terminal."""

from __future__ import annotations

import os
import pty
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TextIO

import pytest
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.keys import Keys

from agent.cli.screen.application import taken_over
from agent.cli.screen.tty import told_within


class Typed(Vt100Input):
    """A terminal whose user types while the chat takes it over."""

    def __init__(self, there: TextIO, person: int) -> None:
        super().__init__(there)
        self.person = person
        self.types = b""

    def raw_mode(self) -> AbstractContextManager[None]:
        os.write(self.person, self.types)
        _settles()
        return super().raw_mode()


def _settles() -> None:
    time.sleep(0.1)  # the kernel edits the line


@pytest.fixture
def source() -> Iterator[Typed]:
    person, there = pty.openpty()
    with os.fdopen(there) as file:
        yield Typed(file, person)
    os.close(person)


def typed(source: Typed) -> list[str]:
    with taken_over(source):
        return [one.key if isinstance(one.key, Keys) else str(one.key) for one in get_typeahead(source)]


def test_an_enter_is_one_up_to_the_moment_in_which_keys_come_as_they_are(source: Typed) -> None:
    os.write(source.person, b"a\r")
    _settles()
    source.types = b"b\rc"
    assert typed(source) == ["a", Keys.ControlM, "b", Keys.ControlM, "c"]


def test_an_end_of_input_is_one_too(source: Typed) -> None:
    source.types = b"a\r\x04"
    assert typed(source) == ["a", Keys.ControlM, Keys.ControlD]


def test_the_keys_of_a_terminal_that_gives_each_are_left_to_the_application(source: Typed) -> None:
    with source.raw_mode():
        os.write(source.person, b"a\nb")
        _settles()
        assert typed(source) == []
        assert [one.data for one in source.read_keys()] == ["a", "\n", "b"]


def test_a_new_size_takes_as_long_as_what_lies_between() -> None:
    direct, far, behind_tmux = (
        told_within({}),
        told_within({"SSH_TTY": "/dev/pts/1"}),
        told_within({"TMUX": "/tmp/x", "SSH_TTY": "x"}),
    )
    assert direct < far < behind_tmux
