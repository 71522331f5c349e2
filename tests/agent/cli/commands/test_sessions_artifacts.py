"""``toolcrib sessions artifacts``: people read large results."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from tools.dispatch.bridge import run_async

LINES = [f"line {number}" for number in range(5_000)]
LINES[4_000] = "the quokka \x1b[31m\u202ehops"


@pytest.fixture
def kept(run: Any) -> dict[str, str]:
    """Make a session with an artifact of ``terminal`` and one of a manual call; return their names and the session's id."""

    async def fill() -> dict[str, str]:
        async with assemble() as crib:
            store = crib.store
            names = {}
            await store.sessions.create("4f1c" * 8, platform="cli", user="", cwd="/p")
            await store.sessions.append("4f1c" * 8, {"role": "user", "text": "Run the build."})
            digest = await store.artifacts.put("4f1c" * 8, "\n".join(LINES).encode())
            names["build"] = f"artifact:{digest[:16]}"
            text = f"the full text is {names['build']}: read_file it in parts"
            result = {"call_id": "c", "name": "terminal", "text": text, "is_error": False}
            call = {"id": "c", "name": "terminal", "args": {"command": "make"}}
            await store.sessions.append("4f1c" * 8, {"role": "assistant", "text": "", "calls": [call]})
            await store.sessions.append("4f1c" * 8, {"role": "results", "results": [result]})
            names["odd"] = f"artifact:{(await store.artifacts.put('4f1c' * 8, bytes(range(256))))[:16]}"
            await store.sessions.create("77ab" * 8, platform="cli", user="", cwd="/p")
            return names

    return run_async(fill())


def test_they_are_listed_with_what_they_come_from(run: Any, kept: dict[str, str]) -> None:
    done = run("sessions", "artifacts", "4f1c")
    size = len("\n".join(LINES).encode())
    assert [line.split()[:3] for line in done.out.splitlines()] == [
        ["NAME", "BYTES", "TOOL"],
        [kept["build"], f"{size:,}", "terminal"],
        [kept["odd"], "256", "-"],
    ]
    assert f"to show one: toolcrib sessions artifacts 4f1c4f1c4f1c {kept['odd']}; -o FILE writes it" in done.err
    (build, odd) = json.loads(run("sessions", "artifacts", "4f1c", "--json").out)
    assert (build["name"], build["size"], build["tool"], odd["tool"]) == (kept["build"], size, "terminal", "")
    assert run("sessions", "artifacts", "77ab").out == "this session has no artifacts (results that are too long for a model)\n"
    assert "give the session: toolcrib sessions artifacts ID" in run("sessions", "artifacts").err


def test_one_is_shown_without_what_acts_on_a_terminal(run: Any, kept: dict[str, str]) -> None:
    for words in (("artifacts", "4f1c", kept["build"]), ("show", kept["build"]), ("show", kept["build"][:14])):
        shown = run("sessions", *words).out
        assert shown.splitlines()[:2] == ["line 0", "line 1"]
        assert "the quokka ^[[31m\\u202ehops\n" in shown
        assert shown.endswith("line 4999\n")
    odd = run("sessions", "show", kept["odd"]).out
    assert not set(odd) & {"\x1b", "\x07", "\x00", "\x9b"}


def test_one_is_written_as_it_is(run: Any, kept: dict[str, str], tmp_path: Path) -> None:
    assert run("sessions", "artifacts", "4f1c", kept["odd"], "-o", "odd.bin").err.endswith("wrote odd.bin\n")
    assert (tmp_path / "odd.bin").read_bytes() == bytes(range(256))
    assert stat.S_IMODE((tmp_path / "odd.bin").stat().st_mode) == 0o600
    assert "--force" in run("sessions", "show", kept["odd"], "-o", "odd.bin").err
    assert run("sessions", "show", kept["build"], "-o", "odd.bin", "--force").code == 0
    assert (tmp_path / "odd.bin").read_text() == "\n".join(LINES)


def test_what_is_not_there_is_said(run: Any, kept: dict[str, str]) -> None:
    assert f"no artifact '{kept['build']}' exists here" in run("sessions", "artifacts", "77ab", kept["build"]).err
    assert "is not the name of an artifact" in run("sessions", "artifacts", "4f1c", "../../etc/passwd").err
    assert "is not the name of an artifact" in run("sessions", "show", "artifact:").err
    assert "give one name" in run("sessions", "artifacts", "4f1c", kept["build"], kept["odd"]).err


def test_searches_find_their_text(run: Any, kept: dict[str, str]) -> None:
    found = run("sessions", "search", "quokka").out.splitlines()
    assert found[0].startswith("4f1c4f1c4f1c  ")
    assert found[1].startswith(f"  {kept['build']}, line 4001: ")
    assert "the quokka ^[[31m\\u202ehops" in found[1]
    (hit,) = json.loads(run("sessions", "search", "quokka", "--json").out)
    assert (hit["artifact"], hit["line"], hit["session_id"]) == (kept["build"], 4_001, "4f1c" * 8)
    assert run("sessions", "search", "quokka", "--here").out == "nothing found\n"


def test_exports_name_them(run: Any, kept: dict[str, str]) -> None:
    line = f"{kept['build']}, {len(chr(10).join(LINES).encode()):,} bytes of terminal"
    assert f"## Artifacts\n\n- {line}\n" in run("sessions", "export", "4f1c").out
    assert f"<li>{line}</li>" in run("sessions", "export", "4f1c", "--format", "html").out
    named = json.loads(run("sessions", "export", "4f1c", "--format", "json").out)["artifacts"]
    assert [(one["name"], one["tool"]) for one in named] == [(kept["build"], "terminal"), (kept["odd"], "")]
    assert "artifacts" not in json.loads(run("sessions", "export", "77ab", "--format", "json").out)


def test_their_names_are_completed(run: Any, kept: dict[str, str]) -> None:
    assert run("completion", "--names", "artifacts").out.split() == ["4f1c4f1c4f1c", kept["odd"], kept["build"]]
    assert "sessions:artifacts) kind=artifacts ;;" in run("completion", "bash").out
