"""The number of shells stays within the limit of descriptors. Each test has its own process with a low limit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Child: TypeAlias = Callable[..., None]
_BEGIN = """
import asyncio, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
from toolcrib import EnvironmentFailed, ExecRequest
from tools.environments import open_environment
from tools.environments.shell import live

FOLDER = sys.argv[1]


def shells():
    children = open(f"/proc/{{os.getpid()}}/task/{{os.getpid()}}/children").read().split()
    names = []
    for child in children:
        try:
            names.append(open(f"/proc/{{child}}/cmdline").read())
        except OSError:
            pass
    return sum(name == "bash\\0--noprofile\\0--norc\\0bash\\0" for name in names)


def files():
    return len(os.listdir("/proc/self/fd"))


async def run(environment, command, **options):
    return await environment.execute(ExecRequest(command, **{{"timeout": 120, **options}}))


async def says(environment, command):
    outcome = await run(environment, command)
    assert (outcome.exit_code, outcome.notice, environment.generation) == (0, "", 0), outcome
    return outcome.stdout.head.decode()


def opened(number):
    return [open_environment("local", cwd=FOLDER) for _ in range(number)]


async def close(environments):
    await asyncio.gather(*(each.close() for each in environments))
    assert shells() == 0
"""


@pytest.fixture
def child(tmp_path: Path, root: Path) -> Child:
    """Return a function that runs the body of a coroutine in a process with a limit of open files."""

    def child(body: str, limit: int = 64) -> None:
        main = textwrap.indent(textwrap.dedent(body), "    ")
        text = f"{_BEGIN.format(limit=limit)}\n\nasync def main():\n{main}\n\nasyncio.run(main())\n"
        argv = [sys.executable, "-c", text, str(tmp_path)]
        done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=240, check=False)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), done.stderr

    return child


def test_more_sessions_than_shells_go_on_where_each_was(child: Child) -> None:
    child("""
        environments, most = opened(30), live.live_shells().room // 7
        for index, each in enumerate(environments):
            await says(each, f"export INDEX={index}; f() {{ echo $INDEX; }}")
            assert shells() <= most
        for _ in range(2):
            said = await asyncio.gather(*(says(each, "f") for each in environments))
            assert said == [f"{index}\\n" for index in range(30)]
            assert shells() <= most
        assert files() < 64
        await close(environments)
        """)


def test_the_one_that_was_used_longest_ago_rests(child: Child) -> None:
    child("""
        most = live.live_shells().room // 7
        environments = opened(most + 1)
        first = [await says(each, "echo $$") for each in environments[:most]]
        assert await says(environments[0], "echo $$") == first[0]
        await says(environments[most], ":")
        again = [await says(each, "echo $$") for each in (environments[0], *environments[2:most])]
        assert again == [first[0], *first[2:]]
        assert await says(environments[1], "echo $$") != first[1]
        await close(environments)
        """)


@pytest.mark.full
def test_a_call_waits_where_all_are_busy(child: Child) -> None:
    child("""
        most = live.live_shells().room // 7
        environments = opened(most + 3)
        busy = [asyncio.ensure_future(run(each, "sleep 300")) for each in environments[:most]]
        while shells() < most:
            await asyncio.sleep(0.01)
        waiting = [asyncio.ensure_future(says(each, "echo here")) for each in environments[most:]]
        await asyncio.sleep(0.2)
        assert not any(each.done() for each in waiting) and shells() == most
        environments[0].interrupt()
        assert (await busy[0]).ended == "interrupted"
        assert await asyncio.gather(*waiting) == ["here\\n"] * 3
        for each in environments:
            each.interrupt()
        await asyncio.gather(*busy)
        await close(environments)
        """)


def test_where_none_gets_free_it_is_said_why(child: Child) -> None:
    child("""
        live._WAIT = 0.3
        most = live.live_shells().room // 7
        environments = opened(most + 1)
        for each in environments[:most]:
            await says(each, "sleep 300 >/dev/null 2>&1 &")
        try:
            await run(environments[most], "touch ran")
        except EnvironmentFailed as error:
            assert f"all {most} that this process may keep are busy" in str(error) and "ulimit -n" in str(error), error
        else:
            raise AssertionError("it ran")
        assert not os.path.exists(f"{FOLDER}/ran")
        await says(environments[0], "kill $!; wait $!; true")
        live._WAIT = 60
        assert await says(environments[most], "echo here") == "here\\n"
        assert await says(environments[1], "jobs -r | wc -l") == "1\\n"
        await close(environments)
        """)


def test_a_call_that_waits_can_be_interrupted(child: Child) -> None:
    child("""
        most = live.live_shells().room // 7
        environments = opened(most + 1)
        for each in environments[:most]:
            await says(each, "sleep 300 >/dev/null 2>&1 &")
        waiting = asyncio.ensure_future(run(environments[most], "touch ran"))
        await asyncio.sleep(0.1)
        environments[most].interrupt()
        assert (await waiting).ended == "interrupted"
        closed = asyncio.ensure_future(run(environments[most], "touch ran"))
        await asyncio.sleep(0.1)
        await environments[most].close()
        try:
            await closed
        except EnvironmentFailed as error:
            assert "closed" in str(error)
        assert not os.path.exists(f"{FOLDER}/ran")
        await close(environments)
        """)


def test_files_that_others_opened_cost_a_rest_and_no_failure(child: Child) -> None:
    child("""
        environments = opened(7)
        for index, each in enumerate(environments[:6]):
            await says(each, f"n={index}")
        others = []
        while files() < 63:
            others.append(os.open("/dev/null", os.O_RDONLY))
        assert await says(environments[6], "echo here") == "here\\n"
        assert [await says(each, "echo $n") for each in environments[:6]] == [f"{index}\\n" for index in range(6)]
        for fd in others:
            os.close(fd)
        await close(environments)
        """)


def test_a_rest_leaves_no_file_open_and_no_process(child: Child) -> None:
    child("""
        first, *environments = opened(9)
        await says(first, "true")
        assert await first.release_idle()
        before = files()
        for each in environments:
            await asyncio.gather(*(says(each, f"n={index}; echo") for index in range(3)))
            await says(each, "n=1")
            assert await each.release_idle()
        assert (files(), shells()) == (before, 0)
        assert [await says(each, "echo $n") for each in environments] == ["1\\n"] * 8
        await close([first, *environments])
        """)


def test_an_exit_trap_is_run_once_at_the_end_of_the_session(child: Child) -> None:
    child("""
        environments = opened(2)
        for index, each in enumerate(environments):
            await says(each, f"trap 'echo {index} >>ended' EXIT; ulimit -c 0")
            assert await each.release_idle()
            assert not os.path.exists(f"{FOLDER}/ended")
        assert await says(environments[0], "trap -p EXIT; ulimit -c") == "trap -- 'echo 0 >>ended' EXIT\\n0\\n"
        await close(environments)
        assert sorted(open(f"{FOLDER}/ended").read().split()) == ["0", "1"]
        """)


def test_many_that_close_together_look_at_all_processes_a_few_times(child: Child) -> None:
    child(
        """
        environments = opened(40)
        await asyncio.gather(*(says(each, "sleep 300 >/dev/null 2>&1 & true") for each in environments))
        listdir, looks = os.listdir, []
        os.listdir = lambda path=".": (looks.append(path) if path == "/proc" else None, listdir(path))[1]
        await close(environments)
        assert 0 < len(looks) < 40, len(looks)
        """,
        limit=1024,
    )
