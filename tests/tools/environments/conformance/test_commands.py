"""Exit codes, streams, input, sizes (003-29)."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments import known_environments

Run = Callable[..., ExecOutcome]
Says = Callable[..., str]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("false", 1),
        ("exit 3", 3),
        ("exit 256", 0),
        ("(exit 9)", 9),
        ("no-such-command-here", 127),
        ("/", 126),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill -INT $$; sleep 1", 130),
        ("sh -c 'kill -USR1 $$'", 138),
        ("fi", 2),
        ("echo 'unclosed", 2),
        ("exec sh -c 'exit 4'", 4),
        ("exec no-such-command-here", 127),
        ("set -e; false; true", 1),
        (": ${missing?}", 1),
        ("return 5", 2),
        ("false | true", 0),
        ("set -o pipefail; false | true", 1),
        ("sleep 60 & exit 6", 6),
    ],
)
def test_exit_codes(run: Run, command: str, code: int) -> None:
    """003-29"""
    outcome = run(command)
    assert (outcome.exit_code, outcome.ended) == (code, "exited")
    assert run("echo next").stdout.head == b"next\n"


def test_streams_are_kept_apart(run: Run) -> None:
    outcome = run("echo out; echo err >&2; echo more")
    assert (outcome.stdout.head, outcome.stderr.head) == (b"out\nmore\n", b"err\n")


def test_messages_name_the_shell_and_the_line_of_the_command(run: Run) -> None:
    for _ in range(3):
        assert run("true\nno-such-command-here").stderr.head == b"bash: line 2: no-such-command-here: command not found\n"


def test_output_and_input_are_bytes(run: Run) -> None:
    data = bytes(range(256)) * 3
    assert run("cat", stdin=data).stdout.head == data
    assert run(r"printf '\0a\xff\0'").stdout.head == b"\0a\xff\0"
    assert run("cat").stdout.total == 0


def test_only_the_last_frame_of_a_redrawn_line_is_kept_on_request(run: Run) -> None:
    command = r"printf 'a 1%%\ra 2%%\r\nb 10%%\rb 9%%\033[K\ndos\r\nend\r'; printf '1\r2' >&2"
    outcome = run(command, last_frames=True)
    assert outcome.stdout.head == b"a 2%\r\nb 9%\033[K\ndos\r\nend\r"
    assert outcome.stderr.head == b"2"
    assert (outcome.stdout.redrawn, outcome.stderr.redrawn) == (9, 1)
    assert run(command).stdout.head == b"a 1%\ra 2%\r\nb 10%\rb 9%\033[K\ndos\r\nend\r"


def test_unicode_passes_unchanged(says: Says) -> None:
    text = "grüße 日本語 🔧 e\u0301"
    assert says(f"x='{text}'; printf %s \"$x\"") == text
    assert says('printf %s "$x"') == text


def test_big_input_and_commands(run: Run, says: Says) -> None:
    data = bytes(range(256)) * 40_000
    outcome = run("cat", stdin=data, keep=len(data))
    assert outcome.stdout.head == data
    assert run("head -c 1; exit 4", stdin=data).exit_code == 4
    assert says(f"cat <<'END' | wc -c; echo $#\n{'x' * 1_000_000}\nEND").split() == ["1000001", "0"]


def test_variables_for_one_call(run: Run, says: Says) -> None:
    assert says("echo $A; sh -c 'echo $A'", env={"A": 'it\'s "x"\n y'}) == 'it\'s "x" y\n' + 'it\'s "x" y\n'
    assert says("echo ${A-unset}") == "unset\n"
    for env in ({"A=B": "x"}, {"A": "x\0y"}, {"A": "x" * 5_000_000}):
        with pytest.raises(EnvironmentFailed):
            run("true", env=env)


@pytest.mark.parametrize(("command", "said"), [("a\0b", "NUL character"), ("a\ud800b", "not valid Unicode")])
def test_a_command_that_cannot_be_passed_is_refused(run: Run, command: str, said: str) -> None:
    with pytest.raises(EnvironmentFailed, match=said):
        run(command)


def test_100_mb_of_output_in_bounded_memory(run: Run, tmp_path: Path) -> None:
    run("head -c 5000000 /dev/zero")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = run("head -c 100000000 /dev/zero; echo end >&2", keep=100_000)
    assert (outcome.stdout.total, outcome.stderr.head) == (100_000_000, b"end\n")
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024 <= 20


def test_output_is_seen_as_it_comes(env: Environment, folder: Path) -> None:
    """The command continues only after the test has seen its first line."""

    def seen(name: str, chunk: bytes) -> None:
        if b"first" in chunk:
            (folder / "go").touch()

    request = ExecRequest("echo first; until [ -e go ]; do sleep .02; done; echo last", timeout=60, on_output=seen)
    assert asyncio.run(env.execute(request)).stdout.head == b"first\nlast\n"


def test_a_watcher_that_raises_costs_nothing_but_itself(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def broken(name: str, chunk: bytes) -> None:
        raise RuntimeError("broken watcher")

    outcome = run("echo a; sleep .05; echo b; exit 3", on_output=broken)
    assert (outcome.exit_code, outcome.stdout.head) == (3, b"a\nb\n")
    assert caplog.text.count("on_output raised") == 1


def test_calls_run_side_by_side(env: Environment, says: Says) -> None:
    """Each call has its own shell, which starts with the session's state; its changes are not carried over."""
    says("a=1; f() { echo f$1; }")

    async def main() -> list[ExecOutcome]:
        commands = [f"touch {n}; until [ -e {(n + 1) % 5} ]; do sleep .01; done; a=x{n}; f {n}" for n in range(5)]
        return await asyncio.gather(*(env.execute(ExecRequest(command, timeout=60)) for command in commands))

    outcomes = asyncio.run(main())
    assert [outcome.stdout.head for outcome in outcomes] == [b"f%d\n" % n for n in range(5)], outcomes
    assert says("echo $a") in ("1\n", "x0\n")  # the first call had the session's own shell


def test_a_copy_has_what_the_last_command_changed_however_long_it_takes_to_tell(env: Environment, says: Says) -> None:
    async def main(number: int) -> None:
        busy = asyncio.create_task(env.execute(ExecRequest(f"until [ -e go{number} ]; do sleep .01; done", timeout=60)))
        await asyncio.sleep(0)
        told, process = asyncio.create_task(env.shell_state()), await env.spawn(ExecRequest("echo $n; f"))
        copy = await env.execute(ExecRequest(f"echo $n; f; touch go{number}", timeout=60))
        assert (copy.stdout.head, copy.stderr.head) == (b"%d\nf%d\n" % (number, number), b"")
        said = b""
        while (chunk := await process.read(within=60)) is not None:
            assert chunk[1]
            said += chunk[1]
        assert said == copy.stdout.head
        state = await told
        assert state is not None
        assert state.variables["n"] == str(number)
        await busy

    says("printf -v long %600000s x")
    for number in range(3):
        says(f"n={number}; f() {{ echo f{number}; }}")
        asyncio.run(main(number))


def test_a_slow_reader_loses_nothing(env: Environment) -> None:
    seen = {"stdout": 0, "stderr": 0}

    def slowly(name: str, chunk: bytes) -> None:
        seen[name] += 1
        if seen[name] < 4:
            time.sleep(0.21)

    command = "head -c 1000000 /dev/zero; head -c 900000 /dev/zero >&2"
    outcome = asyncio.run(env.execute(ExecRequest(command, timeout=60, on_output=slowly)))
    assert (outcome.stdout.total, outcome.stderr.total) == (1_000_000, 900_000)
    after = asyncio.run(env.execute(ExecRequest("echo next")))
    assert (after.stdout.head, after.stderr.head) == (b"next\n", b"")


def test_where_more_files_are_open_than_select_knows(opened: Callable[..., Environment], folder: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        env = opened()
        assert asyncio.run(env.execute(ExecRequest("cat", stdin=b"x" * 100_000, timeout=60))).stdout.total == 100_000
        asyncio.run(env.write_file(f"{folder}/big", b"\0" * 100_000))
        assert len(asyncio.run(env.read_file(f"{folder}/big"))) == 100_000
        asyncio.run(env.close())
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_health_and_identity(env: Environment) -> None:
    assert asyncio.run(env.health()).ok
    assert env.identity.partition(":")[0] in known_environments()
    assert asyncio.run(env.execute(ExecRequest("true"))).where == env.identity


def test_a_process_beside_the_others(env: Environment, says: Says) -> None:
    says("a=5; f() { echo got $1; }")

    async def main() -> None:
        process = await env.spawn(ExecRequest("echo $a; while read x; do f $x; done; exit 7", stdin=b"one\n"))
        said = b""
        while said.count(b"\n") < 2:
            name, chunk = await process.read(within=60) or ("its end", b"")
            assert (name, bool(chunk)) == ("stdout", True), (name, said)
            said += chunk
        assert said == b"5\ngot one\n"
        await process.write(b"two\n")
        assert await process.read() == ("stdout", b"got two\n")
        assert (await env.execute(ExecRequest("echo meanwhile"))).stdout.head == b"meanwhile\n"
        assert await process.read(within=0.01) == ("stdout", b"")
        process.close_stdin()
        assert await process.read() is None
        assert await process.wait() == 7
        with pytest.raises(BrokenPipeError):
            await process.write(b"more")

    asyncio.run(main())
