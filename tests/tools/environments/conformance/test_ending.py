"""Time limits, interrupts, cancellation and closing: commands end, and earlier background processes live on (003-29)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, ExecOutcome, ExecRequest

Run = Callable[..., ExecOutcome]
Says = Callable[..., str]
Eventually = Callable[[Callable[[], object]], None]
InTime = Callable[[Callable[[float], ExecOutcome], Callable[[ExecOutcome], object]], ExecOutcome]

HANGS = {
    "waits": "{}",
    "child": "{} & wait",
    "deep": "( ( {} ) & ) ; (exec {}) ; true",
    "pipeline": "{} | cat | cat",
    "loop": "{} & while :; do :; done",
    "ignores INT": "trap '' INT; {} & while :; do sleep 1; done",
    "ignores INT and TERM": "trap '' INT TERM; {} & while :; do sleep 1; done",
    "own groups": "set -m; {} & {} & wait",
    "stopped": "{} & kill -STOP $$",
    "reads": "{} & read x <>fifo",
}


@pytest.mark.parametrize("hang", ["deep", "loop", "ignores INT and TERM", "own groups", "stopped"])
def test_a_time_limit_ends_everything_and_keeps_what_was_printed(
    run: Run, says: Says, sleeper: Any, eventually: Eventually, in_time: InTime, hang: str
) -> None:
    says("kept=1")
    text = f"echo before; {HANGS[hang].format(sleeper.command, sleeper.command)}"
    outcome = in_time(lambda limit: run(text, timeout=limit), lambda outcome: outcome.stdout.head)
    assert (outcome.ended, outcome.stdout.head) == ("timeout", b"before\n")
    eventually(lambda: sleeper.count() == 0)
    assert says("echo $kept") == "1\n"


@pytest.mark.full
def test_time_limits_of_calls_side_by_side(env: Environment, says: Says, sleeper: Any, eventually: Eventually) -> None:
    says("kept=1; mkfifo fifo")
    texts = [f"echo before $kept; {hang.format(sleeper.command, sleeper.command)}" for hang in HANGS.values()]

    async def main() -> list[ExecOutcome]:
        for limit in (2, 10, 30):  # the longer limits are for a machine under load
            outcomes = await asyncio.gather(*(env.execute(ExecRequest(text, timeout=limit)) for text in texts))
            if all(outcome.stdout.head for outcome in outcomes):
                break
        return outcomes

    for outcome in asyncio.run(main()):
        assert (outcome.ended, outcome.stdout.head) == ("timeout", b"before 1\n")
    eventually(lambda: sleeper.count() == 0)
    assert says("echo $kept") == "1\n"


def test_a_command_may_clean_up_when_its_time_is_over(run: Run, says: Says, in_time: InTime) -> None:
    text = "late=1; trap 'echo cleaned; exit 0' INT; echo ready; sleep 300"
    outcome = in_time(lambda limit: run(text, timeout=limit), lambda outcome: outcome.stdout.head)
    assert (outcome.ended, outcome.exit_code, outcome.stdout.head) == ("timeout", 0, b"ready\ncleaned\n")
    assert says("echo $late") == "1\n"


def test_a_server_started_before_lives_on(run: Run, says: Says, sleeper: Any, eventually: Eventually) -> None:
    run(f"{sleeper.command} & echo started")
    run(f"({sleeper.command} >/dev/null 2>&1 &)")
    eventually(lambda: sleeper.count() == 2)
    assert run("sleep 300", timeout=0.05).ended == "timeout"
    assert run("trap '' INT TERM; sleep 300", timeout=0.05).ended == "timeout"
    assert run("kill -9 $$").exit_code == 137
    assert run("exit 3").exit_code == 3
    assert sleeper.count() == 2


@pytest.mark.full
def test_interrupts_at_random_times(env: Environment, says: Says, sleeper: Any, folder: Path, eventually: Eventually) -> None:
    """TOOLCRIB_INTERRUPTS is the number of interrupts. None is lost, each next command runs correctly, and a server lives on."""
    says(f"kept=1; {sleeper.command} >/dev/null 2>&1 &")
    dice = random.Random(29)  # noqa: S311 - times, not secrets
    commands = [
        *("sleep 300", "while :; do /bin/true; done", "while :; do :; done", "/bin/sleep 300 | cat", "(sleep 300)"),
        *("sleep 300 & wait", "(trap n=1 INT; while :; do sleep 300; done)", "while :; do echo; done", "while :; do (:); done"),
    ]

    async def main() -> None:
        for number in range(int(os.environ.get("TOOLCRIB_INTERRUPTS", "36"))):
            call = asyncio.create_task(env.execute(ExecRequest(f"echo; {dice.choice(commands)}", timeout=100)))
            await asyncio.sleep(dice.random() ** 3 * 0.03)
            while not call.done():
                env.interrupt()
                await asyncio.wait([call], timeout=5)
            assert (await call).ended == "interrupted"
            after = await env.execute(ExecRequest(f"echo {number} $kept; (exit {number % 100})", timeout=100))
            assert (after.stdout.head, after.exit_code, after.ended) == (b"%d 1\n" % number, number % 100, "exited")

    asyncio.run(main())
    assert sleeper.count() == 1


def test_an_interrupt_while_the_shell_starts(opened: Callable[..., Environment], folder: Path) -> None:
    async def main(env: Environment, pause: float) -> None:
        call = asyncio.create_task(env.execute(ExecRequest("touch ran; sleep 300", timeout=100)))
        await asyncio.sleep(pause)
        env.interrupt()
        assert (await call).ended == "interrupted"
        assert (await env.execute(ExecRequest("echo next", timeout=100))).stdout.head == b"next\n"

    for pause in (0.0, 0.02, 0.1):
        asyncio.run(main(opened(), pause))


def test_an_interrupt_from_another_thread_ends_every_call(
    env: Environment, run: Run, folder: Path, eventually: Eventually
) -> None:
    env.interrupt()
    outcomes: list[ExecOutcome] = []
    threads = [threading.Thread(target=lambda n=n: outcomes.append(run(f"touch {n}; sleep 300"))) for n in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: all((folder / str(n)).exists() for n in range(3)))
    env.interrupt()
    for thread in threads:
        thread.join()
    assert [outcome.ended for outcome in outcomes] == ["interrupted"] * 3
    assert run("echo next").stdout.head == b"next\n"


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("hang", ["waits", "ignores INT and TERM", "own groups"])
def test_cancellation_leaves_no_process(env: Environment, says: Says, sleeper: Any, hang: str, twice: bool) -> None:
    async def main() -> None:
        call = asyncio.create_task(env.execute(ExecRequest(HANGS[hang].format(*[sleeper.command] * 2), timeout=100)))
        while not sleeper.count():
            await asyncio.sleep(0.01)
        call.cancel()
        if twice:
            await asyncio.sleep(0.01)
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert sleeper.count() == 0

    says("kept=1")
    asyncio.run(main())
    assert says("echo $kept") == "1\n"


def test_close_leaves_nothing(opened: Callable[..., Environment], sleeper: Any, eventually: Eventually) -> None:
    """No process, descriptor, thread or folder is left."""

    def left() -> tuple[int, int, list[Path]]:
        ours = [
            path
            for base in ("/dev/shm", os.environ.get("TMPDIR", "/tmp"))
            for path in Path(base).glob(f"toolcrib-{os.getpid()}-*")
        ]
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), ours

    async def main(env: Environment) -> None:
        await env.execute(ExecRequest(f"trap '' TERM; {sleeper.command} & ({sleeper.command} >/dev/null 2>&1 &)", timeout=60))
        await asyncio.gather(
            *(env.execute(ExecRequest(f"{sleeper.command} >/dev/null 2>&1 & echo", timeout=60)) for _ in range(3))
        )
        await env.spawn(ExecRequest(sleeper.command))
        await env.execute(ExecRequest("kill -9 $$"))
        await env.close()
        await env.close()

    asyncio.run(main(opened()))
    eventually(lambda: not left()[2])
    descriptors, threads, _ = left()  # a thread of the first environment may still be ending
    asyncio.run(main(opened()))
    eventually(lambda: left()[0] <= descriptors and left()[1] <= threads and not left()[2])
    eventually(lambda: sleeper.count() == 0)


def test_when_toolcrib_is_killed_everything_ends(sleeper: Any, tmp_path: Path, eventually: Eventually) -> None:
    code = """
import asyncio, sys
from toolcrib import ExecRequest
from tools.environments import open_environment
env = open_environment("local", cwd=sys.argv[1], **eval(sys.argv[3]))
async def main():
    await env.execute(ExecRequest(f"{sys.argv[2]} >/dev/null 2>&1 &"))
    await env.spawn(ExecRequest(sys.argv[2]))
    await env.execute(ExecRequest(f"echo ready; {sys.argv[2]}", on_output=lambda name, chunk: print("ready", flush=True)))
asyncio.run(main())
"""
    for options in ("{}", "{'sandbox': 'bubblewrap'}"):
        argv = [sys.executable, "-c", code, str(tmp_path), sleeper.command, options]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                eventually(lambda: sleeper.count() == 3)
            finally:
                os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: sleeper.count() == 0)
        eventually(lambda pid=process.pid: not list(Path("/dev/shm").glob(f"toolcrib-{pid}-*")))


def test_one_instance_serves_several_threads_and_loops(run: Run) -> None:
    results: list[bytes] = []

    def work(n: int) -> None:
        for k in range(10):
            results.append(run(f"echo {n}.{k}; x={n}").stdout.head)
            time.sleep(0)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(b"%d.%d\n" % (n, k) for n in range(4) for k in range(10))
