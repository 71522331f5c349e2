"""What perl opens, runs and writes in its own ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.judge.meaning import NoFiles, ShellNow, interpret

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
        ("open3($i, $o, undef, 'rm', '-rf', '/etc')", ARGV),
        ("IPC::Open2::open2($o, $i, 'rm -rf /etc')", SYSTEM),
        ("exec {'rm'} 'ls', '-rf', '/etc'", ARGV),
        ("system {'rm'} 'ls', '-rf', '/etc'", ARGV),
        ("'x' =~ /(?{system q(x)})/", ("code", "perl", "system q(x)")),
        ("s/x(??{ system })/y/", ("code", "perl", " system ")),
        ("sysopen F, '/etc/x', O_WRONLY|O_APPEND", ("run", ">>", "/etc/x")),
        ("IO::File->new('/etc/x', 'a')", ("run", ">>", "/etc/x")),
        ("IO::File->new('/etc/x', '>')", ("run", ">", "/etc/x")),
        ("IO::File->new('> /etc/x')", ("run", ">", "/etc/x")),
        ("tie @lines, 'Tie::File', '/etc/x'", ("run", ">>", "/etc/x")),
        ("@ARGV = ('rm -rf /etc|'); print <>", SYSTEM),
        ("@ARGV = ('>/etc/x'); while (<ARGV>) {}", ("run", ">", "/etc/x")),
        ("@ARGV = ('/etc/x'); $^I = ''; print while <>", ("run", ">", "/etc/x")),
    ],
)
def test_effects_that_other_languages_spell_otherwise(
    effects: Callable[..., list[tuple[str, ...]]], source: str, expected: tuple[str, ...]
) -> None:
    assert expected in effects("perl", source)


@pytest.mark.parametrize(
    "source",
    [
        "do { print 1 } while ($x < 3)",
        "sysopen F, '/etc/x', O_RDONLY",
        "sysopen F, '/etc/x', 0",
        "IO::File->new('/etc/x', 'r')",
        "tie %h, 'Memoize::Expire'",
        "@ARGV = ('a|b'); print <>",
        "print if /(?<name>x)/ and $a < 3 and $b > 4",
        "cp",
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
        ("perl -ne 1 'rm -rf /etc |'", "rm -rf /etc"),
        ("perl -lape 's/a/b/' 'rm -rf /etc|' x", "rm -rf /etc"),
        ("perl -e 'while (<>) { print }' '| rm -rf /etc'", "rm -rf /etc"),
        ("printf 'rm -rf /etc|\\n' | xargs -d '\\n' perl -ne 1", "rm -rf /etc"),
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
