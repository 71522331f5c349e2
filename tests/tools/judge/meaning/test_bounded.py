"""Scripts that double again and again: the limits end the reading, and a limit is always reported."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.judge.meaning import HOLE, Budget, Meaning, NoFiles, ShellNow, interpret

_NOW = ShellNow(cwd="/home/dev/p", home="/home/dev")
_BUDGET = Budget(steps=2_000, cpu_seconds=3600)
_SEEN = 64
"""Largest number of acts of one name in a shortened list, distinguished by the values of their words."""


def _meaning(text: str) -> Meaning:
    return interpret(text, _NOW, NoFiles(), _BUDGET)


def _chain(count: int, line: str, last: str) -> str:
    """Return functions or aliases that each name the next."""
    return "\n".join(line.format(at, at + 1) for at in range(count)) + "\n" + last


_ADVERSARIES = {
    "braces within braces": "alpha " + "{a," * 60 + "b" + "}" * 60,
    "braces beside braces": "alpha " + "{a,b}" * 40,
    "failing folders": " || ".join(f"cd a{at}" for at in range(60)) + "; alpha",
    "folders by chance": "; ".join(f"cd a{at} || cd b{at}" for at in range(60)) + "; alpha",
    "values by chance": "; ".join(f"beta && x{at}=a || x{at}=b" for at in range(60)) + "; alpha $x1 $x59",
    "defaults by chance": "alpha " + " ".join(f"${{x{at}:-a}}" for at in range(60)),
    "one value that grows by chance": "; ".join("beta && x=${x}a || x=${x}b" for _ in range(60)) + "; alpha $x",
    "calls of two each": _chain(30, "f{0}() {{ f{1}; f{1}; }}", "f30() { alpha; }; f0"),
    "calls of two each, one by chance": _chain(40, "f{0}() {{ beta && f{1} || f{1}; }}", "f40() { alpha; }; f0"),
    "calls of itself": "f() { alpha $1; f $1$1; f $1; }; f x",
    "calls of each other": "f() { alpha; g; h; }; g() { h; f; }; h() { g; f; g; }; f",
    "growing arguments": 'f() { alpha "$@"; f "$@" "$@"; }; f x',
    "aliases of two each": "shopt -s expand_aliases\n" + _chain(30, "alias a{0}='a{1}; a{1}'", "alias a30=alpha\na0"),
    "a long pipeline": " | ".join(["alpha"] * 400),
    "a pipeline with choices": " | ".join(["{ alpha && echo a || echo b; }"] * 80),
    "patterns of patterns": f"x={'a' * 3000}; alpha ${{x//*a*a*a*a*a*b/}} ${{x%%*a*a*a*a*b}} ${{x##*(*(a|aa))c}}",
    "alternatives of alternatives": "x=" + "a" * 40 + "b; case $x in " + "*(a|" * 12 + "c" + ")" * 12 + ") beta;; esac; alpha",
    "a text that doubles": "x=a; " + "x=$x$x; " * 60 + "alpha $x",
    "a list that doubles": "x=(a); " + 'x=("${x[@]}" "${x[@]}"); ' * 60 + 'alpha "${x[@]}"',
    "loops in loops": "for a in {1..40}; do " * 6 + "alpha $a" + "; done" * 6,
    "endless loops in loops": "while alpha; do " * 15 + "x=$x$y; cd $x" + "; done" * 15,
    "eval of itself": 'x=\'alpha; eval "$x; $x"\'; eval "$x"',
    "wrappers": "sudo " * 300 + "alpha",
    "names for names": "declare -n p=q; declare -n q=p; p=1; a=b b=a; (( a )); alpha $p $a",
}


@pytest.mark.parametrize("name", _ADVERSARIES)
def test_a_script_that_doubles_ends_within_its_limits(name: str) -> None:
    """003-23"""
    found = _meaning(_ADVERSARIES[name])
    assert found.steps <= _BUDGET.steps + 1
    listed = [act for act in found.acts if act.name == "alpha" or HOLE in act.name]
    assert listed or found.faults
    assert len(listed) <= _SEEN or found.faults


_LONG = "gamma; " * 210
"""Commands that make a script count as long."""
_BODY = "; ".join(f"beta {at}" for at in range(20))
_LONG_BODY = "; ".join([_BODY] * 11)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f'{_LONG} until ! test x; do set -- a "$@"; {_BODY}; alpha "$1"; done; alpha end', 450),
        (f'{_LONG} until alpha; do until ! test x; do set -- a "$@"; {_BODY}; alpha "$1"; done; done; alpha end', 900),
        (f"alpha 1 && x=1 || x=2; alpha 2 && y=1 || y=2; while alpha; do {_LONG_BODY}; alpha $x$y; done; alpha end", 600),
    ],
)
def test_a_long_script_is_followed_for_few_rounds_and_few_ways(text: str, most: int) -> None:
    """An endless loop is followed like a loop with an unknown end, and waiting branches are merged."""
    found = _meaning(text)
    assert found.steps <= most
    assert not found.faults
    listed = {" ".join(value.text for value in act.argv).replace(HOLE, "?") for act in found.acts}
    assert {"beta 0", "beta 19", "alpha end"} <= listed
    assert any(line.startswith("alpha ") and line not in ("alpha 1", "alpha 2", "alpha end") for line in listed)


def test_a_short_loop_is_followed_to_its_end_in_a_long_script() -> None:
    found = _meaning(f"{_LONG} i=0; while [ $i -lt 20 ]; do alpha $i; i=$((i+1)); done; beta $i")
    lines = [" ".join(value.text for value in act.argv) for act in found.acts]
    assert [line for line in lines if line.startswith("alpha")] == [f"alpha {at}" for at in range(20)]
    assert "beta 20" in lines


_NESTED = st.recursive(
    st.sampled_from(["alpha $x", "cd $x", "x=$x$y", "f", "g $x", "x=(${x[@]} a)", "read x", "echo ${x:-$y}{a,b}"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" && ", " || ", "; ", " | ", " & "]), inner).map("".join),
        inner.map("{{ {0}; }}".format),
        inner.map("( {0} )".format),
        inner.map("x=$({0})".format),
        inner.map("f() {{ {0}; }}; f $x".format),
        inner.map("g() {{ {0}; f; g; }}; g".format),
        inner.map("for x in a $x; do {0}; done".format),
        inner.map("while alpha; do {0}; done".format),
        inner.map("if alpha; then {0}; fi".format),
        inner.map("case $x in a|*b*) {0};; esac".format),
        inner.map("eval '{0}'".format),
    ),
    max_leaves=12,
)


@pytest.mark.untraced
@settings(max_examples=40, deadline=None)
@given(_NESTED)
def test_nothing_grows_without_a_limit(text: str) -> None:
    """003-23"""
    assert _meaning(text).steps <= _BUDGET.steps + 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f() { alpha $1; [ $1 -gt 0 ] && f $(($1-1)); }; f 20", "alpha ?"),
        ("f() { (( n++ > 20 )) || f; x+=a; alpha $x; }; f", "alpha ?a"),
        ('f() { (( $# > 20 )) && alpha "$#" || f "$@" x; }; f', "alpha ?"),
        ("f() { (( n++ > 20 )) && alpha || g; }; g() { f; }; g", "alpha"),
    ],
)
def test_deep_recursion_is_followed_to_what_holds_at_any_depth(text: str, wanted: str) -> None:
    """003-23"""
    found = _meaning(text)
    lines = [" ".join(value.text for value in act.argv).replace(HOLE, "?") for act in found.acts]
    assert wanted in lines
    assert not found.faults


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x=1; xa=2; xb=3; alpha $x{a,b}", "alpha 2 3"),
        ("x=1; xa=2; xb=3; alpha ${x}{a,b}", "alpha 1a 1b"),
        ('q=([1]={3..1}x z [0]=b); alpha "${q[@]}"', "alpha b ? ? z"),
        ("declare -A m=(a 1 b 2); alpha ${m[b]}", "alpha 2"),
        ("x='1 2'; declare y={a,$x}; alpha $y", "alpha 1"),
        ('unset u; alpha "${u/%*/new}" "${u@Q}"', "alpha  "),
        ("u=; alpha ${u/%*/new}", "alpha new"),
        ('p=($(beta) a b); alpha "${p[1]}"', "alpha ?"),
        ("alpha ${u:+z}${v+w}", "alpha ?"),
        ("trap 'alpha $w' EXIT; echo ${!u} | beta; w=1", "alpha ?"),
    ],
)
def test_corners_of_expansion(text: str, wanted: str) -> None:
    lines = [" ".join(value.text for value in act.argv).replace(HOLE, "?") for act in _meaning(text).acts]
    assert wanted in lines
