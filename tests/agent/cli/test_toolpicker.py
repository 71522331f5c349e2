"""The picker of ``toolcrib tools``, key by key; tests/e2e/test_tools_picker.py uses it at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.cli.screen.cells import plain, row_width
from agent.cli.toolpicker import SwitchableTool, ToolPicker, by_toolset
from agent.policy.tool_selection import ToolLine


def tool(
    name: str, toolset: str = "file", about: str = "", *, missing: str = "", fix: str = "", is_off: bool = False
) -> SwitchableTool:
    line = ToolLine(name, toolset, "", about or f"Do what {name} does. At length.", not missing, missing or None, fix)
    return SwitchableTool(line, 100, missing, fix, is_off, is_off)


TOOLS = [
    tool("read_file"),
    tool("weather", "sky", "Tell the sun from rain.", missing="set WEATHER_KEY", fix="toolcrib config set sky.key ..."),
    tool("patch"),
    tool("moon", "sky", is_off=True),
]


class Sitting:
    """A person at a picker; ``text`` is the screen."""

    def __init__(self, *tools: SwitchableTool, locked: str = "") -> None:
        self.asked: list[tuple[Sequence[str], Sequence[str]]] = []
        copies = [SwitchableTool(one.line, one.cost, one.missing, one.fix, one.is_off, one.was_off) for one in tools or TOOLS]
        self.picker = ToolPicker(by_toolset(copies), "Tools on cli", "tools.disabled", self._effect, locked)

    def _effect(self, on: Sequence[str], off: Sequence[str]) -> Sequence[str]:
        self.asked.append((on, off))
        return ["cli: - " + ", ".join(off)]

    def press(self, *keys: str) -> str | None:
        end = None
        for key in keys:
            done = self.picker.pressed(key)
            if callable(done):
                done()
            else:
                end = done
        return end

    def text(self, columns: int = 80, height: int = 24) -> str:
        rows = self.picker.rows(columns, height)
        assert len(rows) <= height
        assert max(map(row_width, rows)) <= columns
        return "\n".join(map(plain, rows))


def test_tools_stand_by_toolset_with_what_they_cost() -> None:
    text = Sitting().text()
    assert [line.strip() for line in text.splitlines()[2:8]] == [
        "file",
        "> [x]  read_file    100  Do what read_file does",
        "[x]  patch        100  Do what patch does",
        "sky",
        "[-]  weather      100  set WEATHER_KEY",
        "[ ]  moon         100  switched off",
    ]
    assert "2 of 4 on, 200 tokens per request" in text


def test_what_is_typed_searches_names_descriptions_and_toolsets() -> None:
    sitting = Sitting()
    sitting.press(*"SUN")
    assert "weather" in sitting.text()
    assert "patch" not in sitting.text()
    sitting.press("c-u", *"sky")
    assert "moon" in sitting.text()
    sitting.press("c-u", *"atc", "backspace")
    assert "> [x]  patch" in sitting.text()
    sitting.press(*"zzz")
    assert "no tool matches 'atzzz'" in sitting.text()
    assert sitting.press("space", "down", "enter") is None
    assert sitting.asked == []


def test_a_missing_tool_says_why_and_how_to_get_it() -> None:
    sitting = Sitting()
    sitting.press("down", "down")
    for columns in (80, 40):
        text = " ".join(sitting.text(columns).split())
        assert "why: set WEATHER_KEY fix: toolcrib config set sky.key ..." in text
        assert "weather: missing; 100 tokens in each request" in text
    sitting.press("space")
    assert "Space cannot enable this tool" in sitting.text()
    assert sitting.picker.changed == ([], [])


def test_space_switches_and_only_enter_after_the_change_was_shown_agrees() -> None:
    sitting = Sitting()
    assert sitting.press("enter") is None
    assert "nothing to change yet" in sitting.text()
    sitting.press("space", "end", "space")
    assert "[ ]* read_file" in sitting.text()
    assert "[x]* moon" in sitting.text()
    assert "2 of 4 on" in sitting.text()
    assert sitting.press("enter", "enter") is None, "the person has not yet seen what it would change"
    assert sitting.asked == [(["moon"], ["read_file"])]
    assert "cli: - read_file" in sitting.text()
    assert sitting.press("escape") is None
    assert "[ ]* read_file" in sitting.text()
    sitting.press("enter")
    sitting.text()
    assert sitting.press("enter") == "done"
    assert sitting.picker.changed == (["moon"], ["read_file"])


@pytest.mark.parametrize("keys", [["escape"], ["c-c"], ["c-d"], ["space", "escape"], ["space", "enter", "c-c"]])
def test_escape_and_an_interrupt_leave(keys: list[str]) -> None:
    assert Sitting().press(*keys) == "leave"


def test_where_nothing_may_be_switched_it_says_why() -> None:
    sitting = Sitting(locked="this is a person's to do")
    sitting.press("space")
    assert "this is a person's to do" in sitting.text()
    assert sitting.picker.changed == ([], [])


def test_what_a_plugin_says_moves_no_cursor() -> None:
    text = Sitting(tool("evil", "bad\x1b[2J", "One\n\x1b]0;two\x07 three")).text()
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("size", [(40, 12), (20, 6), (8, 2), (200, 100)])
def test_any_screen_is_large_enough(size: tuple[int, int]) -> None:
    many = [tool(f"tool_{number}", f"set_{number // 3}", "Long " * 200) for number in range(60)]
    sitting = Sitting(*many)
    for keys in ([], ["end"], ["pageup"], ["home", "space"], ["enter"]):
        sitting.press(*keys)
        sitting.text(*size)
    if size[1] > 10:
        sitting = Sitting(*many)
        sitting.press("end")
        assert "> [x]  tool_59" in sitting.text(*size)
