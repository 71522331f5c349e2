"""Environments that release their shells between two commands, and states that another process continues with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest, Portable, PortableState, ReleasesIdle, Restable

Says = Callable[..., str]

_STATE = r"""
mkdir -p sub/deeper && cd sub && export SHARED='a b' && own=1 && arr=(x 'y z') && greet() { echo "hi $1 $own"; }
shopt -s nullglob; set -o noclobber; alias ll='echo listed'; trap 'echo usr' USR1; umask 027; set -- first 'se cond'
pushd deeper >/dev/null
""".strip()
_SHOWN = r"""
echo "$SHARED|$own|${arr[1]}|$(greet you)|$#|$2|$(umask)"; shopt -q nullglob && echo nullglob; [ -o noclobber ] && echo noclobber
alias ll; trap -p USR1; env | grep ^SHARED=; pwd; dirs -l -p
""".strip()


@pytest.fixture
def release(env: Environment) -> Callable[[], bool]:
    assert isinstance(env, ReleasesIdle)
    return lambda: asyncio.run(env.release_idle())


def test_the_old_name_releases_too(env: Environment) -> None:
    assert isinstance(env, Restable)
    with pytest.warns(DeprecationWarning, match="rest is an old name: call release_idle"):
        assert asyncio.run(env.rest())


def test_one_that_was_never_used_rests(release: Callable[[], bool]) -> None:
    assert release()


def test_the_next_command_goes_on_as_if_nothing_had_happened(
    env: Environment, run: Callable[..., ExecOutcome], says: Says, release: Callable[[], bool]
) -> None:
    says(_STATE)
    before, cwd, generation = says(_SHOWN), env.cwd, env.generation
    assert "hi you 1" in before
    assert release()
    assert (env.cwd, env.generation) == (cwd, generation)
    outcome = run(_SHOWN)
    assert (outcome.stdout.head.decode(), outcome.notice, env.generation) == (before, "", generation)
    assert release()
    assert says(_SHOWN) == before


def test_the_last_status_is_still_told(run: Callable[..., ExecOutcome], says: Says, release: Callable[[], bool]) -> None:
    assert run("(exit 7)").exit_code == 7
    assert release()
    assert says("echo $?") == "7\n"


def test_what_gates_are_told_is_the_same_before_and_after(env: Environment, says: Says, release: Callable[[], bool]) -> None:
    says(_STATE)
    before = asyncio.run(env.shell_state())
    assert release()
    assert asyncio.run(env.shell_state()) == before


def test_a_rest_gives_the_shells_back(env: Environment, says: Says, release: Callable[[], bool], sleeper: Any) -> None:
    first = says("echo $$")
    assert says("echo $$") == first
    assert release()
    assert release()  # it is released already
    says(f"readonly here={sleeper.seconds}")
    assert says("echo $here").strip() == sleeper.seconds


def test_it_does_not_rest_while_a_command_runs(env: Environment, sleeper: Any, eventually: Callable[..., None]) -> None:
    async def main() -> bool:
        assert isinstance(env, ReleasesIdle)
        running = asyncio.ensure_future(env.execute(ExecRequest(sleeper.command, timeout=120)))
        while not sleeper.count():
            await asyncio.sleep(0.01)
        rested = await env.release_idle()
        env.interrupt()
        assert (await running).ended == "interrupted"
        return rested

    assert not asyncio.run(main())


def test_it_does_not_rest_while_something_runs_in_the_background(
    says: Says, release: Callable[[], bool], sleeper: Any, eventually: Callable[..., None]
) -> None:
    says(f"{sleeper.command} >/dev/null 2>&1 & echo $!")
    assert not release()
    eventually(lambda: sleeper.count() == 1)
    says("{ kill $!; wait $!; } 2>/dev/null; true")
    assert release()


def test_it_does_not_rest_with_a_process_beside(env: Environment, says: Says, release: Callable[[], bool], sleeper: Any) -> None:
    async def main() -> None:
        process = await env.spawn(ExecRequest(sleeper.command))
        assert isinstance(env, ReleasesIdle)
        assert not await env.release_idle()
        await process.kill()
        assert await env.release_idle()

    says(":")
    asyncio.run(main())


def test_what_no_other_shell_can_be_given_keeps_it_from_resting(says: Says, release: Callable[[], bool]) -> None:
    says("echo kept >file; exec 7<file")
    assert not release()
    assert says("cat <&7") == "kept\n"
    says("exec 7<&-")
    assert release()


def test_calls_that_come_while_it_comes_to_rest_lose_nothing(env: Environment) -> None:
    async def main() -> str:
        assert isinstance(env, ReleasesIdle)
        for number in range(8):
            resting = asyncio.ensure_future(env.release_idle())
            await asyncio.sleep(0.0007 * number)
            outcome = await env.execute(ExecRequest(f"said=${{said}}{number}; cd .", timeout=60))
            assert (outcome.exit_code, outcome.notice) == (0, "")
            await resting
        return (await env.execute(ExecRequest("echo $said", timeout=60))).stdout.head.decode()

    assert asyncio.run(main()) == "01234567\n"
    assert env.generation == 0


# -- another process ----------------------------------------------------------------------------------------------------


def test_a_state_goes_to_another_environment(
    opened: Callable[..., Environment], says: Says, env: Environment, folder: Path
) -> None:
    says("mkdir 'a b'; cd 'a b'; export SHARED=\"it's\n here\"; own=1; export SECRET=x")
    assert isinstance(env, Portable)
    state = asyncio.run(env.portable_state())
    assert (state.cwd, state.variables["SHARED"], "own" in state.variables) == (f"{folder}/a b", "it's\n here", False)
    assert not {"PWD", "OLDPWD", "SHLVL", "_"} & set(state.variables)
    stored = PortableState(state.cwd, {name: value for name, value in state.variables.items() if name != "SECRET"})
    other = opened()
    assert isinstance(other, Portable)

    async def main() -> str:
        await other.restore_state(stored)
        assert other.cwd == stored.cwd
        told = await other.shell_state()
        assert told is None or told.variables["SHARED"] == "it's\n here"
        outcome = await other.execute(ExecRequest('pwd; echo "$SHARED|${SECRET-none}"; env | grep -c ^SHARED=', timeout=60))
        assert (await other.portable_state()).variables["SHARED"] == "it's\n here"
        return outcome.stdout.head.decode()

    assert asyncio.run(main()) == f"{folder}/a b\nit's\n here|none\n1\n"


def test_a_state_can_be_restored_where_commands_have_run(env: Environment, says: Says, folder: Path) -> None:
    says("mkdir sub; kept=1")
    assert isinstance(env, Portable)
    asyncio.run(env.restore_state(PortableState(f"{folder}/sub", {"SHARED": "a b"})))
    assert says('pwd; echo "$kept$SHARED"') == f"{folder}/sub\n1a b\n"


def test_a_folder_that_is_gone_is_said(env: Environment, folder: Path, says: Says) -> None:
    assert isinstance(env, Portable)
    with pytest.raises(EnvironmentFailed, match=r"gone no longer exists"):
        asyncio.run(env.restore_state(PortableState(f"{folder}/gone", {"SHARED": "x"})))
    assert says("pwd; echo ${SHARED-none}") == f"{folder}\nnone\n"


def test_a_name_that_no_shell_takes_is_refused(env: Environment, folder: Path) -> None:
    assert isinstance(env, Portable)
    with pytest.raises(EnvironmentFailed, match="leave it out"):
        asyncio.run(env.restore_state(PortableState(str(folder), {"A B": "x"})))


def test_what_was_restored_is_told_before_anything_runs(env: Environment, folder: Path) -> None:
    assert isinstance(env, Portable)
    state = PortableState(str(folder), {"SHARED": "x"})
    asyncio.run(env.restore_state(state))
    assert asyncio.run(env.portable_state()) == state


def test_one_that_was_never_used_tells_its_folder(env: Environment, folder: Path) -> None:
    assert isinstance(env, Portable)
    assert asyncio.run(env.portable_state()) == PortableState(str(folder), {})
