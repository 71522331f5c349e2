"""Perl's own ways to open files, run commands and write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.approval.explain import Judge
from tools.judge.meaning import NoFiles, ShellNow, interpret
from tools.judge.setting import Setting

SYSTEM = ("shell", "rm -rf /etc")
ARGV = ("run", "rm", "-rf", "/etc")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("do './x.pl'", ("run", "perl", "./x.pl")),
        ("$f = './x.pl'; do $f;", ("run", "perl", "./x.pl")),
        ("do('./x.pl') or die", ("run", "perl", "./x.pl")),
        ("readpipe('rm -rf /etc')", SYSTEM),
        ("CORE::system('rm -rf /etc')", SYSTEM),
        ("POSIX::unlink('/etc/x')", ("run", "rm", "/etc/x")),
    ],
)
def test_effects_that_other_languages_spell_otherwise(
    effects: Callable[..., list[tuple[str, ...]]], source: str, expected: tuple[str, ...]
) -> None:
    assert expected in effects("perl", source)


@pytest.mark.parametrize(
    "source",
    [
        "open3($i, $o, undef, 'rm', '-rf', '/etc')",
        "IPC::Open2::open2($o, $i, 'rm -rf /etc')",
        "exec {'rm'} 'ls', '-rf', '/etc'",
        "system {'rm'} 'ls', '-rf', '/etc'",
        "'x' =~ /(?{system q(x)})/",
        "s/x(??{ system })/y/",
        "sysopen F, '/etc/x', O_WRONLY|O_APPEND",
        "IO::File->new('/etc/x', 'a')",
        "IO::File->new('/etc/x', '>')",
        "IO::File->new('> /etc/x')",
        "tie @lines, 'Tie::File', '/etc/x'",
        "@ARGV = ('rm -rf /etc|'); print <>",
        "@ARGV = ('>/etc/x'); while (<ARGV>) {}",
        "@ARGV = ('/etc/x'); $^I = ''; print while <>",
    ],
)
def test_what_is_not_followed_is_asked_about(asks: Callable[[str, str], list[str]], source: str) -> None:
    assert asks("perl", source)


@pytest.mark.parametrize(
    "source",
    [
        "do { print 1 } while ($x < 3)",
        "print if /(?<name>x)/ and $a < 3 and $b > 4",
    ],
)
def test_their_neighbours_have_none(effects: Callable[..., list[tuple[str, ...]]], source: str) -> None:
    assert effects("perl", source) == []


def argvs(text: str) -> list[str]:
    acts = interpret(text, ShellNow(cwd="/p"), NoFiles(), programs=frozenset({"rm", "cp"})).acts
    return [" ".join(value.text for value in act.argv) for act in acts]


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("perl '-Mstrict;system(q(rm -rf /etc))' -e 1", "rm -rf /etc"),
        ("perl -w '-mFoo=a};system(q(rm -rf /etc));#' -e 1", "rm -rf /etc"),
        ("perl -MExtUtils::Command -e rm_rf /etc", "rm -r /etc"),
        ("perl -MExtUtils::Command -e cp a /etc/x", "cp a /etc/x"),
    ],
)
def test_what_it_is_given_is_opened_and_run(text: str, argv: str) -> None:
    assert argv in argvs(text)


@pytest.mark.parametrize(
    "text",
    [
        "perl -e 'print @ARGV' 'rm -rf /etc |'",
        "perl -MList::Util=sum,max -MData::Dumper -e 1",
        "perl -pi.bak -e 's/a|b/c/' x",
        "perl -ne 'print if /a/' 'a|b'",
    ],
)
def test_and_only_there(text: str) -> None:
    assert argvs(text) == [" ".join(argvs(text)[-1:])]


@pytest.mark.parametrize(
    "text",
    [
        "perl -ne 1 'rm -rf /etc |'",
        "perl -lape 's/a/b/' 'rm -rf /etc|' x",
        "perl -e 'while (<>) { print }' '| rm -rf /etc'",
        "printf 'rm -rf /etc|\\n' | xargs -d '\\n' perl -ne 1",
    ],
)
def test_a_name_that_is_a_command_is_asked_about(text: str) -> None:
    judge = Judge(Setting(home="/home/dev"))
    assert "opaque.code" in [finding.key for finding in judge.examine(text, "/home/dev/project", files=False).findings]
