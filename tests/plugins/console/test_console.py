"""The console platform: its socket, and what each terminal is told."""

from __future__ import annotations

import getpass

from tests.plugins.console.test_console_hostile import ConsoleHouse
from tests.plugins.console.test_console_hostile import house as house


async def test_messages_are_new_ones_in_each_process_and_after_presses(house: ConsoleHouse) -> None:
    for start in range(4):
        async with house.running(getpass.getuser()), house.terminal() as terminal:
            terminal.line({"press": ["m1", "y"]})
            for number in range(3):
                terminal.line({"text": f"message {number} of start {start}"})
                await terminal.told("text", f"re message {number} of start {start}")
    assert len(house.asked) == 12
