"""The passphrase: stored only as a hash, set by a person, and expensive to guess."""

from __future__ import annotations

import asyncio
import stat

import pytest

from agent.config import state_dir
from agent.policy import passphrase
from agent.policy.self_protection import BELOW
from toolcrib import Denied, InvalidArguments

WORDS = "four cranes lift päper"


def test_only_the_passphrase_is_right() -> None:
    assert not passphrase.is_set()
    assert not passphrase.is_right("")
    passphrase.set_passphrase(WORDS)
    assert passphrase.is_set()
    assert passphrase.is_right(WORDS)
    assert passphrase.is_right(WORDS.replace("ä", "a\u0308"))
    assert not any(map(passphrase.is_right, ("", WORDS[:-1], WORDS.upper(), f"{WORDS} ", "\ud800")))
    passphrase.set_passphrase("another one entirely")
    assert not passphrase.is_right(WORDS)


def test_only_its_hash_is_kept_and_only_for_this_account() -> None:
    passphrase.set_passphrase(WORDS)
    assert [path.name for path in state_dir().iterdir()] == ["passphrase.json"]
    kept = passphrase.passphrase_path()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not any(word in kept.read_text() for word in WORDS.split())


@pytest.mark.parametrize("kept", ["", "{}", "[]", '{"salt": "00"}', '{"salt": "zz", "scrypt": ""}', '{"salt": 1, "scrypt": 2}'])
def test_a_damaged_file_makes_nothing_right(kept: str) -> None:
    passphrase.set_passphrase(WORDS)
    passphrase.passphrase_path().write_text(kept)
    assert not passphrase.is_right(WORDS)
    assert not passphrase.is_right("")


def test_a_short_one_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="10 characters or more"):
        passphrase.set_passphrase("123456789 ")
    assert not passphrase.is_set()


def test_below_a_session_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BELOW, "1:2")
    with pytest.raises(Denied):
        passphrase.set_passphrase(WORDS)
    assert not passphrase.is_set()


def test_each_wrong_try_makes_the_next_one_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    passphrase.set_passphrase(WORDS)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def tries() -> list[bool]:
        guard = passphrase.PassphraseGuard()
        monkeypatch.setattr("agent.policy.passphrase.asyncio.sleep", sleep)
        found = list(await asyncio.gather(*(guard.accepts(f"try {number}") for number in range(8))))
        return [*found, await guard.accepts(WORDS), await guard.accepts(WORDS)]

    assert asyncio.run(tries()) == [*[False] * 8, True, True]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
