"""Bytes of named keys and of pasted text."""

from __future__ import annotations

import pytest

from tools.screen.keys import KEYS, UnknownKeyError, key_bytes


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("C-c", b"\x03"),
        ("C-C", b"\x03"),
        ("C-Space", b"\x00"),
        ("C-[", b"\x1b"),
        ("C-/", b"\x1f"),
        ("C-?", b"\x7f"),
        ("M-x", b"\x1bx"),
        ("C-M-a", b"\x1b\x01"),
        ("a", b"a"),
        ("-", b"-"),
        ("M--", b"\x1b-"),
        ("é", "é".encode()),
        ("Enter", b"\r"),
        ("return", b"\r"),
        ("M-Enter", b"\x1b\r"),
        ("Tab", b"\t"),
        ("S-Tab", b"\x1b[Z"),
        ("Escape", b"\x1b"),
        ("Space", b" "),
        ("Backspace", b"\x7f"),
        ("C-Backspace", b"\b"),
        ("Delete", b"\x1b[3~"),
        ("Up", b"\x1b[A"),
        ("up", b"\x1b[A"),
        ("C-Up", b"\x1b[1;5A"),
        ("C-S-Left", b"\x1b[1;6D"),
        ("Home", b"\x1b[H"),
        ("PageUp", b"\x1b[5~"),
        ("M-PgDn", b"\x1b[6;3~"),
        ("F1", b"\x1bOP"),
        ("S-F1", b"\x1b[1;2P"),
        ("F5", b"\x1b[15~"),
        ("F12", b"\x1b[24~"),
    ],
)
def test_a_key_has_the_bytes_of_xterm(name: str, sent: bytes) -> None:
    assert key_bytes(name) == sent


def test_cursor_keys_have_another_form_if_the_program_asks_for_it() -> None:
    assert [key_bytes(name, application_cursor=True) for name in ("Up", "Home", "C-Up", "F5", "a")] == [
        *(b"\x1bOA", b"\x1bOH", b"\x1b[1;5A", b"\x1b[15~", b"a"),
    ]


@pytest.mark.parametrize(("name", "similar"), [("PageUpp", "PageUp"), ("Entr", "Enter"), ("C-Dwon", "Down"), ("F13", "F1")])
def test_an_unknown_key_is_refused_with_similar_ones(name: str, similar: str) -> None:
    with pytest.raises(UnknownKeyError, match=rf"{name}.*Similar: .*\b{similar}\b"):
        key_bytes(name)


@pytest.mark.parametrize("name", ["", "C-", "zzzz", "C-1", "C-é", "\n", "a\x1b"])
def test_a_name_without_bytes_is_refused(name: str) -> None:
    with pytest.raises(UnknownKeyError):
        key_bytes(name)


def test_each_listed_key_has_its_own_bytes() -> None:
    assert len({key_bytes(name) for name in KEYS}) == len(KEYS)
