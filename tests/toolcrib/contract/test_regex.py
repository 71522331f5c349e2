"""Regular expressions that are compiled at first use behave like those of ``re``."""

from __future__ import annotations

import re

import pytest

from toolcrib.contract.regex import Regex

TEXT = "one 1 two 22"


def test_it_is_compiled_when_a_method_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = re.compile
    monkeypatch.setattr(re, "compile", lambda pattern, flags=0: compiled.append(pattern) or original(pattern, flags))
    number = Regex(r"\d+")
    assert (number.pattern, number.flags, compiled) == (r"\d+", 0, [])
    assert [number.findall(TEXT), number.findall(TEXT)] == [["1", "22"]] * 2
    assert number.search(TEXT) is not None
    assert compiled == [r"\d+"]


def test_its_methods_are_those_of_a_pattern() -> None:
    number, plain = Regex(r"\d+"), re.compile(r"\d+")
    assert number.findall(TEXT) == plain.findall(TEXT)
    assert [match.span() for match in number.finditer(TEXT)] == [match.span() for match in plain.finditer(TEXT)]
    assert number.split(TEXT, 1) == plain.split(TEXT, 1)
    assert number.sub("n", TEXT) == number.sub(lambda match: "n", TEXT) == plain.sub("n", TEXT)
    assert number.subn("n", TEXT, 1) == plain.subn("n", TEXT, 1)
    assert number.match(TEXT) is plain.match(TEXT) is None
    found = number.match(TEXT, 4)
    assert found is not None
    assert found.span() == (4, 5)
    assert number.fullmatch("22") is not None
    assert number.fullmatch("22 ") is None
    assert Regex(rb"[a-z]", re.IGNORECASE).search(b"1A") is not None


def test_what_a_pattern_has_not_is_missing_here_too() -> None:
    with pytest.raises(AttributeError, match="no attribute 'searching'"):
        Regex("a").searching  # type: ignore[attr-defined]  # noqa: B018 - that is what is tested


def test_a_broken_one_raises_whenever_it_is_used() -> None:
    """Security fails closed: code that judges by a broken pattern gets the error, not a pattern that matches nothing."""
    broken = Regex("(")
    for _ in range(2):
        with pytest.raises(re.error):
            broken.search("a")
