"""Results that are too large: they are stored with the session by digest, and can be read like files in any process."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, Session, assemble
from agent.conversation.forking import fork
from toolcrib import StoreFailed, ToolCallContext
from toolcrib.testing import ScriptedSession

LINES = [f"line {number}: {number * 7919}" for number in range(6_000)]
WHOLE = "\n".join(LINES)


def opened(crib: Crib, **wanted: Any) -> Session:
    crib.registry.register("big", "terminal", {"description": "d"}, lambda args: WHOLE, parallel_safe=True)
    crib.registry.register("deep", "terminal", {"description": "d"}, lambda args: {"text": WHOLE})
    session = crib.open_session(**wanted)
    session.scope.granted = None
    return session


def name_in(text: str) -> str:
    begin = text.index("artifact:")
    return text[begin : begin + len("artifact:") + 16]


def test_a_large_result_can_be_read_in_the_next_process(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)
        said = session.call("big", {}).result.data
        assert said.startswith("line 0: 0\n")
        assert said.endswith(LINES[-1])
        name = name_in(said)
        assert f"characters left out; the full text is {name}: read_file it in parts" in said
        session.close_sync()
    with assemble(project_dir=tmp_path) as crib:
        again = opened(crib, resume=session.id)
        page = again.call("read_file", {"path": name, "offset": 3001, "limit": 2}).result
        assert page.data["path"] == name
        assert page.data["content"] == f"{LINES[3000]}\n{LINES[3001]}"
        assert page.views["model"].startswith(f"{name}: lines 3001-3002 of 6000")
        found = again.call("search_files", {"path": name, "pattern": "line 4999:"}).result.data
        assert found == {"path": name, "matches": [{"path": name, "line": 5000, "text": LINES[4999]}]}
        again.close_sync()


def test_a_structure_is_kept_as_a_person_would_read_it(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)
        name = name_in(session.call("deep", {}).result.data["text"])
        path = asyncio.run(session.scope.artifact(name))
        assert json.loads(path.read_text()) == {"text": WHOLE}
        assert path.stat().st_mode & 0o777 == 0o600
        session.close_sync()


def test_equal_results_are_one_artifact(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)
        first, second = (session.call("big", {}).result.data for _ in range(2))
        assert first == second
        assert len(asyncio.run(session.store.artifacts.of(session.id))) == 1
        session.close_sync()


def test_long_output_of_a_command_is_an_artifact_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKY_API_KEY", "a-secret-that-stays-here")
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib, asker=_agree)
        command = "for i in 1 2; do yes 0123456789 | head -c 100000; printf '\\na-secret-that%s\\n' -stays-here; done"
        said = session.call("terminal", {"command": command}).result.data
        told = said["truncated"]["output"]
        assert told["full_output"].startswith("artifact:")
        path = asyncio.run(session.scope.artifact(told["full_output"]))
        assert [file.name for file in session.scope.spill_dir.iterdir()] == [path.name]
        text = path.read_text()
        assert len(text) > 200_000
        assert "a-secret-that-stays-here" not in text
        session.close_sync()


def _agree(ticket: Any, ctx: Any) -> Any:
    from toolcrib import Answer

    return Answer(ticket.id, payload={"approved": True, "scope": "once"})


def test_a_name_that_the_session_does_not_know_is_not_found(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        mine, theirs = opened(crib), opened(crib)
        name = name_in(mine.call("big", {}).result.data)
        for path in (name, "artifact:", "artifact:../../etc/passwd", "artifact:0123456789abcdef"):
            result = theirs.call("read_file", {"path": path}).result
            assert result.failure is not None
            assert result.failure.kind == "NotFound"
            assert "this session has no such artifact" in str(result.message)
        mine.close_sync()
        theirs.close_sync()


def test_a_fork_reads_what_it_took_over(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)

        async def both() -> None:
            session.link.use(ScriptedSession([("big", {})], "ok"))
            await session.ask("do it")
            info = await session.info()
            assert info is not None
            forked = await fork(session.store, info)
            (digest,) = await session.store.artifacts.of(session.id)
            assert await session.store.delete([session.id]) == [session.id]
            assert await session.store.artifacts.get(forked.id, digest) == WHOLE.encode()
            await session.close()

        asyncio.run(both())


def test_a_store_that_cannot_take_it_loses_the_whole_and_not_the_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.store._artifacts import SqliteArtifacts

    async def full(*given: Any) -> str:
        raise StoreFailed("store.db-artifacts can't grow: the disk is full; free space and try again")

    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(SqliteArtifacts, "put", full)
            result = session.call("big", {}).result
            output = session.call("terminal", {"command": "yes | head -c 100000"}).result.data
        assert result.is_success
        assert "the full text could not be kept: store.db-artifacts can't grow: the disk is full" in result.data
        assert "could not be kept" in caplog.text
        assert Path(output["truncated"]["output"]["full_output"]).stat().st_size == 100_000, "as long as the process"
        session.close_sync()


def test_a_damaged_artifact_is_said_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.store import _artifacts

    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)
        with monkeypatch.context() as patch:
            patch.setattr(_artifacts, "pack", lambda data: b"\0another content")
            name = name_in(session.call("big", {}).result.data)
        said = session.call("read_file", {"path": name}).result
        assert f"{name} can't be read: " in str(said.message)
        assert "is damaged" in str(said.message)
        session.close_sync()


def test_a_plugin_keeps_a_file_of_its_own(tmp_path: Path) -> None:
    async def make(args: Any, ctx: ToolCallContext) -> Any:
        file = ctx.spill_dir / "made.csv"
        file.write_text(WHOLE)
        name = await ctx.keep_file(file)
        assert (await ctx.artifact(name)).read_text() == WHOLE
        return {"table": name}

    with assemble(project_dir=tmp_path) as crib:
        crib.registry.register("make", "terminal", {"description": "d"}, make)
        session = opened(crib)
        name = session.call("make", {}).result.data["table"]
        assert session.call("read_file", {"path": name, "limit": 1}).result.data["content"] == LINES[0]
        session.close_sync()
