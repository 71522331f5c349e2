"""The state that a shell keeps between commands; no command confuses the shell's protocol (003-29)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest, ShellState
from tools.dispatch.scope import Limits

Run = Callable[..., ExecOutcome]
Says = Callable[..., str]

STATE = r"""
a='x "y" $z'; b=$'line\nline\ttab\x01\x7f'; n=7; declare -i n; export c=exported; declare -r fixed=1
list=(one 'two three' "$b"); declare -A map=([k]=v ['q r']="s t"); declare -n ref=a; unset HOME
f() { echo "f: $1 $a"; }; g() { cat <<END
in g: $1
END
}
export -f f
alias ll='echo LL' quoted="echo it\'s"
shopt -s extglob nullglob; set -f -o pipefail; trap 'echo usr' USR1; umask 027; set -- 'p q' '' r
mkdir -p sub; cd sub
"""
LOOK = r"""
echo "$a|$b|$n|$c|$fixed|$ref|${HOME-none}"; echo "${list[@]}|${#list[@]}|${map[k]}|${map[q r]}"
f 1; g 2; ll; quoted; bash -c 'f 3; echo $c'; shopt extglob nullglob dotglob; set -o | grep -E 'noglob|pipefail|nounset'
trap -p USR1; umask; echo "$#:$1:$2:$3"; echo "${PWD##*/}"; declare -p n; alias
"""


@pytest.mark.parametrize(
    "between",
    [
        "true",
        "exit 3",
        "set -e; false",
        "kill -9 $$",
        "exec true",
        "kill -TERM $$",
        'exec 1>&- 2>&- 255<&-; for fd in /proc/$$/fd/*; do fd=${fd##*/}; eval "exec $fd>&-"; done',
        "builtin() { :; }",
        "enable -n echo builtin declare trap",
        "rm -rf /dev/shm/toolcrib-$PPID-* /dev/.toolcrib/* 2>/dev/null",
    ],
)
def test_the_state_survives(run: Run, says: Says, between: str) -> None:
    """003-29"""
    says(STATE)
    run(LOOK)
    before = run(LOOK)
    assert before.stdout.head.count(b"\n") > 15
    run(between)
    after = run(LOOK)
    assert (after.stdout.head, after.stderr.head) == (before.stdout.head, before.stderr.head)
    assert run("").exit_code == 0


async def _state(env: Environment) -> ShellState | None:
    return await env.shell_state()


def test_the_last_status_is_known_to_the_next_command(env: Environment, run: Run) -> None:
    for command, status in (("(exit 3)", b"3\n"), ("true", b"0\n"), ("exit 4", b"4\n"), ("nosuch", b"127\n"), ("echo x", b"0\n")):
        run(command)
        assert run("echo $?").stdout.head == status
    run("trap 'echo failed' ERR; false")
    asyncio.run(_state(env))
    assert b"failed" not in run("echo $?").stdout.head


@pytest.mark.parametrize("how", ["exit 3", "set -e; false", ": ${missing?}", "kill -INT $$; sleep 1", "exec no-such-command"])
def test_what_a_command_changed_before_it_ended_its_shell_is_kept(env: Environment, run: Run, says: Says, how: str) -> None:
    run(f"mkdir -p sub; cd sub; late=1; h() {{ echo h; }}; {how}")
    assert says("echo $late ${PWD##*/}; h") == "1 sub\nh\n"
    assert env.cwd.endswith("/sub")
    assert "e" not in says("echo $-")


@pytest.mark.parametrize("how", ["kill -9 $$", "exec sleep 0", "builtin() { :; }", "set -n"])
def test_a_shell_that_died_is_replaced_and_that_is_said(env: Environment, run: Run, says: Says, how: str) -> None:
    says("kept=1")
    generation = env.generation
    assert "A new shell continues with the earlier variables" in run(f"lost=1; {how}").notice
    assert env.generation == generation + 1
    outcome = run("echo $kept${lost-}")
    assert (outcome.stdout.head, outcome.notice) == (b"1\n", "")


@pytest.mark.parametrize(
    "how",
    [
        "exec true",
        "exec sleep 0",
        "exec no-such-command",
        "exit 3",
        "set -e; false",
        "kill -9 $$",
        "kill -TERM $$",
        "sleep 300 & kill -9 $$",
        "trap 'x=8' EXIT; exec true",
        "ulimit -n 3",
        "set -n",
        "builtin() { :; }",
    ],
)
@pytest.mark.parametrize("later", [("ls /", "y=2"), ("y=2", "ls /")], ids=["unchanged", "changed"])
def test_two_commands_after_a_shell_died_have_a_state(env: Environment, how: str, later: tuple[str, str]) -> None:
    """003-29: a command that changes nothing reports no state. The state is fetched within the time that a gate has."""

    async def main() -> None:
        for command in ("x=1", "ls /", how, *later):
            assert await asyncio.wait_for(env.shell_state(), Limits().gate_seconds) is not None
            outcome = await env.execute(ExecRequest(command, timeout=120.0))
            assert command == how or outcome.exit_code == 0, outcome
        state = await asyncio.wait_for(env.shell_state(), Limits().gate_seconds)
        assert state is not None
        assert (state.variables["x"], state.variables["y"]) == ("1", "2")

    asyncio.run(main())


@pytest.mark.parametrize("limit", [3, 5])
def test_a_shell_that_has_no_room_for_a_commands_streams_is_replaced(env: Environment, run: Run, says: Says, limit: int) -> None:
    """Without the replacement later commands would not run, and would seem to end with 1 and without output."""
    says("kept=1")
    asyncio.run(_state(env))
    generation = env.generation
    assert "A new shell continues with the earlier variables" in run(f"lost=1; ulimit -n {limit}").notice
    assert env.generation == generation + 1
    for _ in range(2):
        assert says("echo $kept${lost-}; cat", stdin=b"in\n") == "1\nin\n"


@pytest.mark.parametrize("harm", ["exec 1>&-", "exec 0<&- 1>&- 2>&-", "set -o noclobber", "ulimit -n 0"])
def test_no_command_is_dropped_without_a_word(run: Run, says: Says, folder: Path, harm: str) -> None:
    """Later commands run even if a command changes the shell's own files and settings."""
    says("kept=1")
    run(harm)
    for number in range(3):
        outcome = run(f"mkdir made{number}; echo $kept; cat; (exit {number})", stdin=b"in\n")
        assert (outcome.exit_code, outcome.stdout.head) == (number, b"1\nin\n"), outcome
        assert (folder / f"made{number}").is_dir()


def test_a_new_shell_has_no_folder_to_go_back_to(run: Run, says: Says, folder: Path) -> None:
    outcome = run("cd -; export -p | grep OLDPWD")
    assert b"OLDPWD not set" in outcome.stderr.head
    assert outcome.stdout.head == b"declare -x OLDPWD\n"
    assert says("cd /usr; cd -; cd /usr") == f"{folder}\n"
    run("kill -9 $$")
    assert says("cd -") == f"{folder}\n"


def test_the_first_command_may_kill_its_shell(run: Run, says: Says, folder: Path) -> None:
    assert run("kill -9 $$").exit_code == 137
    assert says("echo ${PWD##*/} $PATH").startswith("work /")


@pytest.mark.parametrize(
    "command",
    [
        "printf() { :; }; echo() { :; }; declare() { :; }; exit() { :; }; trap() { :; }; set() { :; }; eval() { :; }",
        "alias echo=false eval=false builtin=false exit=false set=false",
        "PROMPT_COMMAND='exit 9'; PS1='$(exit 9)'; PS4='$(touch x)'; BASH_ENV=/nowhere; ENV=/nowhere; export BASH_ENV ENV",
        "trap 'echo dbg' DEBUG",
        "trap 'false' ERR; trap 'echo ret' RETURN; set -T -E",
        "readonly IFS PATH PWD OLDPWD _ a; IFS=:",
        "set -u; set -C; set -k; set -x; set -v; shopt -s failglob lastpipe xpg_echo; IFS=x",
        "set -o posix",
        "set -m; sleep 0 & wait",
        "exec 3>file; exec >out 2>err; exec </dev/null",
        "ulimit -n 8",
        "set -t",
        "shopt -s extdebug",
        "unset PATH HOME PWD IFS",
        "LANG=nowhere; LC_ALL=nowhere; export LANG LC_ALL",
        "cat <<END\nunclosed",
        "if true; then",
        "echo )",
        "case x in",
        "break; continue; return",
        "while :; do break 9; done",
        "coproc cat; disown -a",
        "suspend & wait",
        "shopt -u sourcepath; hash -r; hash -p /nowhere cat",
        "read -u 255 x; exec 255<&0",
        'for fd in {3..20} 255; do eval "exec $fd>&-"; done 2>/dev/null',
        "yes | head -c 3000000; (exit 3)",
    ],
)
def test_nothing_makes_it_lose_its_place(run: Run, command: str) -> None:
    run(command, timeout=60)
    for number in range(3):
        outcome = run(f"\\builtin echo {number} >&2; (\\builtin exit {number + 40})")
        lines = outcome.stderr.head.splitlines()
        assert (outcome.exit_code, str(number).encode() in lines) == (number + 40, True), outcome


def test_a_trap_s_output_is_no_part_of_a_report_that_comes_late(run: Run) -> None:
    """The shell gets the next commands while it still reports a large state."""
    run("for n in {1..4000}; do eval \"v$n='$(printf %0100d 7)'\"; done")
    run("trap 'echo dbg' DEBUG")
    outcomes = [run(f"(\\builtin exit {number})") for number in range(1, 6)]
    assert [(outcome.exit_code, outcome.notice) for outcome in outcomes] == [(number, "") for number in range(1, 6)]
    assert run("\\builtin echo ${#v4000}").stdout.head.splitlines()[-1] == b"100"


@pytest.mark.parametrize(
    "taken", ["exec 10>log 11>log", 'for fd in {3..30}; do eval "exec $fd>log"; done', "exec {a}>log {b}>log"]
)
def test_a_command_that_takes_descriptors_which_the_shell_uses_gets_nothing_of_its_talk(
    run: Run, says: Says, folder: Path, taken: str
) -> None:
    says("x=1")
    assert run(f"{taken}; x=2; (exit 3)").exit_code == 3
    assert [run("true").exit_code, run("false").exit_code] == [0, 1]
    outcome = run("echo $x")
    assert (outcome.stdout.head, outcome.notice) == (b"2\n", "")
    assert (folder / "log").read_bytes() == b""


FORGE = r"""
for text in "$nonce" 00000000000000000000000000000000; do
  for fd in /proc/$$/fd/* /proc/$PPID/fd/* /dev/shm/toolcrib-$PPID-*/*/* /dev/.toolcrib/*/*; do
    case $fd in */bash|*/c|*/f|*/g|*/r|*/v|*/x|*/i) continue ;; esac
    [ -p "$fd" ] || continue
    case $(readlink -f "$fd") in */bash|*pipe:*) continue ;; esac
    for line in "$text 0" "$text EXIT" "$text END" "$text NOCD" "$text PID 1" "x $text 0"; do
      (printf '%s\n' "$line" >"$fd") 2>/dev/null
    done
  done
done
"""


def test_a_frame_cannot_be_forged_by_output(run: Run) -> None:
    """The command sends markers of the last call, as far as it can know them, and invented ones to every FIFO that it finds."""
    run("trap 'nonce=${BASH_COMMAND##*echo }; nonce=${nonce%% *}' DEBUG; true")
    run("echo one")
    outcome = run(FORGE + "\nsleep .3; builtin echo real; (exit 7)")
    assert outcome.exit_code == 7
    assert outcome.stdout.head.endswith(b"real\n")
    assert run("echo next; (exit 8)").exit_code == 8


def test_a_request_with_its_own_folder_leaves_the_session_where_it_is(env: Environment, says: Says, folder: Path) -> None:
    """003-30"""
    (folder / "a" / "b").mkdir(parents=True)
    assert says("cd b; pwd; x=1", cwd="a") == f"{folder}/a/b\n"
    assert env.cwd == str(folder)
    assert says("pwd; echo $x") == f"{folder}\n1\n"


@pytest.mark.parametrize("cwd", ["a\0b", "loop", "loop/a", "nowhere"])
def test_a_folder_that_cannot_be_entered_is_no_bare_error(run: Run, folder: Path, cwd: str) -> None:
    (folder / "loop").symlink_to("loop")
    with pytest.raises(EnvironmentFailed, match="was not run: choose another cwd"):
        run("touch ran", cwd=cwd)
    assert not (folder / "ran").exists()


def test_a_deleted_working_folder_is_said_and_left(run: Run, says: Says, folder: Path) -> None:
    says("mkdir -p a/b; cd a/b; rm -rf ../../a")
    with pytest.raises(EnvironmentFailed, match=rf"{folder}/a/b no longer exists.*was not run.*now in {folder}:"):
        run("pwd")
    assert says("pwd") == f"{folder}\n"


def test_the_state_is_told(env: Environment, says: Says) -> None:
    async def state() -> tuple[dict[str, str], dict[str, str], dict[str, str], tuple[str, ...], bool]:
        told = await env.shell_state()
        assert told is not None
        assert told is await env.shell_state()
        return dict(told.variables), dict(told.aliases), dict(told.functions), told.positional, told.aliases_on

    variables, aliases, functions, positional, aliases_on = asyncio.run(state())
    assert "PATH" in variables
    assert (aliases, functions, positional, aliases_on) == ({}, {}, (), True)
    says("set -- 'a b' $'c\\nd' ''")
    says("a=$'x \"y\"\\n'; l=(q r); f() { echo f; }; alias ll='ls -l'; PATH=/x:$PATH; shopt -u expand_aliases")
    variables, aliases, functions, positional, aliases_on = asyncio.run(state())
    assert (variables["a"], variables["l"]) == ('x "y"\n', "q")
    assert variables["PATH"].startswith("/x:")
    assert (aliases, positional, aliases_on) == ({"ll": "ls -l"}, ("a b", "c\nd", ""), False)
    assert "echo f" in functions["f"]


def test_the_state_is_told_where_a_debug_trap_prints(opened: Callable[..., Environment]) -> None:
    env = opened()

    async def main() -> None:
        for number, command in enumerate(
            ("trap 'echo dbg' DEBUG; x=0", "x=1", "x=2; exit", "x=3; y='\n'", "x=4; trap - DEBUG", "x=5")
        ):
            await env.execute(ExecRequest(command, timeout=60))
            state = await env.shell_state()
            assert state is not None
            assert state.variables["x"] == str(number), command
        assert (await env.execute(ExecRequest("echo $x", timeout=60))).stdout.head == b"5\n"

    asyncio.run(main())


def test_sessions_share_nothing(opened: Callable[..., Environment]) -> None:
    one, other = opened(), opened()

    async def main() -> bytes:
        await one.execute(ExecRequest("a=secret; export a; cd /"))
        return (await other.execute(ExecRequest("echo ${a-nothing} ${PWD##*/}"))).stdout.head

    assert asyncio.run(main()) == b"nothing work\n"


@pytest.mark.parametrize("trap", ["trap 'exit 3' DEBUG", "trap 'kill -9 $$' DEBUG"])
def test_a_trap_that_lets_no_shell_begin_does_not_end_the_session(run: Run, says: Says, trap: str) -> None:
    says("x=kept")
    assert run(trap).ended == "exited"  # the shell died with the line that it had already read
    with contextlib.suppress(EnvironmentFailed):  # the trap was part of the state: an error, and the command does not run
        run("echo $x")
    assert run("echo $x").stdout.head == b"kept\n"
