"""Time limits, interrupts and cancellation: only processes that were started in the background are left."""

from __future__ import annotations

import _thread
import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import BackgroundProcess, Environment, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments import open_environment
from tools.environments.shell.watchdog import watchdog

Run = Callable[..., ExecOutcome]
Alive = Callable[[int], bool]
Eventually = Callable[[Callable[[], object]], None]
InTime = Callable[[Callable[[float], ExecOutcome], Callable[[ExecOutcome], object]], ExecOutcome]

HANGS = {
    "waits": "echo $$ >pids; sleep 300",
    "child": "sleep 300 & echo $! >pids; wait",
    "ignores INT": "trap '' INT; echo $$ >pids; sleep 300 & echo $! >>pids; while :; do sleep 1; done",
    "ignores INT and TERM": "trap '' INT TERM; echo $$ >pids; sleep 300 & echo $! >>pids; while :; do sleep 1; done",
    "own groups": "set -m; sleep 300 & echo $! >pids; sleep 300 & echo $! >>pids; wait",
    "stopped": "echo $$ >pids; kill -STOP $$",
}


def pids(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize("command", HANGS.values(), ids=HANGS)
def test_a_time_limit_ends_everything_and_keeps_what_was_printed(
    run: Run, folder: Path, alive: Alive, in_time: InTime, command: str
) -> None:
    text = f"rm -f pids; echo before; {command}"
    outcome = in_time(lambda limit: run(text, timeout=limit), lambda _: len(pids(folder)) == command.count("pids"))
    assert outcome.ended == "timeout"
    assert outcome.exit_code > 128 or "set -m" in command  # then bash may exit normally after its jobs were killed
    assert outcome.stdout.head == b"before\n"
    assert pids(folder)
    assert [pid for pid in pids(folder) if alive(pid)] == []


def test_a_command_may_clean_up_when_its_time_is_over(run: Run, in_time: InTime) -> None:
    text = "trap 'echo cleaned; exit 0' INT; echo ready; sleep 300"
    outcome = in_time(lambda limit: run(text, timeout=limit), lambda outcome: outcome.stdout.head)
    assert (outcome.ended, outcome.exit_code, outcome.stdout.head) == ("timeout", 0, b"ready\ncleaned\n")


def test_a_fork_that_hangs_is_ended_with_its_parent(run: Run, folder: Path, alive: Alive, in_time: InTime) -> None:
    text = "rm -f pids; for i in 1 2 3; do (echo $BASHPID >>pids; sleep 300) & done; wait"
    outcome = in_time(lambda limit: run(text, timeout=limit), lambda _: len(pids(folder)) == 3)
    assert outcome.ended == "timeout"
    assert len(pids(folder)) == 3
    assert [pid for pid in pids(folder) if alive(pid)] == []


def test_interrupt_from_another_thread(env: Environment, run: Run, folder: Path, alive: Alive, eventually: Eventually) -> None:
    def stop() -> None:
        eventually(lambda: pids(folder))
        env.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    outcome = run("echo before; echo $$ >pids; sleep 300")
    thread.join()
    assert (outcome.ended, outcome.stdout.head) == ("interrupted", b"before\n")
    assert outcome.exit_code in (130, 143)  # bash may miss an INT while it forks; TERM follows
    assert not alive(pids(folder)[0])
    assert run("echo next").stdout.head == b"next\n"


def test_interrupt_ends_every_call_and_does_nothing_where_none_runs(env: Environment, folder: Path) -> None:
    env.interrupt()

    async def main() -> list[ExecOutcome]:
        calls = [asyncio.create_task(env.execute(ExecRequest("sleep 300", timeout=60))) for _ in range(3)]
        await asyncio.sleep(0.05)
        env.interrupt()
        return await asyncio.gather(*calls)

    assert [outcome.ended for outcome in asyncio.run(main())] == ["interrupted"] * 3


@pytest.mark.parametrize("command", [HANGS["waits"], HANGS["ignores INT and TERM"], HANGS["own groups"]])
def test_cancellation_leaves_no_process(env: Environment, folder: Path, alive: Alive, command: str) -> None:
    async def main() -> None:
        call = asyncio.create_task(env.execute(ExecRequest(command, timeout=60)))
        while len(pids(folder)) < command.count("pids"):
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [pid for pid in pids(folder) if alive(pid)] == []

    asyncio.run(main())


def test_cancelled_twice_it_kills_at_once(env: Environment, folder: Path, alive: Alive) -> None:
    async def main() -> None:
        call = asyncio.create_task(env.execute(ExecRequest(HANGS["ignores INT and TERM"], timeout=60)))
        while len(pids(folder)) < 2:
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert [pid for pid in pids(folder) if alive(pid)] == []


# -- in the background ---------------------------------------------------------------------------------------------


def test_a_background_server_lives_on_and_may_go_on_printing(
    env: Environment, run: Run, folder: Path, alive: Alive, eventually: Eventually
) -> None:
    """The server holds the pipe: the call returns anyway, and the pipe stays open for the server."""
    outcome = run("(while :; do echo log line; touch beat; sleep .02; done) & echo $! >pids; echo started; cd /")
    assert outcome.ended == "exited"
    assert outcome.exit_code == 0
    assert b"started\n" in outcome.stdout.head
    assert env.cwd == "/"
    for _ in range(2):
        eventually((folder / "beat").exists)
        (folder / "beat").unlink()
    assert alive(pids(folder)[0])
    asyncio.run(env.close())
    assert not alive(pids(folder)[0])


def test_when_a_background_process_ends_its_pipes_are_freed(
    run: Run, folder: Path, open_files: Callable[[], int], eventually: Eventually
) -> None:
    run("true")
    threads = threading.active_count()
    run("while [ ! -e stop ]; do sleep .02; done & exit 0")
    before = open_files()
    (folder / "stop").touch()
    eventually(lambda: open_files() <= before - 2)
    eventually(lambda: threading.active_count() <= threads)


def test_a_process_that_left_the_session_does_not_hold_up_the_call_or_close(
    env: Environment, run: Run, folder: Path, alive: Alive, eventually: Eventually, in_time: InTime
) -> None:
    """The process is out of reach of a time limit, as a daemon is."""
    text = "setsid sh -c 'echo $$ >tmp; mv tmp pids; until [ -e stop ]; do sleep .02; done' & sleep 300"
    outcome = in_time(lambda limit: run(text, timeout=limit), lambda _: pids(folder))
    assert outcome.ended == "timeout"
    asyncio.run(env.close())
    (folder / "stop").touch()
    eventually(lambda: not alive(pids(folder)[0]))


def test_a_background_process_without_our_pipe_is_ended_by_close(env: Environment, run: Run, folder: Path, alive: Alive) -> None:
    run("trap '' TERM; sleep 300 >/dev/null 2>&1 & echo $! >pids")
    assert alive(pids(folder)[0])
    asyncio.run(env.close())
    assert not alive(pids(folder)[0])


def test_a_time_limit_of_one_call_spares_what_another_left(run: Run, folder: Path, alive: Alive) -> None:
    run("sleep 300 >/dev/null 2>&1 & echo $! >pids")
    assert run("sleep 300", timeout=0.05).ended == "timeout"
    assert alive(pids(folder)[0])


def test_close_ends_what_runs_in_another_thread(env: Environment, run: Run, folder: Path, eventually: Eventually) -> None:
    outcomes: list[ExecOutcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run("echo $$ >pids; sleep 300")))
    thread.start()
    eventually(lambda: pids(folder))
    asyncio.run(env.close())
    thread.join()
    assert [outcome.ended for outcome in outcomes] == ["interrupted"]


def test_close_while_others_wait_for_a_process(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each waiter reads in its own event loop, and each one sees the end."""

    def read(process: BackgroundProcess, ends: list[object]) -> None:
        async def main() -> None:
            while await process.read() is not None:
                pass
            ends.append(await process.wait())

        asyncio.run(main())

    for command in ("sleep 300", "while :; do echo x; done") * 10:
        env = open_environment("local", cwd=str(folder))
        process = asyncio.run(env.spawn(ExecRequest(command)))
        ends: list[object] = []
        threads = [threading.Thread(target=read, args=(process, ends)) for _ in range(3)]
        for thread in threads:
            thread.start()
        asyncio.run(env.close())
        for thread in threads:
            thread.join()
        assert len(ends) == 3
    assert caplog.text == ""


def test_closed_twice_and_used_after(env: Environment, run: Run) -> None:
    asyncio.run(env.close())
    asyncio.run(env.close())
    with pytest.raises(EnvironmentFailed, match="closed: open another"):
        run("true")


def test_a_killed_watchdog_is_replaced_and_knows_everything(folder: Path, alive: Alive, eventually: Eventually) -> None:
    code = """
import asyncio, os, signal, sys
from pathlib import Path
from toolcrib import ExecRequest
from tools.environments import open_environment
env = open_environment("local", cwd=sys.argv[1])
async def main():
    await env.execute(ExecRequest("sleep 300 >/dev/null 2>&1 & echo $! >pids"))
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if b"_watchdog" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
            os.waitid(os.P_PID, int(child), os.WEXITED | os.WNOWAIT)
    await asyncio.gather(*(env.execute(ExecRequest("sleep 300 & echo $! >>pids", timeout=60)) for _ in range(2)))
    print("ready", flush=True)
    await env.execute(ExecRequest("sleep 300"))
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    assert len(pids(folder)) == 3
    eventually(lambda: not any(alive(pid) for pid in pids(folder)))
    eventually(lambda: not list(Path("/dev/shm").glob(f"toolcrib-{process.pid}-*")))


def test_a_shell_that_somebody_else_waited_for_is_no_concern_of_the_watchdogs(run: Run) -> None:
    """Another process may have the shell's process id by then."""
    pid = int(run("echo $$").stdout.head)
    assert pid in watchdog._sessions
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert run("echo next").stdout.head == b"next\n"
    assert pid not in watchdog._sessions


def test_one_that_is_dropped_without_being_closed_ends_all_the_same(folder: Path, alive: Alive, eventually: Eventually) -> None:
    environment, threads = open_environment("local", cwd=str(folder)), _thread._count()
    asyncio.run(environment.execute(ExecRequest("echo $$ >pids; sleep 300 & echo $! >>pids")))
    assert [alive(pid) for pid in pids(folder)] == [True, True]
    del environment
    gc.collect()
    eventually(lambda: not any(alive(pid) for pid in pids(folder)) and _thread._count() <= threads)
