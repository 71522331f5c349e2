"""Changes that earlier commands made to a real shell are known when the next one is judged, so they can't hide its effects."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from toolcrib import ExecRequest
from tools.environments.local.environment import LocalEnvironment
from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting

SOME = "fs.recursive-delete"


async def _judged(folder: Path, before: str, command: str) -> set[str]:
    environment = LocalEnvironment(str(folder))
    try:
        await environment.execute(ExecRequest(before))
        shell = await environment.shell_state()
    finally:
        await environment.close()
    return {finding.key for finding in examine(command, str(folder), shell, NoFiles(), Setting(home="/home/dev")).findings}


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("declare -i n", "n='a[$(rm -rf build)]'"),
        ("declare -ai n", "n[0]='a[$(rm -rf build)]'"),
        ("declare -l c", "c=RM; $c -rf build"),
        ("declare -n ref=cmd", "cmd=rm; $ref -rf build"),
        ("readonly x=rm", "x=ls\n$x -rf build"),
        ("a=(ls rm)", "${a[1]} -rf build"),
        ("a=(rm -rf build)", '"${a[@]}"'),
        ("declare -A m=(['x ]y']=$'r\\x6d')", "${m['x ]y']} -rf build"),
        ("x=true; trap '$x' DEBUG", "x='rm -rf build'"),
        ("x=true; trap '$x' ERR", "x='rm -rf build'"),
        ("x=true; trap '$x' EXIT", "x='rm -rf build'"),
        ("trap 'rm -rf build' EXIT", "cd /srv"),
        ("trap 'alias ls=\"rm -rf build\"' USR1", "ls"),
        ("trap 'f() { rm -rf build; }' USR1; f() { :; }", "f"),
        ("shopt -s xpg_echo", "echo 'r\\0155 -rf build' | bash"),
        ("shopt -s lastpipe", "x=ls; echo rm | read x; $x -rf build"),
        ("shopt -s nocasematch", "case A in a) rm -rf build;; esac"),
        ("set -C", "echo 'rm -rf build' >t; echo true >t; bash t"),
        ("IFS=,", "x=rm,-rf,build; $x"),
        ("function time { rm -rf build; }", "\\time"),
        ("BASH_ALIASES[ls]='rm -rf build'", "ls"),
        ("alias rm=true", "shopt -u expand_aliases\nrm -rf build"),
        ("rm() { :; }", "unset -f rm; rm -rf build"),
        ("rm() { :; }", "unset -f $(compgen -A function); rm -rf build"),
        ("rm() { :; }", "bash -c 'rm -rf build'"),
        ("function eval { :; }", "set -o posix\neval 'rm -rf build'"),
    ],
)
def test_nothing_that_a_shell_keeps_hides_what_the_next_command_does(tmp_path: Path, before: str, command: str) -> None:
    assert asyncio.run(_judged(tmp_path, before, command)) & {SOME, "opaque.file"}


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("true", "kill -9 $PPID"),
        ("true", "p=$PPID; kill -STOP -- -$p"),
        ("ours=$PPID", "kill $ours"),
        ("declare -i ours=PPID", 'bash -c "kill -INT 0$ours"'),
        ("name=PPID", "kill ${!name}"),
    ],
)
def test_ending_us_by_our_number_is_asked_about(tmp_path: Path, before: str, command: str) -> None:
    assert "self.kill" in asyncio.run(_judged(tmp_path, before, command))


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("x=ls", "bash -c '${x:-rm} -rf build'"),
        ("export x=ls", "unset x; bash -c '${x:-rm} -rf build'"),
        ("export x=ls", "export -n x; bash -c '${x:-rm} -rf build'"),
        ("export x=ls", "env -u x bash -c '${x:-rm} -rf build'"),
        ("export x=ls", "env -i bash -c '${x:-rm} -rf build'"),
        ("export x=ls", "x=rm; bash -c '$x -rf build'"),
        ("export x=ls", "env x=rm bash -c '$x -rf build'"),
    ],
)
def test_a_child_sees_only_the_variables_that_it_is_given(tmp_path: Path, before: str, command: str) -> None:
    assert asyncio.run(_judged(tmp_path, before, command))


@pytest.mark.parametrize(
    ("before", "command"),
    [
        (":", "ls; x=1; f 2>/dev/null"),
        ("export x=ls", "bash -c '${x:-rm} -a build'"),
        ("trap 'rm -rf build' EXIT", "ls"),  # it was judged when it was set
        ("trap 'rm -rf build' EXIT", "make test && echo done >log"),
        ("a=(src tests)", 'ls "${a[@]}"'),
        ("declare -i n=3", "n=n+1; echo $n"),
        ("declare -A m=([x]=y)", "echo ${m[x]}"),
        ("exec {log}>log", "ls"),
    ],
)
def test_a_shell_that_keeps_something_harmless_is_not_asked_about_again(tmp_path: Path, before: str, command: str) -> None:
    assert not asyncio.run(_judged(tmp_path, before, command))
