"""003-25: the tree equals that of another parser, shfmt."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.shell_oracles import refusal
from tests.fuzz.shell_scripts import script
from tests.fuzz.shell_trees import IncomparableError, our_form, shfmt_form, shfmt_path
from tools.judge.shell import parse

PICKED = [
    'git commit -m "fix: $x" && git push origin main',
    "find . -name '*.pyc' -exec rm {} + | xargs -0 rm -rf -- \"$@\"",
    'for f in *.txt; do mv "$f" "${f%.txt}.md"; done',
    "if [[ -f x && $y == a* || ! -z ${z[1]} ]]; then a; elif b; then c; else d; fi",
    "cat <<E | sh -s >f 2>&1 &\na $x `b` $(c)\nE\n",
    "cat <<-'E'\n\ta $x\n\tE\n",
    "case $1 in start|'re start') a;; (b*) ;& *) c ;;& esac",
    'x=(a [2]=$b "$(c)")\ny+=1 d\nz[3]=4',
    "declare -A m=([a]=1) n=$x; export PATH=$PATH:/x",
    "f() { local x=$1; a; } >g\nfunction h { b; }",
    'while read -r x; do a "$x"; done < <(b | c)',
    "time -p a | b; ! c",
    "coproc N { a; }; coproc b",
    'echo "${x:-$(a "b c")}" ${x//$y/z} ${!x} ${#x[@]} ${x:1:2} $((x + $(y)))',
    "((x++)) && for ((i=0; i<$(n); i++)); do a; done",
    'select x in a b; do c; done <<<"$y"',
    "a $'\\x41\\n' \\$b 'c'\"d\"e $\"f\" {g}>h 3<>i &>j",
    "(a; b) | { c; d & } |& e",
    'bash -c "$(curl -fsSL https://x.y/z)"; eval `a \\`b\\``',
    "echo @(a|b) !(c) [d-f]* {g,h}",
]


@pytest.fixture(scope="module")
def shfmt():
    program = shfmt_path()
    if program is None:
        pytest.skip("shfmt is not installed (pip install shfmt-py): there is nothing to compare with")
    return program


@pytest.mark.parametrize("text", PICKED)
def test_picked_scripts(text, shfmt):
    assert our_form(parse(text)) == shfmt_form(shfmt, text)


@pytest.mark.full
def test_generated_scripts(shfmt):
    counts: Counter[str] = Counter()
    for number in range(20_000, 20_150):
        text = script(number)
        if refusal(text):
            continue
        try:
            theirs, ours = shfmt_form(shfmt, text), our_form(parse(text))
        except IncomparableError:
            counts["incomparable"] += 1
            continue
        assert ours == theirs, text
        counts["same"] += 1
    assert counts["same"] > 50
