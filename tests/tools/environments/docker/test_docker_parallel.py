"""Many concurrent sessions on one engine, and their isolation from each other (003-29)."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, ExecRequest
from tools.environments import open_environment

pytestmark = pytest.mark.xdist_group("docker")

Open = Callable[..., Environment]


@pytest.fixture
def opened(engine: Any, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens environments, each in its own folder."""
    made: list[Environment] = []

    def opened(**options: Any) -> Environment:
        folder = tmp_path.resolve() / str(len(made))
        folder.mkdir()
        made.append(open_environment("docker", cwd=str(folder), **{**engine.options, **options}))
        return made[-1]

    async def close() -> None:
        await asyncio.gather(*(each.close() for each in made))

    yield opened
    asyncio.run(close())


class Printed:
    """Digests of both output streams."""

    def __init__(self) -> None:
        self._streams = {"stdout": hashlib.sha256(), "stderr": hashlib.sha256()}

    def __call__(self, name: str, chunk: bytes) -> None:
        self._streams[name].update(chunk)

    def is_only(self, out: bytes, err: bytes, count: int) -> bool:
        wanted = (hashlib.sha256(line * count).digest() for line in (out, err))
        return [each.digest() for each in self._streams.values()] == list(wanted)


def test_sessions_side_by_side_without_a_mixed_up_byte(opened: Open) -> None:
    """TOOLCRIB_SESSIONS is the number of sessions."""
    environments = [opened() for _ in range(int(os.environ.get("TOOLCRIB_SESSIONS", "8")))]
    lines = 30_000

    async def session(number: int, env: Environment) -> None:
        await env.execute(ExecRequest(f"me={number} n=0; say() {{ yes $me.$n.$1 | head -n {lines}; }}", timeout=300))
        for n in range(1, 4):
            printed = Printed()
            request = ExecRequest("n=$((n + 1)); say err >&2 & say out; wait", timeout=300, on_output=printed)
            outcome = await env.execute(request)
            assert (outcome.exit_code, outcome.notice, outcome.where) == (0, "", env.identity)
            assert printed.is_only(b"%d.%d.out\n" % (number, n), b"%d.%d.err\n" % (number, n), lines)
            state = await env.shell_state()
            assert state is not None
            assert (state.variables["me"], state.variables["n"]) == (str(number), str(n))
            copies = await asyncio.gather(*(env.execute(ExecRequest("echo $me $n", timeout=300)) for _ in range(2)))
            assert [each.stdout.head for each in copies] == [b"%d %d\n" % (number, n)] * 2

    async def main() -> None:
        await asyncio.gather(*(session(number, env) for number, env in enumerate(environments)))

    asyncio.run(main())
    assert len({env.identity for env in environments}) == len(environments)


def test_no_session_sees_another_or_this_machine(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    """003-29: this holds for variables, files, processes and sockets. Only configured variables of this process are visible."""
    monkeypatch.setenv("MY_API_KEY", "hunter2")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@proxy")
    (tmp_path / "outside").write_text("hunter2")
    one, other = opened(env={"GIVEN": "yes"}), opened()

    async def says(env: Environment, command: str) -> str:
        outcome = await env.execute(ExecRequest(command, timeout=120))
        return (outcome.stdout.head + outcome.stderr.head).decode()

    async def main() -> None:
        await says(one, "export secret=mine; echo mine >/tmp/mine; echo mine >/dev/shm/mine; echo mine >file; sleep 4242 &")
        there = await says(other, "env; ls -A /tmp /dev/shm . ..; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        for word in ("mine", "4242", "outside", "hunter2", "GIVEN"):
            assert word not in there
        names = {line.partition("=")[0] for line in (await says(one, "env")).splitlines()}
        assert names == {"GIVEN", "HOME", "HOSTNAME", "PATH", "PWD", "SHLVL", "TERM", "_", "secret"}
        assert "No such file" in await says(other, f"cat {tmp_path}/outside {tmp_path}/0/file")
        assert "No such file" in await says(other, f"ls {engine.host.removeprefix('unix://')} /var/run/docker.sock")
        assert one.identity != other.identity
        with pytest.raises(OSError, match="No such file"):
            await other.read_file(f"{tmp_path}/0/file")

    asyncio.run(main())
