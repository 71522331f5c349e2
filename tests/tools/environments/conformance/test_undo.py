"""What file tools replace can be had back in every place."""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.run import Crib, Session, assemble
from agent.undo import Wanted
from toolcrib import Answer, Environment, SuspendTicket, ToolCallContext
from tools.undo.restore import Done


def do(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def test_an_empty_folder_is_removed_and_nothing_else(env: Environment, folder: Path) -> None:
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "f").write_text("")
    (folder / "link").symlink_to("d")
    for name, number in (
        ("d", errno.ENOTEMPTY),
        ("nothing", errno.ENOENT),
        ("f", errno.ENOTDIR),
        ("link", errno.ELOOP),
        ("link/e", errno.ELOOP),
    ):
        with pytest.raises(OSError, match=name) as error:
            do(env.delete_folder(f"{folder}/{name}"))
        assert error.value.errno == number
    do(env.delete_folder(f"{folder}/d/e"))
    assert sorted(path.name for path in folder.iterdir()) == ["d", "f", "link"]
    assert list((folder / "d").iterdir()) == []


def agree(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    return Answer(ticket.id, payload={"approved": True, "scope": "once"})


def begin(crib: Crib, environment: Environment, folder: Path) -> Session:
    session = crib.open_session(asker=agree, cwd=str(folder))
    session.scope.open_environment = lambda: environment
    session.say("go")
    return session


def call(session: Session, name: str, **args: Any) -> None:
    result = session.call(name, args).result
    assert result.is_success, result


def undo(crib: Crib, session: Session, environment: Environment, what: Any = "turn") -> Done:
    async def both() -> Done:
        taking = crib.undo(session.identity.session_id)
        return await taking.carry_out(await taking.plan(Wanted(what), environment), environment)

    return asyncio.run(both())


def tree(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.is_file() and path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def own() -> Iterator[str]:
    """A file in /tmp, which some places have for themselves."""
    path = Path(f"/tmp/undo-{secrets.token_hex(8)}")
    yield str(path)
    path.unlink(missing_ok=True)


def test_changes_are_taken_back_and_brought_back(
    opened: Callable[..., Environment], folder: Path, own: str, request: pytest.FixtureRequest
) -> None:
    script = folder / "run me"
    script.write_bytes(b"\0binary \xff" * 10_000)
    script.chmod(0o751)
    (folder / "old").write_text("one\ntwo\n")
    before = tree(folder)
    with assemble(project_dir=folder) as crib:
        environment = opened()
        session = begin(crib, environment, folder)
        call(session, "write_file", path="new/deep/x", content="caf\u00e9\n")
        call(session, "write_file", path="run me", content="text")
        call(session, "patch", diff="--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n")
        call(session, "write_file", path=own, content="in the place's own /tmp")
        after = tree(folder)
        assert not undo(crib, session, environment).refused
        assert tree(folder) == before
        assert not undo(crib, session, environment, "redo").refused
        assert tree(folder) == after
        do(environment.close())
        again = opened()
        mine = request.node.callspec.params["opened"] in ("docker", "bubblewrap")
        refused = undo(crib, session, again).refused
        assert [item.path for item in refused] == [own] * mine
        assert tree(folder) == before
        do(again.close())
