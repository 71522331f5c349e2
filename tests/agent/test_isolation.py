"""No session sees another's variables, files, processes or containers, nor any secrets (003-29)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from toolcrib import ExecRequest
from tools.dispatch.json_results import as_json

PLACES = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("local", "bubblewrap", "docker", "ssh")]
Open = Callable[..., Any]


@pytest.fixture(params=PLACES)
def sessions(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Sessions of one process, each in its own folder, by configuration; with secrets in its environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sesame-open-456")
    monkeypatch.setenv("MY_TOKEN", "sesame-open-789")
    backend = request.param
    text = f"terminal: {{backend: {backend}}}\n"
    if backend == "docker":
        given = request.getfixturevalue("engine").options
        text += f"environments: {{docker: {{image: {given['image']}, host: '{given['host']}', mounts: ['/usr:/usr:ro']}}}}"
    if backend == "ssh":
        given = request.getfixturevalue("root_sshd").options
        text += f"environments: {{ssh: {{{', '.join(f'{key}: {value}' for key, value in given.items())}}}}}"
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "config.yaml").write_text(text)
    (folder / "secrets.env").write_text("SOME_API_KEY=sesame-open-123\n")
    (folder / "secrets.env").chmod(0o600)
    made: list[Any] = []
    with assemble(config_file=folder / "config.yaml", project_dir=tmp_path) as crib:

        def open_(name: str) -> Any:
            (tmp_path / name).mkdir()
            made.append(crib.open_session(cwd=None if backend == "ssh" else str(tmp_path / name)))
            return made[-1]

        yield open_
        for session in made:
            session.close_sync()


def says(session: Any, command: str) -> str:
    executed = session.call("terminal", {"command": command})
    assert executed.result.is_success, as_json(executed)
    return str(executed.result.data["output"])


def test_sessions_are_apart(sessions: Open, tmp_path: Path) -> None:
    """003-29"""
    one, two = sessions("one"), sessions("two")
    where = says(one, "mine=1; f() { echo f; }; alias g='echo g'; echo hers >/tmp/tc-apart; sleep 321 & pwd")
    assert says(two, 'echo "${mine-none}"; type -t f g || echo nothing') == "none\nnothing\n"
    kind = one.backend.kind
    assert where == says(two, "pwd").replace("/two\n", "/one\n")
    if kind in ("bubblewrap", "docker"):
        assert says(two, "cat /tmp/tc-apart 2>/dev/null || echo none") == "none\n"
        assert says(two, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 321'").strip() in ("0", "1")  # grep itself
        assert says(two, f"ls {tmp_path}/one 2>/dev/null | wc -l").strip() == "0"
        assert says(two, f"echo x 2>/dev/null >{tmp_path}/one/x || echo refused") == "refused\n" or kind == "bubblewrap"
        assert not (tmp_path / "one" / "x").exists()
    else:
        says(one, "rm /tmp/tc-apart")
    told = {
        "local": "System: ",
        "bubblewrap": "no network",
        "docker": "docker container of",
        "ssh": "another host, root@127.0.0.1",
    }
    assert told[kind] in one.prompt.text()
    identities = {session.scope.environment.identity for session in (one, two)}
    assert len(identities) == (2 if kind == "docker" else 1)


def test_no_secret_is_in_any_place(sessions: Open) -> None:
    """003-29"""
    environment = sessions("one").scope.environment  # results would be redacted
    outcome = asyncio.run(environment.execute(ExecRequest("printenv; declare -p; cat /proc/self/environ", timeout=60)))
    seen = outcome.stdout.head.decode()
    assert "PATH=" in seen
    for secret in ("sesame", "API_KEY", "MY_TOKEN"):
        assert secret not in seen
