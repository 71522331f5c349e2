"""003-25: the parser accepts and refuses the same texts as ``bash -n``; further refusals are listed."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.fuzz.shell_oracles import STRICTER, bash_accepts, refusal, verdicts
from tests.fuzz.shell_scripts import damaged, script, soup

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed: there is nothing to compare with")


@pytest.mark.full
@pytest.mark.parametrize(("make", "count"), [(script, 150), (damaged, 200), (soup, 200)])
def test_generated_scripts(make, count, tmp_path):
    found = verdicts([make(number) for number in range(count)], tmp_path)
    assert [verdict for verdict in found if verdict.wrong] == []
    accepted = sum(verdict.bash for verdict in found)
    refused = len(found) - accepted
    assert accepted > count // 20
    if make is not script:
        assert refused > count // 5
    assert sum(bool(verdict.ours) for verdict in found if verdict.bash) < count // 8


BOTH_ACCEPT = [
    "echo ${x:-$(echo })} ${x/\"}\"/a} ${x:-}}", "case in in in) a;; esac", "for x\nin a\ndo b; done", "f()\n{ a; }",
    "a=(1 # )\n 2)",
    "[[ a &&\nb ]]", "function if { a; }", "time -- -p a", "{ a; }|{ b; }", "! { a; }", "echo $(a\n# it's )\n)", ">f a=(1 2)",
    "x=$(<f)",
    "if ((1)) then a; fi", "if [[ a ]] then b; fi", "eval \"$(ssh-agent -s)\"", "a 2>&1|b", "echo {a,b}{1..3}",
    "coproc a { b; }",
    "echo \"$(echo \"$(echo \")\")\")\"", "until a; do b; done <<E\nx\nE", "while read -r x; do a; done < <(b)",
    "x[1]=2 y+=3 a",
    "case x in (esac) a;; esac", "echo $((1<<2)) $((x[1]))", "export A=(1) B=\"$x\"", "select x do a; done",
    "a &>>f 3<&- {v}<g",
]  # fmt: skip
BOTH_REFUSE = [
    "if a; then b", "a | then", "for x in a; { b; done", "case x in a) b esac", "{ a; } b", "f() { a; }; }", "a=(1 ; 2)",
    "echo ${x:-it's}",
    "command declare a=(1)", "a=1 >f b=(1 2)", "a[", "(a", "[[ a ]] b", "time)", "(time)", "a && | b",
    "for ((a;b)); do c; done", "$(a;;)",
    "a <<< ; b", "\"${x:-it's}\"", "echo $(", "case x; in a) b;; esac",
    "x[0<(]= a", "x+=()x+=()", "for x {\na\n}", "(?(())<&{d}<f)", "coproc f() { a; }",
]  # fmt: skip


def test_hand_picked_scripts(tmp_path):
    for verdict in verdicts(BOTH_ACCEPT, tmp_path):
        assert (verdict.bash, verdict.ours) == (True, ""), verdict
    for verdict in verdicts(BOTH_REFUSE, tmp_path):
        assert not verdict.bash, verdict
        assert verdict.ours, verdict


BEYOND_BASH = {
    "${ a; }": "bad substitution",
    "${x y}": "bad substitution",
    "\"${x:-'a}b'}\"": "quotes inside ${...}",
    "\"${x:-$'\\'$(a)'}\"": "$'...' inside ${...}",
    "$(( '$(a)' ))": "a quoted expansion in arithmetic",
    "eval a=(1)": "a list as an argument of eval, let or alias",
    "a[1]=(1 2)": "a list as the value of an array's member",
    "'f'() { a; }": "a function's name with quotes or expansions",
    "for a-b in x; do a; done": "a variable's name was expected",
    "echo $\\\n{x}": "an expansion is split by a line continuation",
    "i\\\nf a; then b; fi": "a reserved word or an assignment is split",
    "cat <<$(a)\n$(a)\n": "a here-document's delimiter with an expansion",
    "x=$(cat <<A\nb\nAx)": "a here-document's delimiter with more on its line",
    "x=$(cat <<A)\nb\nA\n": "a here-document starts in a command substitution",
    "a\\": "a backslash at the end of the text",
    "echo @(a|<(b))": "a process substitution in",
    "((a)\nb)": "(( that is two subshells",
    "`$(time a=1 b)`": "time before a compound command",
    '"$$(a)"': "a bracket after $$",
    "for ((a)b": "malformed for ((",
    '"$((${x-)"")"': "brackets in an expansion that bash would count",
    "${x[}": "bad substitution",
    "coproc time": "time after coproc",
    "x=(a)b": "text after an array",
    "[[ ]]": "an empty [[",
}


def test_what_is_refused_beyond_bash_is_listed(tmp_path):
    """Each further refusal has a reason; such a command needs approval."""
    for verdict in verdicts(list(BEYOND_BASH), tmp_path):
        assert verdict.bash, verdict
        assert verdict.explained, verdict
        assert BEYOND_BASH[verdict.text] in STRICTER or verdict.text in BEYOND_BASH


def test_a_fault_that_bash_finds_late_is_said_to_be_one():
    for text in ("echo `(`", "cat <<E\n$(\nE\n", "echo $((a) + (b))"):
        assert "only when it runs that part" in refusal(text)
    assert "only when it runs that part" not in refusal("echo $(")


@pytest.mark.full
def test_every_command_of_the_corpora(corpora, tmp_path):
    """The parser refuses only commands that bash refuses. They are only read, never executed."""
    commands = [
        json.loads(line)["command"]
        for file in sorted((corpora / "approval").glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    pages = [line.partition("\t")[2] for line in (corpora / "approval" / "tldr.tsv").read_text(encoding="utf-8").splitlines()]
    refused = [text for text in [*commands, *pages] if refusal(text)]
    assert len(refused) < len(pages) // 500
    assert [verdict.text for verdict in verdicts(refused, tmp_path) if verdict.bash] == []
    sample = [*commands, *pages[::150]]
    accepted = dict(zip(sample, bash_accepts(sample, tmp_path, "-O", "extglob"), strict=True))
    assert [text for text, yes in accepted.items() if not yes and not refusal(text)] == []
