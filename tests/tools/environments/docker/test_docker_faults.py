"""Containers: their limits, their owner, and the errors when one of them, or its engine, disappears (003-29)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import getpass
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments import open_environment
from tools.environments.docker.engine import unanswered
from tools.environments.docker.link import DockerLink

pytestmark = pytest.mark.xdist_group("docker")

Open = Callable[..., Environment]


@pytest.fixture
def opened(engine: Any, folder: Path) -> Iterator[Open]:
    made: list[Environment] = []

    def opened(**options: Any) -> Environment:
        made.append(open_environment("docker", cwd=str(folder), **{**engine.options, **options}))
        return made[-1]

    yield opened
    for environment in made:
        asyncio.run(environment.close())


@pytest.fixture
def client(engine: Any) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(engine.host)
    yield client
    client.close()


def run(env: Environment, command: str, **options: Any) -> ExecOutcome:
    return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 120.0, **options})))


def said(env: Environment, command: str) -> str:
    outcome = run(env, command)
    return (outcome.stdout.head + outcome.stderr.head).decode()


def name(env: Environment) -> str:
    return env.identity.removeprefix("docker:")


def during(env: Environment, command: str, what: Callable[[], object]) -> str:
    """Run ``what`` during a command that must fail, and return its error."""
    seen = asyncio.Event()

    async def main() -> str:
        request = ExecRequest(f"echo now; {command}", timeout=100, on_output=lambda *_: seen.set())
        call = asyncio.create_task(env.execute(request))
        await seen.wait()
        await asyncio.to_thread(what)
        with pytest.raises(EnvironmentFailed) as error:
            await call
        return str(error.value)

    return asyncio.run(main())


def test_it_is_hardened(opened: Open, client: docker.DockerClient) -> None:
    env = opened()
    text = said(env, "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; ls /sys/class/net; touch /x; id -u; cat /proc/1/comm")
    assert text.count("0000000000000000") == 2
    assert "NoNewPrivs:\t1" in text
    assert "\nlo\n" in text
    assert "eth" not in text
    assert "Read-only file system" in text
    about = client.containers.get(name(env)).attrs["HostConfig"]
    assert (about["Memory"], about["PidsLimit"], about["NanoCpus"], about["Init"]) == (2 << 30, 512, 2_000_000_000, True)
    assert said(env, "sleep 0.01 & disown; sleep 0.2; ps -e -o stat= | grep -c Z") == "0\n"


@pytest.mark.parametrize("bomb", ["f() { f | f & }; f 2>/dev/null; sleep 300", "while :; do sleep 300 & done 2>/dev/null"])
def test_a_fork_bomb_stays_inside(opened: Open, bomb: str) -> None:
    """The fork bomb ends with its command, although no other process can be started in the container then."""
    env = opened(pids=64)
    run(env, "kept=1")
    assert run(env, bomb, timeout=2).ended == "timeout"
    assert said(env, "echo $kept; ps -e -o args= | grep -c '[s]leep 300'") == "1\n0\n"


def test_the_engine_starts_nothing_for_a_while(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens rarely, if a container is full of processes: the exit code is that of a missing bash.

    The command is still ended.
    """
    env = opened()
    run(env, "kept=1")
    left = iter(range(5))
    really = DockerLink.open
    monkeypatch.setattr(DockerLink, "open", lambda link, argv: really(link, argv if next(left, None) is None else ["/"]))
    assert run(env, "sleep 300", timeout=1).ended == "timeout"
    assert next(left, None) is None
    assert said(env, "echo $kept; ps -e -o args= | grep -c '[s]leep 300'") == "1\n0\n"


FORGE = r"""
for nonce in $(grep -oE '[0-9a-f]{32}' <<<"${seen[*]}" | sort -u) 00000000000000000000000000000000; do
  for fd in /proc/$$/fd/[1-9]* /proc/$PPID/fd/[1-9]*; do
    [ -p "$fd" ] && for text in "$nonce 0 $$ /" "$nonce 0 $PPID /" "$nonce" "$nonce $$ 0 0" "$nonce 0"; do
      printf '\036%s\036%s\n' "$text" "$nonce" >"$fd"
      printf '\036%s \036%s\n' "$nonce" "$nonce" >"$fd"
    done
  done
done 2>/dev/null
"""


def test_a_frame_cannot_be_forged_by_output(opened: Open) -> None:
    """The command writes markers of the last command, and of itself as far as it can know them, to every pipe that it finds."""
    env = opened()
    run(env, "seen=(); trap 'seen+=(\"$BASH_COMMAND\")' DEBUG; true")
    run(env, "echo one")
    outcome = run(env, FORGE + "\nbuiltin echo real; (exit 7)", keep=10_000_000)
    assert outcome.exit_code == 7
    assert outcome.stdout.head.endswith(b"real\n")
    assert outcome.stdout.head.count(b"\x1e") > 20
    assert env.cwd != "/"
    assert run(env, "builtin echo next; (exit 8)").exit_code == 8


def test_a_container_removed_under_us(opened: Open, client: docker.DockerClient) -> None:
    """The command neither succeeds nor runs again; the next call gets another container, and a notice reports that."""
    env = opened()
    run(env, "x=1; echo >/tmp/only-there")
    asyncio.run(env.shell_state())
    old, generation = name(env), env.generation
    text = during(env, "echo run >>count; sleep 300", lambda: client.containers.get(old).remove(force=True))
    assert f"the container {old} was removed" in text
    assert "may have run" in text
    outcome = run(env, "echo $x; ls /tmp/only-there; cat count")
    assert outcome.stdout.head == b"1\nrun\n"
    assert "was replaced" in outcome.notice
    assert "continues with the earlier variables" in outcome.notice
    assert env.generation > generation
    assert name(env) != old
    run(env, "q=1; echo said")
    client.containers.get(name(env)).remove(force=True)
    outcome = run(env, "echo $x ${q-gone}")
    assert "was replaced" in outcome.notice
    assert "recent changes of variables, functions and options are lost" in outcome.notice
    assert outcome.stdout.head == b"1 gone\n"


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # from docker-py, if an engine dies during a connection
def test_an_engine_killed_in_a_command_and_started_again(opened: Open, engine: Any, folder: Path) -> None:
    env = opened()
    run(env, "x=1")
    text = during(env, "echo run >>count; until [ -e go ]; do sleep .05; done; echo end >>count", lambda: engine.control("kill"))
    try:
        assert "docker engine" in text
        assert "may still be running" in text
        with pytest.raises(EnvironmentFailed, match="does not answer"):
            run(env, "true")
    finally:
        engine.control("start")
    outcome = run(env, "echo $x; cat count")
    assert outcome.stdout.head == b"1\nrun\n"
    assert "Still running there" in outcome.notice
    (folder / "go").touch()
    assert said(env, "until grep -q end count; do sleep .05; done; cat count") == "run\nend\n"
    gc.collect()  # as long as the filter above applies


@pytest.fixture
def hung(engine: Any) -> Iterator[Callable[..., None]]:
    """Stop the engine, which then answers no request and ends no connection; ``on=False`` continues it."""
    pid = int((Path(engine.host.removeprefix("unix://")).parent / "docker.pid").read_text())
    yield lambda on=True: os.kill(pid, signal.SIGSTOP if on else signal.SIGCONT)
    os.kill(pid, signal.SIGCONT)


def test_whoever_waits_for_an_engine_that_hangs_can_be_interrupted(
    opened: Open, engine: Any, hung: Callable[..., None], eventually: Callable[[Callable[[], object]], None]
) -> None:
    """003-29: an interrupt ends the call at once, and no command runs.

    Closing does not wait for the engine either; the container is removed once it answers.
    """

    def waiting(threads: int) -> bool:
        return [each.name for each in threading.enumerate()].count("docker-engine") >= threads

    async def main() -> None:
        hung()
        call = asyncio.create_task(new.execute(ExecRequest("touch ran")))
        await asyncio.to_thread(eventually, lambda: waiting(1))
        new.interrupt()
        assert (await call).ended == "interrupted"
        state = asyncio.create_task(other.shell_state())
        await asyncio.to_thread(eventually, lambda: waiting(2))
        other.interrupt()
        with pytest.raises(EnvironmentFailed, match="interrupted while waiting for the docker engine; nothing was run"):
            await state
        started = asyncio.create_task(used.spawn(ExecRequest("touch ran")))
        await asyncio.to_thread(eventually, lambda: waiting(3))
        started.cancel()
        closed = [each.close() for each in (new, other, used)]
        await asyncio.wait_for(asyncio.gather(*closed, started, return_exceptions=True), 20)
        assert waiting(3)

    new, other, used = opened(), opened(), opened()
    run(used, "true")
    asyncio.run(main())
    hung(on=False)
    with contextlib.closing(docker.DockerClient(engine.host)) as client:
        eventually(lambda: name(used) not in [each["Names"][0].lstrip("/") for each in client.api.containers(all=True)])
    eventually(lambda: not waiting(1))
    assert not (Path(used.cwd) / "ran").exists()


def test_a_container_that_is_kept_is_used_again(opened: Open, client: docker.DockerClient) -> None:
    one = opened(keep="reuse", session="work")
    run(one, "echo kept >/tmp/file; x=1")
    kept = name(one)
    asyncio.run(one.close())
    other = opened(keep="reuse", session="work")
    try:
        assert said(other, "cat /tmp/file; echo ${x-}") == "kept\n\n"
        assert name(other) == kept
        assert said(opened(session="work"), "cat /tmp/file").endswith("No such file or directory\n")
    finally:
        client.containers.get(kept).remove(force=True)


@pytest.mark.parametrize("bash", [True, False])
def test_a_container_that_is_kept_was_stopped_meanwhile(
    opened: Open, engine: Any, client: docker.DockerClient, tmp_path: Path, *, bash: bool
) -> None:
    """The contents of its memory are lost. The next command in it reports that once, even if another program started it again."""
    (tmp_path / "nothing").touch()
    mounts = [*engine.options["mounts"], *([] if bash else [f"{tmp_path}/nothing:/usr/bin/bash:ro"])]
    options = {"keep": "reuse", "session": f"stopped-{bash}", "mounts": mounts}

    def notices(*, between: Callable[[], object] = bool) -> list[bool]:
        env = opened(**options)
        told = []
        for step in (bool, between):
            step()
            told.append("was restarted since it was last used" in run(env, "true").notice)
        asyncio.run(env.close())
        return told

    env = opened(**options)
    assert "started again" not in run(env, "touch /tmp/file").notice
    container = client.containers.get(name(env))
    asyncio.run(env.close())
    try:
        assert notices() == [False, False]
        container.restart(timeout=1)
        assert notices() == [True, False]
        assert notices() == [False, False]
        container.stop(timeout=1)
        assert notices() == [True, False]
        assert notices(between=lambda: container.restart(timeout=1)) == [False, False]
        assert notices() == [False, False]
    finally:
        container.remove(force=True)


def test_a_full_disk(opened: Open) -> None:
    """The shell's state is in memory there. File operations report the error, and no file is half written."""
    env = opened(tmpfs="1m")
    run(env, "x=1; head -c 2000000 /dev/zero >/tmp/full")
    with pytest.raises(OSError, match="No space left") as error:
        asyncio.run(env.write_file("/tmp/more", b"\0" * 500_000))
    assert error.value.filename == "/tmp/more"
    assert asyncio.run(env.stat("/tmp/more")) is None
    assert said(env, "rm /tmp/full; echo $x; ls -A /tmp | grep more") == "1\n"


def test_a_full_disk_where_the_state_is_told(opened: Open) -> None:
    env = opened()
    run(env, "x=1; f() { echo f; }")
    assert b"No space left" in run(env, "head -c 100000000 /dev/zero >/dev/shm/full; y=2; printf -v long %50000s").stderr.head
    state = asyncio.run(env.shell_state())
    assert state is not None
    assert state.variables["y"] == "2"
    assert said(env, "echo $x $y; f") == "1 2\nf\n"
    assert "recent changes of variables, functions and options are lost" in run(env, "kill -9 $$").notice  # f may have changed
    assert said(env, "echo $x $y; f; z=3") == "1 2\nf\n"
    asyncio.run(env.write_file("/tmp/file", b"x"))
    assert said(env, "rm /dev/shm/full; echo $z") == "3\n"
    assert said(opened(), "echo well") == "well\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"image": ""}, "needs an image"),
        ({"image": "nowhere/none:1"}, "docker pull nowhere/none:1"),
        ({"host": "unix:///nowhere/docker.sock"}, r"does not answer \(the socket does not exist\): start the engine"),
        ({"host": "tcp://127.0.0.1:1"}, r"does not answer \(nothing listens there\): start the engine"),
        ({"mounts": []}, "has no working /bin/sh"),  # the tests' own image borrows everything
        ({"mounts": ["/:/host:ro"]}, "the whole machine"),
        ({"mounts": ["/etc:/e:ro"]}, "belongs to the system"),
        ({"mounts": ["/usr:/usr:rw"]}, "only be mounted read-only"),
        ({"mounts": ["~"]}, "your home"),
        ({"mounts": ["/nowhere"]}, "can't be mounted: No such file or directory. Create it, or remove it from mounts"),
        ({"user": "nobody-there"}, "the docker engine reports: unable to find user .*: set user to UID:GID"),
        ({"network": "nowhere"}, "the docker engine reports: network nowhere not found: set network to none"),
        ({"image": "No Image"}, "the docker engine reports: invalid reference format.*: set image to a name"),
        ({"memory": "1m"}, "the docker engine reports: Minimum memory limit .*: raise memory"),
        ({"pids": 1}, "nothing was run: raise pids, which is only 1$"),
        ({"mounts": "x"}, "takes a list"),
        ({"network": "host"}, "another container's"),
        ({"keep": "maybe"}, "use remove, reuse"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_had_is_said(opened: Open, options: dict[str, Any], why: str) -> None:
    with pytest.raises(EnvironmentFailed, match=why):
        run(opened(**options), "true")


def test_more_processors_than_there_are_is_no_limit(opened: Open, client: docker.DockerClient) -> None:
    """Some engines have only one processor, which is less than our default."""
    env = opened(cpus=4096.0)
    assert said(env, "echo well") == "well\n"
    assert client.containers.get(name(env)).attrs["HostConfig"]["NanoCpus"] == 0


def test_who_may_not_use_the_engine_is_told_how_to() -> None:
    said = str(unanswered("unix:///var/run/docker.sock", PermissionError(13, "Permission denied")))
    assert (
        f"does not answer (your account may not use it): join the group of its socket (usermod -aG docker {getpass.getuser()},"
        in said
    )


def test_an_engine_that_ends_while_it_is_asked(tmp_path: Path) -> None:
    """The engine accepts the request, and closes the connection without an answer."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "engine"))
        listening.listen()

        def serve() -> None:
            while True:
                with contextlib.suppress(TimeoutError), listening.accept()[0] as one:
                    one.settimeout(20)
                    if one.recv(1 << 16):
                        return

        server = threading.Thread(target=serve)
        server.start()
        env = open_environment("docker", project="none", image="x", host=f"unix://{tmp_path}/engine")
        with pytest.raises(EnvironmentFailed, match=r"does not answer \(it closed the connection\): did it just stop"):
            run(env, "true")
        server.join()
        asyncio.run(env.close())


def test_the_engines_socket_and_our_own_folders_are_never_mounted(opened: Open, engine: Any, folder: Path) -> None:
    socket = engine.host.removeprefix("unix://")
    with pytest.raises(EnvironmentFailed, match="is a socket"):
        opened(mounts=[f"{socket}:/var/run/docker.sock"])
    (folder / "own").mkdir()
    with pytest.raises(EnvironmentFailed, match="toolcrib's own"):
        opened(protected=[str(folder / "own" / "config.yaml")])
    with pytest.raises(EnvironmentFailed, match=r"/etc is not .* Work in another folder, or set project: none$"):
        open_environment("docker", cwd="/etc", **engine.options)
    link = folder / "link"
    link.symlink_to("/etc")
    with pytest.raises(EnvironmentFailed, match="belongs to the system"):
        opened(mounts=[f"{link}:/x"])
