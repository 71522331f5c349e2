"""``toolcrib env`` and ``--backend``, with a real engine and a real ssh server (003-29, 003-30)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pexpect
import pytest

from tests.forks import Forks

DOCKER = pytest.mark.xdist_group("docker")
SSH = pytest.mark.xdist_group("ssh")


@pytest.fixture(autouse=True)
def _own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prune finds only processes of this test, not of tests in other workers."""
    monkeypatch.setattr("tools.processes.left.FOLDERS", ())


@pytest.fixture(autouse=True)
def _no_other_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide every other engine, so that these tests only see their own containers."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")


@pytest.fixture
def docker_place(engine: Any, config: Callable[[str], Path]) -> Any:
    """Configure ``docker`` alone, and not what the other backends need."""
    given = f"image: {engine.image}, host: '{engine.host}', mounts: ['/usr:/usr:ro']"
    config(f"environments: {{docker: {{{given}}}, containers: {{again: {{{given}, keep: reuse}}}}}}")
    return engine


@pytest.fixture
def ssh_place(root_sshd: Any, config: Callable[[str], Path]) -> Any:
    given = ", ".join(f"{key}: {value}" for key, value in root_sshd.options.items())
    config(f"environments: {{hosts: {{far: {{{given}, cwd: /usr}}}}}}")
    return root_sshd


@pytest.fixture
def toolcrib(tmp_path: Path, forks: Forks) -> Iterator[Callable[..., pexpect.spawn]]:
    """Return a function that runs toolcrib on its own terminal."""
    made: list[pexpect.spawn] = []

    def start(*args: str) -> pexpect.spawn:
        env = {**os.environ, "SHELL": "/bin/bash", "TERM": "dumb"}
        made.append(forks.spawn(*args, cwd=tmp_path, env=env, timeout=60, encoding="utf-8", dimensions=(40, 400)))
        return made[-1]

    yield start
    for one in made:
        one.close(force=True)


@pytest.fixture
def shell(toolcrib: Callable[..., pexpect.spawn]) -> Callable[..., pexpect.spawn]:
    return lambda *args: toolcrib("env", "shell", *args)


def says(child: pexpect.spawn, command: str) -> str:
    """Run a command in a shell whose prompt is unknown, and return its output."""
    mark = secrets.token_hex(4)
    child.sendline(f"{command}; echo '{mark[:4]}''{mark[4:]}'")  # so that the echoed line does not match
    child.expect(mark)
    return str(child.before)


def leaves(child: pexpect.spawn) -> int:
    child.sendline("exit 7")
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus or 0)


# -- local and sandboxed ---------------------------------------------------------------------------------------------


def test_what_there_is_by_default(run: Any) -> None:
    """003-29"""
    done = run("env")
    assert (done.code, done.err) == (0, "")
    assert "*  local" in done.out
    assert "not configured: set environments.docker.image" in done.out
    assert run("completion", "--names", "backends").out.split() == ["local", "bubblewrap", "docker", "ssh"]
    told = json.loads(run("env", "--json").out)
    assert [(one["name"], one["default"], one["configured"]) for one in told["places"]] == [
        ("local", True, True), ("bubblewrap", False, True), ("docker", False, False), ("ssh", False, False)
    ]  # fmt: skip


KEEPS = """
import asyncio, os, signal, sys
from agent.config import sandbox_records
from tools.environments import open_environment
from tools.processes.table import ProcessTable

async def main(folder):
    options = {"sandbox": "workspace", "session": "left", "records": str(sandbox_records())}
    environment = open_environment("local", cwd=folder, **options)
    await ProcessTable(environment, "left").start("loop", "sleep 600", folder)
    print(environment._sandbox.keeper, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.xdist_group("leftovers")
def test_a_sandbox_that_outlives_its_process_is_pruned(run: Any, config: Any, forks: Forks, tmp_path: Path) -> None:
    """003-30"""
    config("")
    (tmp_path / "work").mkdir()
    killed = forks.run(str(tmp_path / "work"), code=KEEPS, cwd=tmp_path)
    keeper = os.pidfd_open(int(killed.stdout))
    assert "to remove them: toolcrib env prune" in run("env").out
    assert "removed: sandbox of session left\n" in run("env", "prune", "--yes").out
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(keeper, 0)
    os.close(keeper)
    assert "session left" not in run("env", "prune", "--yes").out


@pytest.mark.xdist_group("leftovers")
def test_places_are_tried_for_real(run: Any, config: Any) -> None:
    """003-29"""
    config("environments: {hosts: {gone: {host: 127.0.0.1, port: 1}}}")
    done = run("env", "test", "--json")
    told = {one["name"]: one for one in json.loads(done.out)}
    assert done.code == 1
    assert list(told) == ["local", "gone"]
    assert told["local"]["ok"]
    assert list(told["local"]["seconds"]) == ["open", "command", "file", "interrupt"]
    assert "refuses connections" in told["gone"]["problem"]
    done = run("env", "test", "docker")
    config("environments: {docker: {image: x, host: 'unix:///nowhere'}}")
    pruned = run("env", "prune", "--yes")
    assert pruned.code == 1
    left = r"(removed: \S*/toolcrib-\d+-\S+\n)+"  # leftovers of other tests
    assert re.fullmatch(rf"nothing to remove\n|{left}", pruned.out)
    assert "not checked: the docker engine at unix:///nowhere does not answer" in pruned.err
    stopped = run("env", "stop", "docker")
    assert stopped.code == 1
    assert "not checked: the docker engine at unix:///nowhere does not answer" in stopped.err
    config("environments: {hosts: {gone: {host: 127.0.0.1, port: 1}}}")
    assert (done.code, done.out) == (1, "✗ docker  docker needs an image: set environments.docker.image, such as debian:12\n")
    done = run("env", "test", "gon")
    assert done.code == 2
    assert "did you mean 'gone'?" in done.err
    done = run("doctor")
    assert done.code == 1
    assert "✓ backend local, where sessions run: local" in done.out
    assert "✗ backend gone: " in done.out


@pytest.mark.xdist_group("bubblewrap")
def test_one_call_in_a_sandbox(run: Any, tmp_path: Path) -> None:
    """003-30"""
    done = run("call", "terminal", '{"command": "pwd"}', "--backend", "bubblewrap")
    assert json.loads(done.out) == {"output": f"{tmp_path}\n", "exit_code": 0, "where": "local:bubblewrap"}
    done = run("call", "terminal", '{"command": "pwd"}', "--backend", "bubblerap")
    assert done.code == 2
    assert "did you mean 'bubblewrap'?" in done.err
    done = run("env", "test", "bubblewrap")
    assert done.code == 0, done.out
    done = run("chat", "--provider", "manual", "--backend", "bubblewrap", stdin=b'@terminal {"command": "true"}\n')
    assert "local:bubblewrap" in done.out


def test_a_shell_where_the_place_does_not_work(shell: Callable[..., pexpect.spawn], config: Any) -> None:
    config("environments: {docker: {image: x, host: 'unix:///nowhere'}}")
    child = shell("docker")
    child.expect("toolcrib: the docker engine at unix:///nowhere does not answer .the socket does not exist.: start the engine")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1


def test_what_needs_a_person_is_refused_without_one(run: Any) -> None:
    assert "needs a terminal" in run("env", "shell").err
    assert "name what to stop" in run("env", "stop").err
    assert "no container of toolcrib belongs to 'x'" in run("env", "stop", "x").err
    assert "prune takes no names" in run("env", "prune", "x").err


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.parametrize(("place", "mode"), [("local", "workspace"), ("local", "none"), ("bubblewrap", "none")])
def test_a_shell_of_ones_own_here(
    shell: Callable[..., pexpect.spawn], config: Callable[[str], Path], tmp_path: Path, place: str, mode: str
) -> None:
    config(f"sandbox: {{mode: {mode}}}\n")
    child = shell(place)
    assert str(tmp_path) in says(child, "pwd")
    assert ("closed" in says(child, "test -w /usr || echo clo''sed")) is ((place, mode) != ("local", "none"))
    assert leaves(child) == 7


def test_a_plugins_place(run: Any, user_plugin: Any, tmp_path: Path) -> None:
    """003-29"""
    hook = "@hookimpl\ndef register_environment(add):\n    add('mars', open_local)\n"
    user_plugin("mars", f"from toolcrib import hookimpl\nfrom tools.environments.local import open_local\n{hook}")
    assert run("completion", "--names", "backends").out.split()[-1] == "mars"
    assert "a plugin's" in run("env").out
    done = run("env", "test", "mars")
    assert done.code == 0, done.out
    assert json.loads(run("call", "terminal", '{"command": "pwd"}', "--backend", "mars").out)["output"] == f"{tmp_path}\n"


SLOW = """
import asyncio, threading
from toolcrib import Health, hookimpl
from toolcrib.testing import FakeEnvironment

class Slow(FakeEnvironment):
    woken = threading.Event()
    async def health(self):
        print("it waits", flush=True)
        return Health("" if await asyncio.to_thread(self.woken.wait, 50) else "it was not interrupted")
    def interrupt(self):
        print("and is interrupted", flush=True)
        self.woken.set()

@hookimpl
def register_environment(add):
    add("slow", lambda cwd: Slow())
"""


def test_whoever_tries_places_need_not_wait_for_them(toolcrib: Callable[..., pexpect.spawn], user_plugin: Any) -> None:
    user_plugin("slow", SLOW)
    child = toolcrib("env", "test", "slow")
    child.expect("it waits")
    child.sendintr()
    child.expect("and is interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


@pytest.mark.xdist_group("bubblewrap")
def test_a_chat_says_where_it_runs(toolcrib: Callable[..., pexpect.spawn]) -> None:
    child = toolcrib("chat", "--provider", "manual", "--backend", "bubblewrap")
    child.expect("commands run in bubblewrap: a sandbox on this machine, no network")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)


def test_places_are_completed(run: Any, config: Any, python: str) -> None:
    config("environments: {hosts: {gpu: {host: h}}}")
    script = run("completion", "bash").out
    ours = f"toolcrib() {{ {python} -c 'import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))' \"$@\"; }}"
    typed = "COMP_LINE='toolcrib chat --backend g'; COMP_POINT=${#COMP_LINE}; COMP_WORDS=($COMP_LINE); COMP_CWORD=3"
    line = f"{ours}; {typed}; _toolcrib; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True)
    assert done.stdout == "gpu\n"


# -- docker ----------------------------------------------------------------------------------------------------------

OWNER = """
import asyncio, sys
from agent.api import assemble
crib = assemble()
session = crib.open_session(backend=sys.argv[1])
session.say("hi")
where = session.call("terminal", {"command": "true"}).result.data["where"]
session.call("terminal", {"command": f"echo {where} >/tmp/whose"})
print(where, session.identity.session_id, flush=True)
sys.stdin.read()
session.close_sync()
crib.close()
"""


@pytest.fixture
def owner(tmp_path: Path, forks: Forks) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], str, str]]]:
    """Start another process with a session in a container, and yield (process, container name, session id)."""
    made: list[subprocess.Popen[str]] = []

    def start(backend: str) -> tuple[subprocess.Popen[str], str, str]:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = forks.popen(backend, code=OWNER, cwd=tmp_path, **pipes)
        made.append(process)
        where, session = process.stdout.readline().split()
        return process, where.removeprefix("docker:"), session

    yield start
    for process in made:
        process.communicate()


def running(run: Any) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(run("env", "--json").out)["running"]}


@DOCKER
def test_containers_are_listed_gone_into_and_stopped(
    run: Any, docker_place: Any, owner: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-29"""
    assert run("env", "test", "docker").code == 0
    process, name, session = owner("docker")
    found = running(run)[name]
    assert (found["session"], found["place"], found["status"], found["owner_lives"]) == (session, "docker", "running", True)
    done = run("env")
    assert name in done.out
    assert "running" in done.out
    monkeypatch.setenv("DOCKER_HOST", docker_place.host)  # the same engine under another name
    assert run("env").out.count(name) == 1
    child = shell("--session", session[:8])
    assert name in says(child, f"grep -o {name[:9]} /tmp/whose; cat /tmp/whose")
    assert leaves(child) == 7
    done = run("env", "stop", session[:8])
    assert done.code == 2
    assert "add --yes" in done.err
    assert run("env", "stop", session[:8], "--yes").out == f"removed: {name}\n"
    assert name not in running(run)
    assert process.poll() is None


def forgotten(engine: Any, like: str) -> str:
    """Return the name of a container like ``like`` whose process and watchdog are dead."""
    with subprocess.Popen(["true"]) as ended:
        pass
    with contextlib.closing(docker.DockerClient(engine.host)) as client:
        labels = dict(client.containers.get(like).labels)
        labels["toolcrib.owner"] = " ".join([*labels["toolcrib.owner"].split()[:3], str(ended.pid), "1"])
        return str(client.containers.create(engine.image, ["true"], labels=labels, name=f"{like}-forgotten").name)


@DOCKER
def test_what_was_left_behind_is_pruned(run: Any, docker_place: Any, owner: Any) -> None:
    """003-29"""
    kept, kept_name, _ = owner("again")
    _, alive, _ = owner("docker")
    dead = forgotten(docker_place, alive)
    kept.send_signal(signal.SIGKILL)
    kept.wait()
    found = running(run)
    assert [found[name]["owner_lives"] for name in (dead, kept_name, alive)] == [False, False, True]
    assert "to remove them: toolcrib env prune" in run("env").out
    done = run("env", "prune", "--yes", "--json")
    assert dead in {one["name"] for one in json.loads(done.out)}
    assert {kept_name, alive} <= set(running(run))
    assert run("env", "stop", "again", "--yes").out == f"stopped: {kept_name}\n"
    assert kept_name in run("env", "prune", "--older-than", "0s", "--yes").out
    left = set(running(run))
    assert alive in left
    assert not left & {dead, kept_name}
    assert run("env", "prune", "--older-than", "soon").code == 2


@DOCKER
def test_doctor_removes_what_was_left_behind_once_somebody_agrees(
    run: Any,
    docker_place: Any,
    owner: Any,
    toolcrib: Callable[..., pexpect.spawn],
    config: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    is_asked: Any,
    leave: Any,
) -> None:
    """The container is at the default engine, and no backend is configured. A configured backend cleans up when it is opened."""
    _, alive, _ = owner("docker")
    dead = forgotten(docker_place, alive)
    config("{}")
    monkeypatch.setenv("DOCKER_HOST", docker_place.host)
    done = run("doctor", "--fix", "--yes", "--offline")
    assert f"repair: docker rm -f -v {dead}\n    cost: these containers are removed\n" in done.out
    assert dead in running(run)
    child = toolcrib("doctor", "--fix", "--offline")
    is_asked(child, f"docker rm -f -v {dead}$")
    child.sendline("yes")
    child.expect_exact(f"removed {dead}")
    assert "done; checked again: the problem is gone" in leave(child)[1]
    assert alive in running(run)
    assert dead not in running(run)


@DOCKER
def test_a_shell_in_a_new_container(shell: Any, docker_place: Any, run: Any) -> None:
    child = shell("docker")
    assert "contained" in says(child, "test -e /.dockerenv && echo con''tained")
    child.setwinsize(31, 97)
    assert leaves(child) == 7
    assert not running(run)


@DOCKER
def test_one_call_in_a_container(run: Any, docker_place: Any, tmp_path: Path) -> None:
    """003-30"""
    done = run("call", "terminal", '{"command": "pwd; touch made"}', "--backend", "docker")
    told = json.loads(done.out)
    assert told["output"] == f"{tmp_path}\n"
    assert told["where"].startswith("docker:toolcrib-")
    assert run("call", "terminal", '{"command": "pwd"}', "--backend", "again").code == 0
    assert not [one for one in running(run).values() if one["kept"]], "a call leaves no session to resume"
    assert (tmp_path / "made").exists()


# -- ssh -------------------------------------------------------------------------------------------------------------


@SSH
def test_another_host(run: Any, ssh_place: Any, shell: Any) -> None:
    """003-29, 003-30"""
    done = run("env", "test", "far")
    assert done.code == 0, done.out
    assert f"ssh:root@127.0.0.1:{ssh_place.port}" in done.out
    done = run("chat", "--provider", "manual", "--backend", "far", "--cwd", "/usr/bin", stdin=b'@terminal {"command": "pwd"}\n')
    assert "/usr/bin\n" in done.out
    assert "ssh:root@" in done.out
    child = shell("far")
    assert "/usr" in says(child, "pwd")
    assert "127.0.0.1" in says(child, "echo $SSH_CONNECTION")
    assert leaves(child) == 7
