"""A command that harms its own shell on the host costs at most that shell: this is reported, and the session continues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from toolcrib import Environment, ExecOutcome, ExecRequest

FOLDER = "f=$(ls -d /dev/shm/.toolcrib-*/*/g | head -n 1); f=${f%/g}"


def _run(env: Environment, *commands: str, limit: float = 60) -> list[ExecOutcome]:
    async def main() -> list[ExecOutcome]:
        return [await env.execute(ExecRequest(command, timeout=limit)) for command in commands]

    return asyncio.run(main())


def _said(outcome: ExecOutcome) -> tuple[bytes, bytes, int, str]:
    return outcome.stdout.head, outcome.stderr.head, outcome.exit_code, outcome.ended


def test_a_shell_that_does_not_know_its_folder_is_not_in_another(sshd, opened) -> None:
    """If PWD is readonly, cd fails but still changes the folder; no error may report that the folder is missing."""
    env = opened(sshd, cwd="/usr")
    _run(env, "readonly PWD; cd /tmp")
    here, moved, named, later = _run(env, "pwd -P", "cd /usr/bin; true", "pwd -P", "cd /; pwd -P")
    assert _said(here) == (b"/tmp\n", b"", 0, "exited")
    assert _said(moved)[2:] == (0, "exited")
    assert _said(named) == (b"/usr/bin\n", b"", 0, "exited")
    assert later.stdout.head == b"/\n"
    assert env.cwd == "/"
    elsewhere = asyncio.run(env.execute(ExecRequest("pwd -P", cwd="/usr/lib", timeout=60)))
    assert elsewhere.stdout.head == b"/usr/lib\n"


def test_a_lower_limit_of_open_files_stays_and_says_nothing(sshd, opened) -> None:
    env = opened(sshd, cwd="/usr")
    first, second = _run(env, "kept=1; ulimit -n 100", "echo $kept; ulimit -n; echo seen >&2; (exit 7)")
    assert (_said(first), first.notice) == ((b"", b"", 0, "exited"), "")
    assert (_said(second), second.notice) == ((b"1\n100\n", b"seen\n", 7, "exited"), "")


def test_a_limit_of_open_files_that_is_too_low_for_the_shell_is_reported(sshd, opened) -> None:
    env = opened(sshd, cwd="/usr")
    first, second = _run(env, "kept=1; ulimit -n 20; (exit 7)", "echo $kept; ulimit -n; echo seen >&2")
    assert first.exit_code == 7
    assert "ulimit -n too low" in first.notice
    assert "continues with the earlier variables" in first.notice
    assert second.stdout.head.startswith(b"1\n")
    assert second.stdout.head != b"1\n20\n"
    assert _said(second)[1:] == (b"seen\n", 0, "exited")


HARM = ["rm $f/{0}; mkfifo $f/{0}", "rm $f/{0}; mkdir $f/{0}", "rm $f/{0}; ln -s ~/other $f/{0}"]


@pytest.mark.parametrize("file", ["g", "s", "x", "z"])
@pytest.mark.parametrize("harm", HARM, ids=["fifo", "folder", "link"])
def test_a_file_of_the_shell_that_a_command_replaced_is_reported_at_once(
    start_sshd: Callable, opened, file: str, harm: str
) -> None:
    """The next command neither waits for the file nor is lost, and a link's target is not written."""
    server = start_sshd()
    other = server.folder / "home" / "other"
    other.write_text("untouched")
    env = opened(server, cwd="/usr")
    _run(env, "kept=1; true")
    first, second, third = _run(env, f"{FOLDER}; {harm.format(file)}; now=2; cd /tmp", "echo $kept $now; pwd", "exit 3")
    assert first.notice.startswith(
        "This command replaced files that its shell needs. A new shell continues with the earlier variables"
    )
    assert (_said(second), second.notice) == ((b"1 2\n/tmp\n", b"", 0, "exited"), "")
    assert (_said(third), third.notice) == ((b"", b"", 3, "exited"), "")
    assert other.read_text() == "untouched"


def test_a_shell_that_waits_for_a_file_which_was_replaced_is_ended_before_the_next_command(start_sshd: Callable, opened) -> None:
    """The next command runs once, in another shell, and does not reach its time limit."""
    env = opened(start_sshd(), cwd="/usr")
    _run(env, "kept=1; true")
    asyncio.run(env.shell_state())
    _, second, third = _run(env, f"{FOLDER}; echo 'sleep 5012' >|$f/g", "echo $kept; echo ran >>~/count", "cat ~/count")
    assert _said(second) == (b"1\n", b"", 0, "exited")
    assert "its files had been replaced, and it had not started this command. A new shell continues" in second.notice
    assert "are lost" in second.notice
    assert third.stdout.head == b"ran\n"


def test_a_shell_that_waits_for_a_file_longer_than_a_time_limit_is_reported_with_it(start_sshd: Callable, opened) -> None:
    env = opened(start_sshd(), cwd="/usr")
    _run(env, f"{FOLDER}; echo 'sleep 5012' >|$f/g")
    limited = _run(env, "touch ~/ran", limit=0.05)[0]
    assert limited.ended == "timeout"
    assert "the command was not run. A new shell continues" in limited.notice
    assert _said(_run(env, "ls ~/ran 2>&1; echo well")[0])[0].endswith(b"No such file or directory\nwell\n")


def test_a_shell_that_ends_beside_a_file_that_was_replaced_does_not_wait_for_it(start_sshd: Callable, opened) -> None:
    env = opened(start_sshd(), cwd="/usr")
    first, second = _run(env, f"kept=1; {FOLDER}; mkfifo $f/z; exit 3", "echo well")
    assert _said(first)[2:] == (3, "exited")
    assert "A new shell continues" in first.notice
    assert _said(second) == (b"well\n", b"", 0, "exited")
