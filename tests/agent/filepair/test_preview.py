"""Arguments parsed while they stream: the cuts don't matter, nothing is shown half, and json.loads is the reference."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.filepair.preview import ArgumentReader, GrowingText, PartialText, shortened, summary

KEYS = ("content", "path")
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
# Text that looks like structure misleads a reader that only counts quotes.
texts = st.text() | st.text(alphabet='"\\{}[]:, \nu0dDé\U0001f600') | st.sampled_from(['", "content": "', '{"path": "x"}', "\\"])
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(st.sampled_from(["content", "path", "other", 'a"b', "edits"]), values, max_size=5)


def read(text: str, pieces: list[str] | None = None) -> ArgumentReader:
    reader = ArgumentReader(KEYS)
    for piece in pieces if pieces is not None else [text]:
        reader.feed(piece)
    return reader


def state(reader: ArgumentReader) -> Any:
    found = {key: (got.text, got.done) for key in KEYS if (got := reader.get(key)) is not None}
    return found, reader.complete, reader.broken


def cut(text: str, places: list[int]) -> list[str]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


@given(objects, st.booleans(), st.sampled_from([None, 1]), st.lists(st.integers(0, 10_000)))
def test_any_cut_reads_what_json_reads(args: dict[str, Any], ascii_only: bool, indent: int | None, places: list[int]) -> None:
    """004-10: keys in any order, escapes, quotes and braces in strings, nested objects"""
    text = json.dumps(args, ensure_ascii=ascii_only, indent=indent)
    reader = read(text, cut(text, places))
    assert reader.complete
    assert not reader.broken
    expected = {key: args[key] for key in KEYS if isinstance(args.get(key), str)}
    assert {key: got.text for key in KEYS if (got := reader.get(key)) is not None} == expected


@given(objects, st.booleans())
def test_every_prefix_shows_a_prefix_of_the_value(args: dict[str, Any], ascii_only: bool) -> None:
    """004-9, 004-10: the preview only grows, and never ends in half an escape or half a character"""
    text = json.dumps(args, ensure_ascii=ascii_only)
    reader = ArgumentReader(KEYS)
    shown = dict.fromkeys(KEYS, "")
    for end, character in enumerate(text, 1):
        reader.feed(character)
        for key in KEYS:
            got = reader.get(key)
            if got is None:
                continue
            assert got.text.startswith(shown[key])
            assert str(args[key]).startswith(got.text)
            assert got.length == len(got.text)
            shown[key] = got.text
        if end % 7 == 0:
            assert state(read(text[:end])) == state(reader)


@given(texts | st.text(alphabet='{}[]",:\\ucontentpath ef0dD8'), st.lists(st.integers(0, 10_000)))
def test_any_text_at_all_is_read_the_same_however_it_is_cut(text: str, places: list[int]) -> None:
    assert state(read(text, cut(text, places))) == state(read(text))
    assert all(got.text.encode() is not None for key in KEYS if (got := read(text).get(key)) is not None)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"content": "<p>", "path": "a.html"', "<p>"),
        ('{"content": "say \\"hi\\", then", "path": "a', 'say "hi", then'),
        ('{"content": "a\\', "a"),
        ('{"content": "a\\u00', "a"),
        ('{"content": "a\\u00e9', "aé"),
        ('{"content": "a\\ud83d', "a"),
        ('{"content": "a\\ud83d\\ude', "a"),
        ('{"content": "a\\ud83d\\ude00', "a\U0001f600"),
        ('{"content": "a\\ud83dx', "a\ufffdx"),
        ('{"content": "a\\ude00', "a\ufffd"),
        ('{"other": {"content": "no"}, "content": "yes', "yes"),
        ('{"other": "\\"content\\": \\"no\\"", "content": "yes', "yes"),
        ('{"other": [{"content": "no"}, [1, "}"]], "content": "yes', "yes"),
        ('{"n": -1.5e3, "t": true, "content": "yes', "yes"),
        ('{"conte\\u006et": "yes', "yes"),
        ('{"content": "first", "content": "second', "second"),
        ('{"content": "first", "content": 5', None),
        ('{"content": null', None),
        ('{"content": {"content": "x"', None),
        ('["content", "x"]', None),
        ('"content"', None),
        ("<tool>{", None),
        ('{"content" "x', None),
        ('{"content": "a\\qb', "a"),
        ('{"content": "a"} {"content": "b"}', "a"),
        ("", None),
    ],
)
def test_partial_arguments(text: str, content: str | None) -> None:
    """004-10"""
    got = read(text).get("content")
    assert (None if got is None else got.text) == content
    assert state(read(text, list(text))) == state(read(text))


def test_halves_of_a_character_in_two_pieces_make_it_whole() -> None:
    """004-10: a server may cut an escape of the stream's own JSON"""
    reader = read("", ['{"content": "a\ud83d', "\ude00b\ud83d", 'c"}'])
    got = reader.get("content")
    assert got is not None
    assert got.text == "a\U0001f600b\ufffdc"


def test_all_previews_together_are_linear_in_the_text() -> None:
    """preview.linear: pieces of one character, and a preview whenever one is due"""
    reader, growing, sent, size = ArgumentReader(KEYS), GrowingText(), 0, 100_000
    for character in '{"content": "' + "x" * size:
        reader.feed(character)
        sent += len(growing.next(reader.get("content")) or "")
    assert growing.sent != ""
    assert sent <= 52 * size


@given(st.lists(st.text(max_size=60), max_size=30))
def test_previews_grow_by_40_characters_at_least(pieces: list[str]) -> None:
    """004-9: the first content at once, then in steps of 40 or more"""
    source, growing, sent = PartialText(), GrowingText(), [""]
    for piece in pieces:
        source.add(piece)
        due = source.length > 0 if sent[-1] == "" else source.length - len(sent[-1]) >= 40
        text = growing.next(source)
        assert (text is not None) == due
        if text is not None:
            assert text.startswith(sent[-1])
            sent.append(text)


def test_a_value_that_begins_anew_is_shown_no_more() -> None:
    """004-9"""
    first, second, growing = PartialText(), PartialText(), GrowingText()
    first.add("abc")
    assert growing.next(first) == "abc"
    second.add("xyz" * 100)
    assert growing.next(second) is None
    assert growing.next(first) is None


@given(values)
def test_summaries_are_short(args: Any) -> None:
    """004-20"""
    shown = summary({"a": args, "b": "x" * 500})
    assert shown["b"] == "x" * 197 + "..."
    assert all(len(value) <= 200 for value in shown.values() if isinstance(value, str))
    assert all(value is None or isinstance(value, (str, int, float)) for value in shown.values())
    assert shortened("x" * 200) == "x" * 200
    assert summary([1, 2]) == {"preview": "[1, 2]"}
