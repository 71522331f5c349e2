"""Plan mode and confirmed edits at a user's terminal: the plan is accepted, edited or rejected, and edits are allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]


def said(server: ChatServer) -> Any:
    return [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "user"][-1]


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_plan_is_edited_and_accepted(sit_down: Any, server: ChatServer, project: Path, columns: int) -> None:
    write = ChatServer.calls(("write_file", {"path": "two.txt", "content": "x"}))
    server.responses += [ChatServer.text("- write one.txt"), write, ChatServer.text("Written.")]
    options = ("chat", "--mode", "plan", "--base-url", server.base_url, "--model", "m")
    person = sit_down(*options, columns=columns, VISUAL="sed -i s/one/two/")
    person.at_prompt()
    person.types("Plan a file.")
    shown = " ".join(person.sees(r"asks for\s+another$").split())
    assert "/plan accept carries this out, /plan edit changes it first, /plan reject TEXT asks for another" in shown
    person.at_prompt()
    person.types("/plan edit")
    person.sees(r"write two\.txt")
    person.at_prompt()
    person.types("/plan accept")
    person.sees(r"^Written\.$")
    person.at_prompt()
    assert said(server) == "I accept your plan with my changes. Carry out this version:\n\n- write two.txt"
    assert (project / "two.txt").read_text() == "x"
    assert "plan ·" not in person.text.splitlines()[-1]


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_all_edits_of_the_session_are_allowed_at_once(sit_down: Any, project: Path, columns: int) -> None:
    person = sit_down("chat", "--mode", "confirm-edits", columns=columns)
    person.at_prompt()
    person.types('@write_file {"path": "a", "content": "1"}')
    shown = " ".join(person.sees(r"\? help").replace("┃", " ").split())
    assert "all edits, anywhere below" in shown
    person.chooses("s")
    person.sees(r"approved: all edits, anywhere below")
    person.at_prompt()
    person.types('@write_file {"path": "b", "content": "2"}')
    person.sees(r'(?s)"action": "created".*"action": "created"')
    person.at_prompt()
    assert (project / "b").read_text() == "2"
    person.types('@terminal {"command": "touch c"}')
    person.denies()
    person.at_prompt()
    assert not (project / "c").exists()
