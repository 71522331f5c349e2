"""003-25: commands in the shell parser, construct by construct."""

from __future__ import annotations

import re

import pytest

from tests.fuzz.shell_trees import our_form
from tools.judge.shell import ShellSyntaxError, parse
from tools.judge.shell.compound import Parser
from tools.judge.shell.tree import (
    AndOr,
    ArithmeticFor,
    Assignment,
    Case,
    CommandSub,
    Compound,
    Conditional,
    Coproc,
    For,
    Function,
    Group,
    Pipeline,
    Plain,
    Quoted,
    Redirected,
    Simple,
    Word,
)


def one(text):
    script = parse(text)
    assert len(script.items) == 1
    return script.items[0].command


def words(*texts):
    return ("simple", (), tuple((text,) if text else () for text in texts))


A, B, C = words("a"), words("b"), words("c")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", ()),
        ("# only a comment", ()),
        ("a; b\nc", (A, B, C)),
        ("a & b &", (("background", A), ("background", B))),
        ("a && b || c", (("||", ("&&", A, B), C),)),
        ("a && b &", (("background", ("&&", A, B)),)),
        ("a &&\n # why\n b", (("&&", A, B),)),
        ("a | b |& c", (("|&", ("|", A, B), C),)),
        ("! a | b", (("!", ("|", A, B)),)),
        ("! ! a", (A,)),
        ("time -p a", (("time", A),)),
        ("time ! a", (("!", ("time", A)),)),
        ("time", (("time", words()),)),
        ("a | time b", (("|", A, words("time", "b")),)),
        ("{ a; b; }", (("group", (A, B)),)),
        ("{(a)}", (("group", (("subshell", (A,)),)),)),
        ("{a,b}", (words("{a,b}"),)),
        ("(a\n)", (("subshell", (A,)),)),
        ("if a; then b; fi", (("if", (((A,), (B,)),), ()),)),
        ("if a; then b; elif b; then c; else a; fi", (("if", (((A,), (B,)), ((B,), (C,))), (A,)),)),
        ("if (a) then b; fi", (("if", (((("subshell", (A,)),), (B,)),), ()),)),
        ("while a; do b; done", (("while", (A,), (B,)),)),
        ("until a\ndo\nb\ndone", (("until", (A,), (B,)),)),
        ("for x in a 'b c'; do a; done", (("for", "x", (("a",), ("b c",)), (A,)),)),
        ("for x do a; done", (("for", "x", None, (A,)),)),
        ("for x in; do a; done", (("for", "x", (), (A,)),)),
        ("for x in a; { b; }", (("for", "x", (("a",),), (B,)),)),
        ("select x in a; do b; done", (("select", "x", (("a",),), (B,)),)),
        ("for ((i=$(a); i<3; i++)); do b; done", (("for((", (("$(", (A,)),), (B,)),)),
        ("((x > $(a)))", (("((", (("$(", (A,)),)),)),
        ("((a); (b))", (("subshell", (("subshell", (A,)), ("subshell", (B,)))),)),
        ("f() { a; }", (("function", "f", ("group", (A,))),)),
        ("function f\n(a) >x", (("function", "f", ("redirected", ("subshell", (A,)), ((">", "", ("x",)),))),)),
        ("function f () if a; then b; fi", (("function", "f", ("if", (((A,), (B,)),), ())),)),
        ("coproc a b", (("coproc", "", words("a", "b")),)),
        ("coproc N { a; }", (("coproc", "N", ("group", (A,))),)),
        ("[[ -f x && ! ( a == b ) ]]", (("[[", tuple((w,) for w in ["-f", "x", "&&", "!", "(", "a", "==", "b", ")"])),)),
        ("[[ a =~ (b c)|d ]]", (("[[", (("a",), ("=~",), ("(b c)|d",))),)),
        ("[[ a < b ||\n c ]]", (("[[", (("a",), ("<",), ("b",), ("||",), ("c",))),)),
        ("case x in (a|b) a;; *) b;& esac", (("case", ("x",), (((("a",), ("b",)), (A,), ";;"), ((("*",),), (B,), ";&"))),)),
        ("case x in a) ;; esac", (("case", ("x",), (((("a",),), (), ";;"),)),)),
        ("case x in\n# why\na) b\nesac", (("case", ("x",), (((("a",),), (B,), ";;"),)),)),
        ("case x in esac", (("case", ("x",), ()),)),
        ("$(case x in a) b;; esac)", (("simple", (), ((("$(", (("case", ("x",), (((("a",),), (B,), ";;"),)),)),),)),)),
        ("if a; then b; fi >x 2>&1", (("redirected", ("if", (((A,), (B,)),), ()), ((">", "", ("x",)), (">&", "2", ("1",)))),)),
        ("echo if then } done", (words("echo", "if", "then", "}", "done"),)),
        ("'if' a", (words("if", "a"),)),
        ("a#b #c", (words("a#b"),)),
        ("a \\\n b", (words("a", "b"),)),
        ("a\\\nb", (words("ab"),)),
        ("a\r\nb", (words("a\r"), B)),
    ],
)
def test_the_form_of_a_command(text, form):
    assert our_form(parse(text)) == form


@pytest.mark.parametrize(
    ("text", "redirects"),
    [
        ("a >f", [(">", None, "f")]),
        (">f a", [(">", None, "f")]),
        ("a 2>f <g 10<>h", [(">", 2, "f"), ("<", None, "g"), ("<>", 10, "h")]),
        ("a 2>&1 >&- <&3-", [(">&", 2, "1"), (">&", None, "-"), ("<&", None, "3-")]),
        ("a &>f &>>g >|h >>i", [("&>", None, "f"), ("&>>", None, "g"), (">|", None, "h"), (">>", None, "i")]),
        ("a {fd}>f", [(">", "{fd}", "f")]),
        ("a <<<'x y'", [("<<<", None, "x y")]),
        ("a >& f", [(">&", None, "f")]),
        ("a>f", [(">", None, "f")]),
        ("a2>f", [(">", None, "f")]),
        ("a >\\\nf", [(">", None, "f")]),
    ],
)
def test_redirects(text, redirects):
    simple = one(text)
    assert isinstance(simple, Simple)
    assert [(each.op, each.fd, each.target.parts[0].text) for each in simple.redirects] == redirects


def test_a_number_is_a_descriptor_only_right_before_the_operator():
    assert our_form(parse("a 2 >f")) == (("redirected", words("a", "2"), ((">", "", ("f",)),)),)
    assert our_form(parse("a '2'>f")) == (("redirected", words("a", "2"), ((">", "", ("f",)),)),)
    assert our_form(parse("a 99999999999>f")) == (("redirected", words("a", "99999999999"), ((">", "", ("f",)),)),)


def test_assignments():
    simple = one("x=1 y+=$z A[i+1]='q' cmd k=v")
    assert isinstance(simple, Simple)
    x, y, a = simple.assignments
    assert (x.name, x.append, x.index, our_word(x.value)) == ("x", False, None, "1")
    assert (y.name, y.append) == ("y", True)
    assert (a.name, our_word(a.index), our_word(a.value)) == ("A", "i+1", "q")
    assert [our_word(word) for word in simple.words] == ["cmd", "k=v"]


def our_word(word):
    return "".join(part.text for part in word.parts)


def test_an_array():
    simple = one("x=(a [2]='b c' # why\n $(d))")
    (part,) = simple.assignments[0].value.parts
    assert isinstance(part, Compound)
    assert [(index and our_word(index)) for index, _ in part.items] == [None, "2", None]
    assert isinstance(part.items[2][1].parts[0], CommandSub)


@pytest.mark.parametrize("builtin", ["declare", "local", "export", "readonly", "typeset"])
def test_arguments_of_declare_and_its_like_are_assignments(builtin):
    simple = one(f"{builtin} -a x=(1 2) y=$z w[1]=2 $v=1 name")
    kinds = [type(word) for word in simple.words]
    assert kinds == [Word, Word, Assignment, Assignment, Assignment, Word, Word]
    assert [word.name for word in simple.words if isinstance(word, Assignment)] == ["x", "y", "w"]


def test_a_pattern_that_looks_like_a_subscript():
    assert our_form(parse("a[x y]b c")) == (words("a[x y]b", "c"),)
    assert our_form(parse("declare a[x y]")) == (words("declare", "a[x", "y]"),)
    assert our_form(parse("ls a[bc]=d")) == (words("ls", "a[bc]=d"),)


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("cat <<E\n$x a\nE\n", [[("$", "x", "", ()), " a\n"]]),
        ("cat <<'E'\n$x `\nE\n", [["$x `\n"]]),
        ("cat <<\\E\n$x\nE", [["$x\n"]]),
        ("cat <<-E\n\t\ta\n\tE\n", [["a\n"]]),
        ("cat <<A <<B\n1\nA\n2\nB\n", [["1\n"], ["2\n"]]),
        ("cat <<E | b\n1\nE\n", [["1\n"]]),
        ("cat <<E\na\\\nE\nb\\$\nE\n", [["aE\nb$\n"]]),
        ("cat <<E\n\"it's\" $(b 'c')\nE\n", [['"it\'s" ', ("$(", (words("b", "c"),)), "\n"]]),
        ("cat <<E", [[]]),
        ("cat <<E\na", [["a\n"]]),
        ("cat <<E\nE\n", [[]]),
    ],
)
def test_here_documents(text, bodies):
    command = parse(text).items[0].command
    simple = command.commands[0] if isinstance(command, Pipeline) else command
    form = our_form(parse(text))[0]
    form = form[1] if form[0] == "|" else form
    assert [list(body) for _, _, body in form[2]] == bodies
    assert all(redirect.op in ("<<", "<<-") for redirect in simple.redirects)


def test_a_here_document_in_a_substitution():
    form = our_form(parse("x=$(cat <<E\n)\nE\n) y; z"))
    assert form[0][1][0][4][0] == ("$(", (("redirected", words("cat"), (("<<", "", (")\n",)),)),))
    assert form[1] == words("z")
    assert our_form(parse("x=$(cat <<E\na\nE)")) == our_form(parse("x=$(cat <<E\na\nE\n)"))


def test_a_quoted_here_document_is_one_part():
    simple = one("cat <<'E'\na $b\nE\n")
    assert simple.redirects[0].target.parts == [Quoted("a $b\n")]


def test_offsets_and_lines():
    text = "a b\n  cd 'e' # f\n\ng $(\nh)"
    script = parse(text)
    assert list(script.lines) == [0, 1, 3]
    assert [text[item.command.start : item.command.end] for item in script.items] == ["a b", "cd 'e'", "g $(\nh)"]
    assert [text[word.start : word.end] for word in script.items[1].command.words] == ["cd", "'e'"]
    inner = script.items[2].command.words[1].parts[0].body
    assert list(inner.lines) == [4]
    assert text[inner.items[0].command.start : inner.items[0].command.end] == "h"


def test_offsets_in_backquotes_are_those_of_the_whole():
    text = "a `b \\`c\\``"
    word = one(text).words[1]
    inner = word.parts[0].body.items[0].command
    assert (inner.start, inner.end) == (2, len(text))
    assert our_form(word.parts[0].body) == (("simple", (), (("b",), (("$(", (C,)),))),)


def test_the_nodes_are_of_their_kinds():
    assert isinstance(one("a && b"), AndOr)
    assert isinstance(one("{ a; }"), Group)
    assert isinstance(one("{ a; } >f"), Redirected)
    assert isinstance(one("f() { a; }"), Function)
    assert isinstance(one("coproc a"), Coproc)
    assert isinstance(one("for x in a; do b; done"), For)
    assert isinstance(one("for ((;;)); do b; done"), ArithmeticFor)
    assert isinstance(one("case x in esac"), Case)
    assert isinstance(one("[[ x ]]"), Conditional)
    pipeline = one("a |& b | c")
    assert isinstance(pipeline, Pipeline)
    assert list(pipeline.stderr_too) == [True, False, False]
    assert one("a").words[0].parts == [Plain("a")]


@pytest.mark.parametrize(
    "text",
    [
        "a &&", "a |", "; a", "a ;; b", "a & & b", "()", "{ }", "{ a }", "(a", "a)", "}", "fi", "then", "if a; then fi",
        "while do a; done",
        "for 1x in a; do b; done", "for x in a do b; done", "case x in a b) c;; esac", "f() a", "f() { a; } b", "[[ a b ]]",
        "[[ -f ]]",
        "[[ a", "[[ ( a ]]", "'a", '"a', "$(a", "`a", "${a", "$((1", "a >", "a > ;", "a <<", ">2>f", "x=(a; b)", "x=(a",
        "a=1 f() { b; }",
        "a | ! b", "time & a", "a\0b", "echo a\\", "coproc",
    ],
)  # fmt: skip
def test_what_bash_refuses_is_refused(text):
    with pytest.raises(ShellSyntaxError) as caught:
        parse(text)
    assert 0 <= caught.value.offset <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        " git  push\t-f ",
        "a b=c d#e",
        "x [ ] {a,b} ~ *? !",
        "if",
        "time",
        "! a",
        "export a=b",
        "[[",
        "a=b c",
        "a #b",
        "{",
        "f[1]",
    ],
)
def test_a_command_of_plain_words_is_read_at_one_look(text):
    """003-25: the quick path reads or refuses each text like the parser."""
    parser = Parser(text, 64)
    try:
        slowly = parser.script()
        if parser.pos < len(text):
            parser.unexpected()
    except ShellSyntaxError as error:
        with pytest.raises(ShellSyntaxError, match=re.escape(str(error))):
            parse(text)
    else:
        assert parse(text) == slowly
