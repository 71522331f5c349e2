"""``/undo`` at a user's terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e


def test_a_person_is_shown_what_will_be_done_and_asked(chatting: Any, project: Path) -> None:
    chatting.types('@write_file {"path": "notes/a.txt", "content": "x"}')
    chatting.sees(r'"action": "created"')
    chatting.at_prompt()
    chatting.types("/undo")
    assert "remove    " in chatting.sees(r"Type yes or no:")
    chatting.types("no")
    chatting.sees(r"nothing was done")
    assert (project / "notes" / "a.txt").exists()
    chatting.at_prompt()
    chatting.types("/undo")
    chatting.sees(r"Type yes or no:.*(.|\n)*Type yes or no:")
    chatting.types("y")
    chatting.sees(r"^  removed ")
    assert not (project / "notes").exists()
