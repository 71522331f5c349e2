"""A container without bash: a new sh runs each command (003-29)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments import open_environment

pytestmark = pytest.mark.xdist_group("docker")


@pytest.fixture
def env(engine: Any, folder: Path, tmp_path: Path) -> Iterator[Environment]:
    """A container with a file that can't be executed in place of bash."""
    (tmp_path / "nothing").touch()
    mounts = [*engine.options["mounts"], f"{tmp_path}/nothing:/usr/bin/bash:ro"]
    environment = open_environment("docker", cwd=str(folder), **{**engine.options, "mounts": mounts})
    yield environment
    asyncio.run(environment.close())


@pytest.fixture
def run(env: Environment) -> Callable[..., ExecOutcome]:
    return lambda command, **options: asyncio.run(env.execute(ExecRequest(command, **{"timeout": 120.0, **options})))


def test_commands(env: Environment, run: Callable[..., ExecOutcome], folder: Path) -> None:
    """003-29: notices and health report what is not kept; gates get no state."""
    outcome = run("a=1; echo $0 $#; echo err >&2; (exit 7)")
    assert (outcome.exit_code, outcome.stdout.head, outcome.stderr.head, outcome.ended) == (7, b"sh 0\n", b"err\n", "exited")
    assert "variables and functions are not kept. Install it there (apk add bash" in outcome.notice
    assert asyncio.run(env.shell_state()) is None
    outcome = run("mkdir sub; cd sub; echo ${a-none} $B; exit 3", env={"B": "it's"})
    assert (outcome.exit_code, outcome.stdout.head, outcome.notice) == (3, b"none it's\n", "")
    assert outcome.cwd == env.cwd == f"{folder}/sub"
    assert run("pwd; cat", stdin=b"\0\xff" * 50_000, cwd="..").stdout.total == 100_000 + len(f"{folder}\n")
    assert run("pwd").stdout.head == f"{folder}/sub\n".encode()
    for command, code in (("echo 'unclosed", 2), ("kill -9 $$", 137), ("sleep 60 & exit 6", 6), ("no-such-command", 127)):
        assert run(command).exit_code == code
    assert run("printf '\\036%s 0 1 /\\036%s\\n' 0 0; head -c 9000000 /dev/zero; exit 4").exit_code == 4
    assert run("echo seen; exit 5", on_output=lambda *_: 1 // 0).exit_code == 5
    assert "bash is missing" in asyncio.run(env.health()).problem
    for options, said in (({"cwd": "/nowhere"}, "/nowhere cannot be entered"), ({"env": {"A=B": ""}}, "can't be passed")):
        with pytest.raises(EnvironmentFailed, match=said):
            run("touch ran", **options)
    with pytest.raises(EnvironmentFailed, match=r"bash is missing .*nothing was run"):
        asyncio.run(env.spawn(ExecRequest("touch ran")))
    assert not list(folder.glob("**/ran"))


def test_files(env: Environment, folder: Path) -> None:
    async def main() -> None:
        for data in (b"small", b"\0" * 200_000):
            await env.write_file(f"{folder}/new/file", data)
            assert await env.read_file(f"{folder}/new/file") == data
        assert await env.resolve("new/../new/file") == f"{folder}/new/file"
        assert [each.size for each in await env.list_dir(f"{folder}/new")] == [200_000]

    asyncio.run(main())


@pytest.mark.parametrize("hang", ["trap '' INT TERM; sleep 300; sleep 300", "sleep 300 | cat & wait"])
def test_ends(env: Environment, run: Callable[..., ExecOutcome], hang: str) -> None:
    """After a time limit, an interrupt or a cancelled call no process is left; an earlier background process lives on."""
    run("sleep 4243 >/dev/null 2>&1 &")
    outcome = run(f"echo before; {hang}; touch after", timeout=0.3)
    assert (outcome.ended, outcome.stdout.head) == ("timeout", b"before\n")
    count = "ps -e -o args= | grep -cE '[s]leep (300|4243)'"
    assert run(count).stdout.head == b"1\n"

    async def main() -> None:
        for end in (lambda call: env.interrupt(), lambda call: call.cancel()):
            seen = asyncio.Event()
            request = ExecRequest(f"echo; {hang}; touch after", on_output=lambda *_, seen=seen: seen.set())
            call = asyncio.create_task(env.execute(request))
            await seen.wait()
            end(call)
            await asyncio.wait([call])
            assert call.cancelled() or call.result().ended == "interrupted"

    asyncio.run(main())
    assert run(f"{count}; ls").stdout.head == b"1\n"
