"""003-25: words in the shell parser: quoting, expansions, patterns."""

from __future__ import annotations

import shutil
import subprocess
from random import Random

import pytest

from tools.judge.shell import ShellSyntaxError, parse
from tools.judge.shell.tree import (
    Arithmetic,
    CommandSub,
    Double,
    ExtGlob,
    Parameter,
    Plain,
    ProcessSub,
    Quoted,
    Subshell,
)


def parts(text):
    """Return the parts of a command's only argument."""
    (item,) = parse("cmd " + text).items
    (_, word) = item.command.words
    return word.parts


def name(part):
    return part.body.items[0].command.words[0].parts[0].text


def text_of(word):
    return "".join(part.text for part in word.parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", [Plain("abc")]),
        ("'a b'", [Quoted("a b")]),
        ("a\\ b", [Plain("a"), Quoted(" "), Plain("b")]),
        ("\\r\\m", [Quoted("r"), Quoted("m")]),
        ("r''m", [Plain("r"), Quoted(""), Plain("m")]),
        ('"a b"', [Double([Quoted("a b")])]),
        ('""', [Double([])]),
        ('$"a"', [Double([Quoted("a")])]),
        ('"a\\$\\"\\\\\\q\\\nb"', [Double([Quoted('a$"\\\\qb')])]),
        ('"it\'s $ `"[:0]', None),
        ("$'a\\nb'c", [Quoted("a\nb"), Plain("c")]),
        ("a\\\nb", [Plain("ab")]),
        ("{a,b}~*", [Plain("{a,b}~*")]),
        ("$", [Plain("$")]),
        ("a$%", [Plain("a$%")]),
        ('"$"', [Double([Quoted("$")])]),
        ("$x$1$@", [Parameter("x"), Parameter("1"), Parameter("@")]),
        ("$10", [Parameter("1"), Plain("0")]),
        ("${10}", [Parameter("10")]),
        ("$x_y.z", [Parameter("x_y"), Plain(".z")]),
        ('"$x\'s"', [Double([Parameter("x"), Quoted("'s")])]),
    ],
)
def test_quoting(text, expected):
    if expected is None:
        with pytest.raises(ShellSyntaxError):
            parts(text)
    else:
        assert parts(text) == expected


@pytest.mark.parametrize(
    ("text", "name", "op", "argument", "replacement", "index"),
    [
        ("${x:-a b}", "x", ":-", "a b", None, None),
        ("${x-}", "x", "-", "", None, None),
        ("${x:=a}", "x", ":=", "a", None, None),
        ("${x?no}", "x", "?", "no", None, None),
        ("${x+y}", "x", "+", "y", None, None),
        ("${x##*/}", "x", "##", "*/", None, None),
        ("${x%.*}", "x", "%", ".*", None, None),
        ("${x/a b/c}", "x", "/", "a b", "c", None),
        ("${x//a}", "x", "//", "a", None, None),
        ("${x/#a/b}", "x", "/#", "a", "b", None),
        ("${x////_}", "x", "//", "/", "_", None),
        ("${x/\\//_}", "x", "/", "/", "_", None),
        ("${x^^}", "x", "^^", "", None, None),
        ("${x,[A]}", "x", ",", "[A]", None, None),
        ("${x:1:2}", "x", ":", "1:2", None, None),
        ("${x: -1}", "x", ":", " -1", None, None),
        ("${x@Q}", "x", "@", "Q", None, None),
        ("${#x}", "x", "length", None, None, None),
        ("${#}", "#", "", None, None, None),
        ("${##}", "#", "length", None, None, None),
        ("${#@}", "@", "length", None, None, None),
        ("${#x[@]}", "x", "length", None, None, "@"),
        ("${!x}", "x", "indirect", None, None, None),
        ("${!x:-a}", "x", "indirect", ":-a", None, None),
        ("${!x*}", "x", "names", None, None, None),
        ("${!x[@]}", "x", "names", None, None, "@"),
        ("${!}", "!", "", None, None, None),
        ("${x[1]}", "x", "", None, None, "1"),
        ("${x[a[1]]:-b}", "x", ":-", "b", None, "a[1]"),
        ("${@:2}", "@", ":", "2", None, None),
        ("${x:-{}", "x", ":-", "{", None, None),
        ("${x:-a\\}b}", "x", ":-", "a}b", None, None),
    ],
)
def test_parameters(text, name, op, argument, replacement, index):
    for written in (text, f'"{text}"'):
        (part,) = parts(written)
        part = part.parts[0] if isinstance(part, Double) else part
        assert isinstance(part, Parameter)
        found = [word and text_of(word) for word in (part.argument, part.replacement, part.index)]
        assert [part.name, part.op, *(text or None if text is None else text for text in found)] == [
            name, op, argument, replacement, index,
        ]  # fmt: skip


def test_the_braces_of_a_parameter_end_it_whatever_brackets_are_open():
    """The text after the brace runs: bash refuses the substitution only when it evaluates it."""
    for text in ('cmd "${x[}" ; foo ; "]}"', "cmd ${x[1} ; foo ; ]}", "cmd ${x[y[}]]}"):
        with pytest.raises(ShellSyntaxError):
            parse(text)
    assert parts("${x:-{}}") == [Parameter("x", ":-", parts("${x:-{}")[0].argument), Plain("}")]


def test_substitutions():
    (sub,) = parts("$(foo a)")
    assert isinstance(sub, CommandSub)
    assert name(sub) == "foo"
    (back,) = parts("`foo \\`bar\\``")
    assert name(back) == "foo"
    assert name(back.body.items[0].command.words[1].parts[0]) == "bar"
    (double,) = parts('"`foo \\"x y\\"`"')
    assert double.parts[0].body.items[0].command.words[1].parts == [Double([Quoted("x y")])]
    assert [type(part) for part in parts("a<(foo)b>(bar)")] == [Plain, ProcessSub, Plain, ProcessSub]
    assert parts("$()") == parts("$( )")
    (nested,) = parts('"$(foo "$(bar ")")")"')
    assert name(nested.parts[0].body.items[0].command.words[1].parts[0].parts[0]) == "bar"


def test_substitutions_are_found_wherever_they_hide():
    for text in (
        "${x:-$(foo)}", '"${x:-$(foo)}"', "${x:-`foo`}", '${x:-"$(foo)"}', "${x/$(foo)/b}", "${x/a/$(foo)}", "${x[$(foo)]}",
        "$(($(foo)))",
        "$[1+$(foo)]", '"$((1+`foo`))"', "${x:$(foo)}", "@(a|$(foo))", '"${x#$(foo)}"', "${x:-<(foo)}", "${!x:-$(foo)}",
    ):  # fmt: skip
        assert "Plain(text='foo')" in repr(parts(text)), text


def test_arithmetic_and_what_only_looks_like_it():
    (arithmetic,) = parts("$((1 + (2*$x)))")
    assert isinstance(arithmetic, Arithmetic)
    assert [type(part) for part in arithmetic.text.parts] == [Plain, Parameter, Plain]
    (bracket,) = parts("$[x[1]+2]")
    assert isinstance(bracket, Arithmetic)
    (substitution,) = parts("$((foo); (bar))")
    assert isinstance(substitution, CommandSub)
    assert isinstance(substitution.body.items[0].command, Subshell)


@pytest.mark.parametrize(
    "text",
    [
        "$((a); case x in x) b;; esac)", '$(( "$(echo "$((${x-)"")" ))', "\"$((${x-)\"\")\"B; foo",
        "@(a|<(b))", "$(( '$(foo)' ))", '"$$(")"',
    ],
)  # fmt: skip
def test_where_bash_counts_brackets_another_end_is_never_accepted(text):
    with pytest.raises(ShellSyntaxError):
        parse("cmd " + text)


def test_extended_patterns():
    (pattern,) = parts("@(a|'b c'|+(d))")
    assert isinstance(pattern, ExtGlob)
    assert (pattern.kind, len(pattern.words)) == ("@", 3)
    assert isinstance(pattern.words[2].parts[0], ExtGlob)
    assert [type(part) for part in parts("x.!(c|h)")] == [Plain, ExtGlob]
    # In command position ``!`` negates, and ``name@()`` defines a function, as without extglob.
    assert parse("!(foo)").items[0].command.negated
    assert parse("f@() { a; }").items[0].command.name == "f@"


@pytest.mark.parametrize(
    "text",
    [
        "$\\\n{x}", "$\\\n(foo)", "$HO\\\nME", "i\\\nf a; then b; fi", "a\\\n=b", "a &\\\n& b", "a &\\\n> b", "2\\\n>f",
        "f\\\nor x in a; do b; done",
        "a <\\\n<E", "decl\\\nare", "\"$\\\nx\"",
    ],
)  # fmt: skip
def test_a_continuation_that_changes_what_a_token_is_is_refused_or_read_as_bash_does(text):
    """Bash removes continuations before it splits tokens. If the parser saw two tokens there, it would read another script."""
    if text == "decl\\\nare":
        assert parse(text).items[0].command.words[0].parts == [Plain("declare")]
    else:
        with pytest.raises(ShellSyntaxError):
            parse(text)


@pytest.mark.parametrize("between", ["\\\n", "\\\n\\\n"])
def test_a_continuation_before_the_quote_leaves_it_one_text(between):
    (word,) = parse(f"${between}'it\\'s\\x20a'").items[0].command.words
    assert word.parts == [Quoted("it's a")]


PIECES = [
    "a", "B.c", "1", "-x", "=", ":", "é", "#", "''", "'a b'", "'$x`\\'", "'\"'", '""', '"a b"', '"\\$s\\"\\\\\\q"', '"$s"',
    '"${s}x"', "\"it's\"",
    '"\\\n"', "\\ ", "\\\\", "\\$", "\\'", '\\"', "\\a", "\\\n", "$'a\\tb'", "$'\\x41\\102\\u20ac\\''", "$'\\e\\q\\\\'",
    "$'\\xe2\\x82\\xac'",
    "$'a\\0b'", "$'\\cA\\c\\\\x'", "$'\\x{41}z'", "$'\\U1F600'", "$\\\n'a\\'b'", "$'\\?\\\"'", '$"tr $s"', "$s", "${s}",
    "${s:-no}", "${u:-d e}", "${u-'q r'}",
    '${u:-"w $s"}', '"${u:-w x}"', "\"${u:-'y'}\"", '"${u:-"in"}"', '"${u:-\\}\\$\\a}"', "${s:+set}", '"${s+\'alt\'}"',
    "${u:+never}", "$%", '"$"',
    "${u:-\\}}", "${u:-$'\\n'}", "$s.x", "${s}y",
]  # fmt: skip


def value(part):
    """Return the value of a word without commands, with s=val and u unset."""
    match part:
        case Plain() | Quoted():
            return part.text
        case Double():
            return "".join(map(value, part.parts))
        case Parameter(name=name, op=op):
            alternative = "".join(map(value, part.argument.parts)) if part.argument else ""
            if op in (":+", "+"):
                return alternative if name == "s" else ""
            return "val" if name == "s" else alternative
    raise AssertionError(part)


def test_words_amount_to_what_bash_says():
    """Only the builtin printf runs, with words that contain no commands."""
    random = Random(7)  # noqa: S311 -- the same words each time
    written = [*PIECES, *("".join(random.choices(PIECES, k=random.randint(2, 6))) for _ in range(1500))]
    # A piece that ends in a name would take the next piece's letters, in both readings.
    script = "IFS=; set -f; set +B; s=val; unset u\n" + "".join(f"builtin printf '%s\\0' x{word}\n" for word in written)
    done = subprocess.run(
        [str(shutil.which("bash")), "--norc", "-s"],
        input=script.encode(),
        capture_output=True,
        check=True,
        timeout=60,
        env={"PATH": "", "LC_ALL": "C.UTF-8"},
    )
    assert not done.stderr
    said = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    assert len(said) == len(written)
    for word, expected in zip(written, said, strict=True):
        (item,) = parse(f"cmd x{word}").items
        assert "".join(map(value, item.command.words[1].parts)) == expected, word
