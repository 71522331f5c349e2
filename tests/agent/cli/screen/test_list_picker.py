"""A list of choices: what is searched, marked and shown, for any items and screens."""

from __future__ import annotations

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st

from agent.cli.screen.cells import plain, row_width
from agent.cli.screen.list_picker import MOVES, ListPicker, PickItem

ITEMS = [
    PickItem("1", "fix the total", "2 h ago · qwen"),
    PickItem("2", "日本語 👩‍🚀", "1 d ago · gpt"),
    PickItem("3", "Totals", "qwen"),
]
TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


def shown(picker: ListPicker, columns: int = 40) -> list[str]:
    return [plain(row) for row in picker.rows(columns, 24)]


def test_typing_searches_names_and_details() -> None:
    picker = ListPicker(ITEMS, "Pick")
    assert shown(picker)[0] == "→ fix the total  2 h ago · qwen"
    picker.search("TOTAL qwen")
    assert shown(picker) == ["→ fix the total  2 h ago · qwen", "  Totals         qwen", "  2 of 3"]
    picker.move("down")
    assert picker.chosen == ITEMS[2]
    picker.search("nothing like it")
    assert (picker.chosen, shown(picker)) == (None, ["  no item contains this text"])
    picker.search("")
    assert picker.chosen == ITEMS[0]


def test_the_mark_begins_at_the_current_item_and_stops_at_the_ends() -> None:
    picker = ListPicker([PickItem(str(number), f"item {number}") for number in range(100)], "Pick", "42")
    assert "→ item 42" in shown(picker)
    for key, name in (("pagedown", "item 52"), ("up", "item 51"), *[("pageup", "")] * 9, ("up", "item 0")):
        picker.move(key)
        assert not name or f"→ {name}" in shown(picker)
    assert shown(picker)[-1] == "  100 of 100"


@given(st.lists(st.tuples(TEXT, TEXT), max_size=20), TEXT, st.lists(st.sampled_from(MOVES), max_size=5), st.integers(8, 200))
def test_any_list_fits_the_screen(items: list[tuple[str, str]], search: str, keys: list[str], columns: int) -> None:
    picker = ListPicker([PickItem(str(at), *one) for at, one in enumerate(items)], "Pick")
    for text in (search, ""):
        picker.search(text)
        for key in keys:
            picker.move(key)
        rows = picker.rows(columns, 24)
        assert all(row_width(row) <= columns for row in rows)
        assert sum(plain(row).startswith("→") for row in rows) == (picker.chosen is not None)
        assert not any(category(char) in ("Cc", "Cs") for row in rows for char in plain(row))
