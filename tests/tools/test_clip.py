"""Bounded results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.clip import clip_data, clip_text, encode, spill_to


def keep(kept: list[str]) -> Any:
    def spill(text: str) -> str:
        kept.append(text)
        return "; kept"

    return spill


def test_what_fits_is_untouched() -> None:
    kept: list[str] = []
    data = {"a": "x" * 50}
    assert clip_data(data, 100, keep(kept)) is data
    assert clip_data("x" * 100, 100, keep(kept)) == "x" * 100
    assert kept == []


def test_lines_are_kept_whole() -> None:
    clipped = clip_text("\n".join(f"line {number}" for number in range(1000)), 500, "; kept")
    lines = clipped.split("\n")
    assert lines[0] == "line 0"
    assert lines[-1] == "line 999"
    assert sum("characters left out; kept" in line for line in lines) == 1
    assert all(line.startswith(("line ", "[...")) for line in lines)


def test_of_a_structure_the_long_strings_give_way_first() -> None:
    kept: list[str] = []
    data = {"output": "o" * 100_000, "exit_code": 3, "path": "/a/b"}
    clipped = clip_data(data, 10_000, keep(kept))
    assert clipped["exit_code"] == 3
    assert clipped["path"] == "/a/b"
    assert len(clipped["output"]) < 10_000
    assert json.loads(kept[0]) == data


def test_a_structure_of_many_small_things_becomes_its_two_ends() -> None:
    kept: list[str] = []
    data = list(range(100_000))
    clipped = clip_data(data, 5_000, keep(kept))
    assert isinstance(clipped, str)
    assert clipped.startswith("[0, 1")
    assert clipped.endswith("99999]")
    assert json.loads(kept[0]) == data


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30),
    st.integers(100, 400),
)
def test_the_limit_holds(data: Any, limit: int) -> None:
    clipped = clip_data(data, limit, lambda text: "")
    size = len(clipped) if isinstance(clipped, str) else len(encode(clipped))
    assert size <= limit + 60  # for the note about the missing part


def test_a_file_name_that_is_no_utf8_still_gives_good_json() -> None:
    text = encode({"name": "caf\udce9"})
    text.encode()
    assert json.loads(text) == {"name": "caf\udce9"}


def test_the_spill_is_private_and_its_name_is_tame(tmp_path: Path) -> None:
    spill_to(lambda: tmp_path, "../../etc/x y")("text")
    (path,) = tmp_path.iterdir()
    assert path.name == ".._.._etc_x_y.txt"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_spill_that_fails_loses_no_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = spill_to(lambda: tmp_path / "missing", "c")("text")
    assert "could not be kept: No such file or directory" in said
    assert "could not be kept" in caplog.text


def test_a_link_in_the_place_of_the_spill_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "c.txt").symlink_to(target)
    assert "c-2.txt" in spill_to(lambda: tmp_path, "c")("text")
    assert target.read_text() == "mine"
    assert (tmp_path / "c-2.txt").read_text() == "text"


def test_a_call_id_that_comes_again_keeps_both_texts(tmp_path: Path) -> None:
    said = [spill_to(lambda: tmp_path, name)(text) for name, text in (("a/b", "one"), ("a_b", "two"), ("a/b", "three"))]
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["one", "three", "two"]
    assert len(set(said)) == 3
