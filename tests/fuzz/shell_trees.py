"""Our tree and shfmt's, both converted to nested tuples that can be compared.

A word is its static text with a mark for each expansion; commands, redirects and functions are tuples that begin with their kind.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.judge.shell import tree
from tools.judge.shell.ansi import decode

Form = tuple[Any, ...]


class IncomparableError(Exception):
    """shfmt refuses the script, or its reading of a part has no counterpart."""


def shfmt_path() -> str | None:
    beside = Path(sys.executable).parent / "shfmt"
    return str(beside) if beside.exists() else shutil.which("shfmt")


LOSES_A_LINE = re.compile(r"<<.*\]\]", re.DOTALL).search


def shfmt_form(program: str, text: str) -> Form:
    if LOSES_A_LINE(text):
        raise IncomparableError("shfmt loses the first line of a here-document that begins on the line of a ]]")
    done = subprocess.run(
        [program, "--to-json", "-ln", "bash"], input=text.encode("utf-8", "surrogateescape"), capture_output=True, timeout=60
    )
    if done.returncode:
        raise IncomparableError(done.stderr.decode(errors="replace"))
    return Theirs(text).statements(json.loads(done.stdout).get("Stmts"))


# -- ours -----------------------------------------------------------------------------------------------------------


def our_form(script: tree.Script) -> Form:
    return tuple(("background", command(item.command)) if item.background else command(item.command) for item in script.items)


def command(node: tree.Command) -> Form:  # noqa: C901 -- one case for each kind of command
    match node:
        case tree.Simple():
            words = tuple(assignment(word) if isinstance(word, tree.Assignment) else word_form(word) for word in node.words)
            simple = ("simple", tuple(map(assignment, node.assignments)), words)
            return redirected(simple, node.redirects)
        case tree.Pipeline():
            inner = command(node.commands[0])
            for each, both in zip(node.commands[1:], node.stderr_too, strict=False):
                inner = ("|&" if both else "|", inner, command(each))
            inner = ("time", inner) if node.timed else inner
            return ("!", inner) if node.negated else inner
        case tree.AndOr():
            return (node.op, command(node.left), command(node.right))
        case tree.Group():
            return ("group", our_form(node.body))
        case tree.Subshell():
            return ("subshell", our_form(node.body))
        case tree.If():
            branches = tuple((our_form(condition), our_form(body)) for condition, body in node.branches)
            return ("if", branches, our_form(node.otherwise) if node.otherwise else ())
        case tree.Loop():
            return ("until" if node.until else "while", our_form(node.condition), our_form(node.body))
        case tree.For():
            listed = None if node.words is None else tuple(map(word_form, node.words))
            return ("select" if node.select else "for", node.name, listed, our_form(node.body))
        case tree.ArithmeticFor():
            return ("for((", tuple(inside for part in node.parts for inside in expansions(part)), our_form(node.body))
        case tree.Case():
            items = tuple((tuple(map(word_form, item.patterns)), our_form(item.body), item.ends) for item in node.items)
            return ("case", word_form(node.subject), items)
        case tree.Function():
            return ("function", node.name, command(node.body))
        case tree.ArithmeticCommand():
            return ("((", expansions(node.text))
        case tree.Conditional():
            return ("[[", tuple(word_form(word) for word in node.words))
        case tree.Coproc():
            return ("coproc", "" if node.name == "COPROC" else node.name, command(node.body))
        case tree.Redirected():
            return redirected(command(node.command), node.redirects)


def redirected(inner: Form, redirects: Any) -> Form:
    if not redirects:
        return inner
    return (
        "redirected",
        inner,
        tuple((each.op, str(each.fd) if each.fd is not None else "", word_form(each.target)) for each in redirects),
    )


def assignment(node: tree.Assignment) -> Form:
    if len(node.value.parts) == 1 and isinstance(array := node.value.parts[0], tree.Compound):
        value: Form = ("array", *((expansions(index) if index else None, word_form(word)) for index, word in array.items))
    else:
        value = word_form(node.value)
    return ("=", node.name, node.append, expansions(node.index) if node.index else None, value)


def word_form(word: tree.Word) -> Form:
    return joined([piece for part in word.parts for piece in pieces(part)])


def pieces(part: tree.Part) -> list[Any]:
    match part:
        case tree.Plain() | tree.Quoted():
            return [part.text]
        case tree.Double():
            return [piece for inner in part.parts for piece in pieces(inner)]
        case tree.ExtGlob():
            return [("pattern", part.kind)]
        case tree.Compound():
            raise IncomparableError("an array in a word")
        case _:
            return [expansion(part)]


def expansion(part: tree.Part) -> Form:
    match part:
        case tree.Parameter():
            inside = [part.index, part.argument, part.replacement]
            op = "/" if part.op.startswith("/") else part.op
            return ("$", part.name, op, tuple(form for word in inside if word for form in expansions(word)))
        case tree.CommandSub():
            return ("$(", our_form(part.body))
        case tree.ProcessSub():
            return (part.direction + "(", our_form(part.body))
        case tree.Arithmetic():
            return ("$((", expansions(part.text))
    raise IncomparableError(str(part))


def expansions(word: tree.Word) -> Form:
    """Return the expansions in a word whose static text the two parsers keep differently."""
    return tuple(piece for piece in word_form(word) if isinstance(piece, tuple) and piece[0] != "pattern")


def joined(parts: list[Any]) -> Form:
    out: list[Any] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        elif part != "":
            out.append(part)
    return tuple(out)


# -- shfmt's --------------------------------------------------------------------------------------------------------


class Theirs:
    def __init__(self, text: str) -> None:
        self.source = text.encode("utf-8", "surrogateescape")

    def statements(self, nodes: Any) -> Form:
        return tuple(self.statement(node) for node in nodes or ())

    def statement(self, node: Any) -> Form:
        inner = self.command(node["Cmd"]) if node.get("Cmd") else ("simple", (), ())
        if node.get("Redirs"):
            inner = ("redirected", inner, tuple(map(self.redirect, node["Redirs"])))
        if node.get("Negated"):
            inner = ("!", inner)
        if node.get("Background"):
            inner = ("background", inner)
        return inner

    def redirect(self, node: Any) -> Form:
        fd = node.get("N", {}).get("Value", "")
        if node["Op"] not in ("<<", "<<-"):
            return (node["Op"], fd, self.word(node["Word"]))
        body = list(self.word(node.get("Hdoc"), None if self.is_quoted(node["Word"]) else "hdoc"))
        if node["Op"] == "<<-":  # shfmt's tree still contains the tabs
            body = [
                re.sub(r"(\n|\A)\t+" if first else r"(\n)\t+", r"\1", each) if isinstance(each, str) else each
                for first, each in zip([True] + [False] * len(body), body, strict=False)
            ]
        return (node["Op"], fd, joined(body))

    def is_quoted(self, word: Any) -> bool:
        raw = self.source[word["Pos"]["Offset"] : word["End"]["Offset"]]
        return any(mark in raw for mark in (b"'", b'"', b"\\"))

    def command(self, node: Any) -> Form:
        method = getattr(self, "_" + node["Type"], None)
        if method is None:
            raise IncomparableError(node["Type"])
        return tuple(method(node))

    def _CallExpr(self, node: Any) -> Form:  # noqa: N802 -- shfmt's names, here and below
        return ("simple", tuple(map(self.assign, node.get("Assigns") or ())), tuple(map(self.word, node.get("Args") or ())))

    def _DeclClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        words: list[Form] = [(node["Variant"]["Value"],)]
        for each in node.get("Args") or ():
            if each.get("Naked"):
                if each.get("Index"):
                    raise IncomparableError("an index without a value")
                words.append((each["Name"]["Value"],) if each.get("Name") else self.word(each["Value"]))
            else:
                words.append(self.assign(each))
        return ("simple", (), tuple(words))

    def assign(self, node: Any) -> Form:
        index = self.inside(node["Index"]) if node.get("Index") else None
        if node.get("Array"):
            items = node["Array"].get("Elems") or ()
            value: Form = (
                "array",
                *((self.inside(each["Index"]) if each.get("Index") else None, self.word(each.get("Value"))) for each in items),
            )
        else:
            value = self.word(node.get("Value"))
        return ("=", node["Name"]["Value"], bool(node.get("Append")), index, value)

    def _BinaryCmd(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        if node["Op"] in ("|", "|&") and (node["Y"].get("Cmd") or {}).get("Type") == "TimeClause":
            raise IncomparableError("time after a pipe: for bash it's a program there")
        return (node["Op"], self.statement(node["X"]), self.statement(node["Y"]))

    def _Block(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        return ("group", self.statements(node.get("Stmts")))

    def _Subshell(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        return ("subshell", self.statements(node.get("Stmts")))

    def _IfClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        branches = []
        while node and node.get("Cond"):
            branches.append((self.statements(node["Cond"]), self.statements(node["Then"])))
            node = node.get("Else")
        return ("if", tuple(branches), self.statements(node["Then"]) if node else ())

    def _WhileClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        return ("until" if node.get("Until") else "while", self.statements(node["Cond"]), self.statements(node["Do"]))

    def _ForClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        loop, body = node["Loop"], self.statements(node["Do"])
        if loop["Type"] == "CStyleLoop":
            return (
                "for((",
                tuple(form for key in ("Init", "Cond", "Post") if loop.get(key) for form in self.inside(loop[key])),
                body,
            )
        words = tuple(map(self.word, loop.get("Items") or ())) if loop.get("InPos", {}).get("Line") else None
        return ("select" if node.get("Select") else "for", loop["Name"]["Value"], words, body)

    def _CaseClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        items = tuple(
            (tuple(map(self.word, each["Patterns"])), self.statements(each.get("Stmts")), each["Op"])
            for each in node.get("Items") or ()
        )
        return ("case", self.word(node["Word"]), items)

    def _FuncDecl(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        if node["Body"]["Cmd"]["Type"] == "BinaryCmd":
            raise IncomparableError("after a function in a pipeline shfmt takes what follows into its body")
        return ("function", node["Name"]["Value"], self.statement(node["Body"]))

    def _ArithmCmd(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        return ("((", self.inside(node.get("X")))

    def _TestClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        return ("[[", tuple(self.test(node["X"])))

    def test(self, node: Any) -> list[Form]:
        match node["Type"]:
            case "BinaryTest":
                return [*self.test(node["X"]), (node["Op"],), *self.test(node["Y"])]
            case "UnaryTest":
                return [(node["Op"],), *self.test(node["X"])]
            case "ParenTest":
                return [("(",), *self.test(node["X"]), (")",)]
        return [self.word(node)]

    def _TimeClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        inner = self.statement(node["Stmt"]) if node.get("Stmt") else ("simple", (), ())
        if inner[0] == "time":
            return inner  # ours is a mark on the pipeline, not a count
        return ("!", ("time", inner[1])) if inner[0] == "!" else ("time", inner)

    def _CoprocClause(self, node: Any) -> Form:  # noqa: N802 - shfmt's own names of node kinds
        if (node["Stmt"].get("Cmd") or {}).get("Type") == "BinaryCmd":
            raise IncomparableError("after a coprocess in a pipeline shfmt takes what follows into its body")
        name = self.word(node["Name"]) if node.get("Name") else ("",)
        return ("coproc", name[0], self.statement(node["Stmt"]))

    # -- words

    def word(self, node: Any, quoted: str | None = "no") -> Form:
        """Return a word's form. ``quoted``: no, double, hdoc; None: no character is special."""
        return joined([piece for part in (node or {}).get("Parts") or () for piece in self.part(part, quoted)])

    def part(self, node: Any, quoted: str | None) -> list[Any]:
        match node["Type"]:
            case "Lit":
                return [unescape(node.get("Value", ""), quoted)]
            case "SglQuoted":
                return [decode(node.get("Value", "")) if node.get("Dollar") else node.get("Value", "")]
            case "DblQuoted":
                return [piece for part in node.get("Parts") or () for piece in self.part(part, "double")]
            case "ParamExp":
                return [self.parameter(node)]
            case "CmdSubst":
                return [("$(", self.statements(node.get("Stmts")))]
            case "ProcSubst":
                return [(node["Op"], self.statements(node.get("Stmts")))]
            case "ArithmExp":
                return [("$((", self.inside(node.get("X")))]
            case "ExtGlob":
                return [("pattern", node["Op"][0])]
        raise IncomparableError(node["Type"])

    def parameter(self, node: Any) -> Form:
        op = "length" if node.get("Length") else ""
        if node.get("Excl"):
            op = "names" if node.get("Names") else "indirect"
        op = ":" if node.get("Slice") else "/" if node.get("Repl") else node["Exp"]["Op"] if node.get("Exp") else op
        index = self.source_of(node["Index"]) if node.get("Index") else ""
        if node.get("Excl") and index in ("@", "*"):
            op = "names"
        keys = [node.get("Index"), node.get("Slice"), node.get("Repl"), (node.get("Exp") or {}).get("Word")]
        inside = tuple(form for each in keys if each for form in self.inside(each))
        return ("$", node["Param"]["Value"], op, inside)

    def source_of(self, node: Any) -> str:
        return "".join(part.get("Value", "") for part in node.get("Parts") or ())

    def inside(self, node: Any) -> Form:
        """Return the expansions in an arithmetic expression or in words, in the order of the source."""
        if isinstance(node, list):
            return tuple(form for each in node for form in self.inside(each))
        if not isinstance(node, dict):
            return ()
        named = node.get("Type") == "ParamExp" and not self.source.startswith(b"$", node["Pos"]["Offset"])  # x[1] in arithmetic
        if node.get("Type") in ("ParamExp", "CmdSubst", "ProcSubst", "ArithmExp") and not named:
            return tuple(self.part(node, "no"))
        found = [
            (each["Pos"]["Offset"] if isinstance(each, dict) and "Pos" in each else 0, self.inside(each))
            for each in node.values()
        ]
        return tuple(form for _, forms in sorted(found, key=lambda pair: pair[0]) for form in forms)


def unescape(text: str, quoted: str | None) -> str:
    if quoted is None:
        return text
    if quoted == "no":
        return re.sub(r"\\(.)", lambda match: "" if match[1] == "\n" else match[1], text, flags=re.DOTALL)
    special = '$`"\\\\\n' if quoted == "double" else "$`\\\\\n"
    return re.sub(rf"\\([{special}])", lambda match: "" if match[1] == "\n" else match[1], text)
