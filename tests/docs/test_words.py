"""Spelling, and one name for one thing, in all texts that people read."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.cli.command_pages import pages as of_commands
from agent.reference.site import all_pages
from tests.docs import phrases
from tests.docs.snippets import ROOT

INSTEAD: Mapping[str, str] = {
    r"white-?lists?": "allow-list",
    r"black-?lists?": "deny, or a rule",
    r"tool[ -]sets?": "toolset",
    r"web[ -]hooks?": "webhook",
    r"sub-commands?": "subcommand",
    r"config files?": "configuration file",
    r"can['\u2019]t be had": "unavailable, or can't be installed",
    r"human[- ]in[- ]the[- ]loop": "a person is asked",
    r"LLMs?": "model",
    r"chat ?bots?": "bot",
    r"time-outs?": "time limit",
    r"(?:please|simply|just click|obviously)": "(nothing)",
    r"seamless(?:ly)?|powerful|blazing(?:ly)?|robust": "(nothing: describe the effect)",
}
"""Wordings whose meaning readers would have to guess, and wordings that only this project uses."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    found = {page.path: page.text for page in all_pages(of_commands())}
    return found | {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}


@pytest.mark.untraced
def test_each_word_is_spelt_right(texts: dict[str, str], tmp_path: Path) -> None:
    for name, text in texts.items():
        path = tmp_path / f"{name.removesuffix('.md')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--ignore-words-list", "chage,gost", str(tmp_path)],  # programs that rules name
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_one_thing_has_one_name(texts: dict[str, str]) -> None:
    wrong = []
    for name, text in texts.items():
        prose = re.sub(r"(?ms)^( *)(`{3,}).*?^\1\2 *$|`[^`\n]*`|\]\([^)]*\)", "", text)
        for pattern, instead in INSTEAD.items():
            wrong += [
                f"{name}: {found[0]!r}; say {instead}" for found in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE)
            ]
    assert wrong == []


def test_the_changelog_is_what_a_reader_needs_for_an_upgrade() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text("utf-8").split()) <= 1500
    assert (ROOT / "docs" / "changelog.md").read_text("utf-8") == (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.full
@pytest.mark.untraced
def test_no_room_gets_more_of_the_phrases_to_be_replaced() -> None:
    """``python -m tests.docs.phrases PATH`` lists them; a room with fewer hits records its number in phrases.txt."""
    kept = Path(__file__).with_name("phrases.txt").read_text("utf-8").splitlines()
    most = {room: int(number) for number, room in (line.split() for line in kept)}
    assert {room: number for room, number in phrases.by_room().items() if number > most.get(room, 0)} == {}
