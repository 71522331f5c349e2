"""Commands on this machine: their output, their exit codes, and the session's folder after them."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments import open_environment

Run = Callable[..., ExecOutcome]


# -- exit codes and output -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 3", 3),
        ("no-such-command-here", 127),
        ("/", 126),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("fi", 2),
    ],
)
def test_exit_codes(run: Run, command: str, code: int) -> None:
    outcome = run(command)
    assert (outcome.exit_code, outcome.ended, outcome.where) == (code, "exited", "local")


def test_streams_are_kept_apart(run: Run) -> None:
    outcome = run("echo out; echo err >&2")
    assert (outcome.stdout.head, outcome.stderr.head) == (b"out\n", b"err\n")


def test_messages_name_the_shell_and_the_line_of_the_command(run: Run) -> None:
    assert run("true\nno-such-command-here").stderr.head == b"bash: line 2: no-such-command-here: command not found\n"


def test_unicode_passes_unchanged(run: Run) -> None:
    text = "grüße 日本語 🔧 e\u0301"
    assert run(f"printf %s '{text}'").stdout.head.decode() == text


def test_stdin_is_empty_unless_given(run: Run) -> None:
    assert run("cat").stdout.total == 0
    assert run("cat", stdin=b"a\0b\xff").stdout.head == b"a\0b\xff"


def test_more_stdin_than_a_pipe_holds(run: Run) -> None:
    data = bytes(range(256)) * 4000
    assert run("cat", stdin=data, keep=2_000_000).stdout.head == data
    assert run("exit 4", stdin=data).exit_code == 4


def test_a_command_longer_than_an_argument_may_be(run: Run) -> None:
    outcome = run(f"cat <<'END' | wc -c; echo $#\n{'x' * 300_000}\nEND")
    assert outcome.stdout.head.split() == [b"300001", b"0"]


def test_all_byte_values_come_back(run: Run) -> None:
    data = bytes(range(256))
    assert run("cat", stdin=data).stdout.head == data


def test_long_output_keeps_both_ends_and_spills_the_whole(run: Run, tmp_path: Path) -> None:
    """10 MB"""
    spill = tmp_path / "spill"
    outcome = run("seq 1 1500000 | head -c 10000000", keep=1000, spill=spill)
    captured = outcome.stdout
    assert captured.total == 10_000_000
    assert captured.omitted == 10_000_000 - 1000
    assert captured.head.startswith(b"1\n2\n3\n")
    assert captured.spilled_to is not None
    whole = captured.spilled_to.read_bytes()
    assert len(whole) == 10_000_000
    assert whole.startswith(captured.head)
    assert whole.endswith(captured.tail)
    assert stat.S_IMODE(captured.spilled_to.stat().st_mode) == 0o600
    assert outcome.stderr.spilled_to is None


@pytest.mark.parametrize("keep", [0, 1, 2, 5, 6, 7])
def test_what_fits_is_whole_and_nothing_is_spilled(run: Run, tmp_path: Path, keep: int) -> None:
    captured = run("printf abcdef", keep=keep, spill=tmp_path).stdout
    assert captured.total == 6
    if keep >= 6:
        assert (captured.head, captured.tail, captured.spilled_to) == (b"abcdef", b"", None)
    else:
        assert len(captured.head) + len(captured.tail) == keep
        assert b"abcdef".startswith(captured.head)
        assert b"abcdef".endswith(captured.tail)
        assert captured.spilled_to is not None
        assert captured.spilled_to.read_bytes() == b"abcdef"


def test_100_mb_of_output_need_little_memory(folder: Path) -> None:
    code = """
import asyncio, resource
from toolcrib import ExecRequest
from tools.environments import open_environment
env = open_environment("local")
async def main():
    await env.execute(ExecRequest("true"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = await env.execute(ExecRequest("head -c 100000000 /dev/zero", keep=100_000))
    assert outcome.stdout.total == 100_000_000
    await env.close()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 8


def test_a_full_disk_costs_the_file_and_not_the_result(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        captured = run("seq 1 100000", keep=1000, spill=tmp_path / "spill").stdout
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert captured.head.startswith(b"1\n2\n")
    assert captured.tail.endswith(b"100000\n")
    assert captured.spilled_to is None
    assert list((tmp_path / "spill").iterdir()) == []
    assert "no longer kept" in caplog.text


def test_a_spill_folder_that_cannot_be_made_costs_the_file_only(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    captured = run("seq 1 10000", keep=100, spill=tmp_path / "file" / "spill").stdout
    assert captured.spilled_to is None
    assert captured.tail.endswith(b"10000\n")


@pytest.mark.parametrize(
    ("began", "options", "said"),
    [
        (False, {"command": "touch ran"}, "no shell can be started, as its state cannot be written to"),
        (True, {"command": f"touch ran; : {'x' * 20_000}"}, "the shell's folder cannot be written to"),
        (True, {"command": "touch ran", "stdin": b"x" * 20_000}, "the shell's folder cannot be written to"),
        (True, {"command": "touch ran", "env": {"x": "y" * 20_000}}, "the shell's folder cannot be written to"),
    ],
)
def test_a_command_that_cannot_be_written_down_is_not_run(
    env: Environment, run: Run, folder: Path, began: bool, options: dict[str, Any], said: str
) -> None:
    if began:
        run("kept=1")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(EnvironmentFailed, match=said):
            run(**options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (folder / "ran").exists()
    assert run("echo ${kept-none}").stdout.head == (b"1\n" if began else b"none\n")
    assert run("touch ran").exit_code == 0


# -- the working folder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", ["cd sub", "cd sub; exit 3", "cd sub && false", "set -e; cd sub; false", "cd sub; set -u; $nope", "pushd sub"]
)
def test_the_next_command_starts_where_the_last_one_ended(env: Environment, run: Run, folder: Path, how: str) -> None:
    (folder / "sub").mkdir()
    assert run(how).cwd == str(folder / "sub")
    assert env.cwd == str(folder / "sub")
    assert run("pwd").stdout.head.decode() == f"{folder}/sub\n"


@pytest.mark.parametrize("how", ["(cd sub)", "cd sub | true", "cd nowhere", "bash -c 'cd sub'"])
def test_what_changes_folder_elsewhere_does_not_move_the_session(env: Environment, run: Run, folder: Path, how: str) -> None:
    (folder / "sub").mkdir()
    run(how)
    assert env.cwd == str(folder)


def test_a_folder_name_with_a_newline_is_kept(env: Environment, run: Run, folder: Path) -> None:
    (folder / "a\n b\n").mkdir()
    run("cd a*")
    assert env.cwd == str(folder / "a\n b\n")


def test_a_command_that_is_interrupted_while_it_ends_leaves_one_folder(env: Environment, folder: Path) -> None:
    """bash runs an EXIT trap again if a signal arrives during it."""

    async def main() -> None:
        for number in range(60):
            call = asyncio.create_task(env.execute(ExecRequest("true", timeout=0.0005 + number * 0.00003)))
            await call
            assert env.cwd == str(folder)

    asyncio.run(main())


def test_a_link_to_a_folder_is_followed_in_what_cwd_says(env: Environment, run: Run, folder: Path) -> None:
    """A gate judges cwd, and a link's own name would hide the real folder."""
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    run("cd link")
    assert env.cwd == str(folder / "real")


def test_a_request_with_its_own_folder_leaves_the_session_where_it_is(env: Environment, run: Run, folder: Path) -> None:
    """003-30"""
    (folder / "a" / "b").mkdir(parents=True)
    assert run("cd b; pwd", cwd="a").stdout.head.decode() == f"{folder}/a/b\n"
    assert env.cwd == str(folder)


def test_a_deleted_working_folder_is_said_and_left(env: Environment, run: Run, folder: Path) -> None:
    run("mkdir -p a/b; cd a/b; rm -rf ../../a")
    with pytest.raises(EnvironmentFailed, match=rf"{folder}/a/b no longer exists.*was not run.*now in {folder}:"):
        run("pwd")
    assert run("pwd").stdout.head.decode() == f"{folder}\n"


def test_a_missing_folder_in_the_request_is_refused(env: Environment, run: Run, folder: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"nowhere does not exist.*choose another cwd"):
        run("pwd", cwd="nowhere")
    assert env.cwd == str(folder)


def test_the_commands_own_traps_and_settings_are_left_alone(run: Run) -> None:
    assert run("trap 'echo bye' EXIT; exit 5").stdout.head == b"bye\n"
    assert run("trap 'echo err' ERR; false; true").stdout.head == b"err\n"
    assert run("set -x; true; set +x").stderr.head.startswith(b"++ true\n")
    assert run("echo $0 $# $-; declare -F; alias").stdout.head == b"bash 0 hB\n"


# -- what a command starts with ------------------------------------------------------------------------------------


def test_secrets_and_sockets_of_ours_do_not_reach_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = [
        "OPENAI_API_KEY",
        "MY_SECRET",
        "TMUX",
        "STY",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "LD_PRELOAD",
        "BASH_ENV",
    ]
    for name in hidden[:-2]:
        monkeypatch.setenv(name, "must-not-leak")
    monkeypatch.setenv("LC_TIME", "C")
    names = {line.partition("=")[0] for line in run("env").stdout.head.decode().splitlines()}
    assert not names & set(hidden)
    assert {"PATH", "HOME", "PWD", "TERM", "LC_TIME"} <= names
    assert not {name for name in names if name.startswith("TOOLCRIB")}


def test_only_what_is_listed_is_passed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PROXY", "there")
    monkeypatch.setenv("OTHER", "hidden")

    async def main() -> bytes:
        env = open_environment("local", cwd=str(folder), pass_env=["MY_PROXY", "NOT_SET"])
        try:
            request = ExecRequest("echo $MY_PROXY-$OTHER-$NOT_SET-$MORE", env={"MORE": "more"})
            return (await env.execute(request)).stdout.head
        finally:
            await env.close()

    assert asyncio.run(main()) == b"there---more\n"


def test_no_terminal_and_a_session_of_its_own(run: Run) -> None:
    outcome = run("tty; : </dev/tty; ps -o sid= -p $$ | tr -d ' '; echo $$")
    said = outcome.stdout.head.decode().split("\n")
    assert said[0] == "not a tty"
    assert b"/dev/tty" in outcome.stderr.head
    assert said[1] == said[2]
    assert int(said[1]) != os.getsid(0)


def test_our_open_files_are_not_the_commands(run: Run, folder: Path) -> None:
    with (folder / "open").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        assert f"{folder}/open" not in run("ls -l /proc/self/fd").stdout.head.decode()


def test_sigpipe_and_umask_are_as_usual(run: Run) -> None:
    assert run("yes | head -1; echo ${PIPESTATUS[0]}").stdout.head == b"y\n141\n"
    assert (
        run("umask").stdout.head.strip()
        == run(f"{sys.executable} -c 'import os; print(f\"{{os.umask(0):04o}}\")'").stdout.head.strip()
    )


@pytest.mark.parametrize(("command", "said"), [("a\0b", "NUL character"), ("a\ud800b", "not valid Unicode")])
def test_a_command_that_cannot_be_passed_is_refused(run: Run, command: str, said: str) -> None:
    with pytest.raises(EnvironmentFailed, match=said):
        run(command)


def test_an_impossible_environment_is_refused_and_leaves_nothing_open(run: Run, open_files: Callable[[], int]) -> None:
    run("true")
    before = open_files()
    for env in ({"A=B": "x"}, {"A": "x\0y"}, {"A": "x" * 5_000_000}):
        with pytest.raises(EnvironmentFailed):
            run("true", env=env)
    assert open_files() <= before


def test_without_bash_it_says_so_and_uses_sh(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "sh").symlink_to("/bin/sh")
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(bin_))
    env = open_environment("local", cwd=str(folder))
    monkeypatch.setenv("PATH", path)

    async def main() -> None:
        assert env.identity == "local:sh"
        (folder / "sub").mkdir()
        outcome = await env.execute(ExecRequest("cd sub; echo hi; exit 3"))
        assert (outcome.exit_code, outcome.stdout.head, outcome.cwd) == (3, b"hi\n", str(folder / "sub"))
        assert (await env.execute(ExecRequest(f": {'x' * 200_000}; echo long"))).stdout.head == b"long\n"
        assert await env.shell_state() is None
        health = await env.health()
        assert health.ok
        monkeypatch.setenv("PATH", str(bin_))
        assert (await env.health()).note.startswith("bash is not found on PATH, so each command gets its own shell")
        await env.close()

    asyncio.run(main())


# -- loops, threads, leaks -----------------------------------------------------------------------------------------


def test_calls_run_side_by_side(env: Environment, folder: Path) -> None:
    """Each call waits for the file of the next one, so the calls end only if they run concurrently."""

    async def main() -> list[ExecOutcome]:
        commands = [f"touch {n}; until [ -e {(n + 1) % 5} ]; do sleep .01; done; echo {n}" for n in range(5)]
        return await asyncio.gather(*(env.execute(ExecRequest(command, timeout=60)) for command in commands))

    assert [outcome.stdout.head for outcome in asyncio.run(main())] == [b"%d\n" % n for n in range(5)]


def test_one_instance_serves_several_threads_and_loops(run: Run) -> None:
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda n=n: results.append(run(f"echo {n}").stdout.head)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [b"0\n", b"1\n", b"2\n", b"3\n"]


def test_nothing_stays_open(run: Run, open_files: Callable[[], int], eventually: Callable[[Callable[[], object]], None]) -> None:
    run("true")
    before = open_files()
    for command in ("true", "echo x >&2; exit 1", "kill -9 $$", "cat"):
        run(command, stdin=b"x")
    run("sleep 60", timeout=0.01)
    run("true")
    eventually(lambda: open_files() <= before)  # shells that ended are removed in the background


def test_no_pidfd_is_needed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems have no pidfd."""
    monkeypatch.delattr(os, "pidfd_open")
    assert run("echo hi; exit 7").exit_code == 7
    assert run("sleep 60", timeout=0.05).ended == "timeout"


def test_a_signal_handler_of_the_host_does_not_disturb(run: Run) -> None:
    reaped: list[Any] = []
    old = signal.signal(signal.SIGCHLD, lambda *_: reaped.append(1))
    try:
        assert run("/bin/echo hi; exit 9").exit_code == 9
    finally:
        signal.signal(signal.SIGCHLD, old)
