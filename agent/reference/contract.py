"""Pages about the Python interface, generated from the source: signatures, fields with defaults, and docstrings."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import TypeAlias

from agent.reference.page import Page, as_markdown, block, code, doc_of, index, rows

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_WORDS = """\
Everything that a program or a plugin can import, with signatures, fields and defaults. [Errors](../errors.md),
[events](../events.md) and [hooks](../hooks/index.md) have their own pages."""
_KINDS: Mapping[str, tuple[str, str, str]] = {
    "for-agents": (
        "Agent and sessions", "agent.api",
        (
            "agent.api agent.run_stream agent.process agent.conversation.session agent.conversation.state "
            "agent.conversation.limits agent.policy.tool_selection "
            "tools.dispatch.scope toolcrib.contract.records"
        ),
    ),
    "for-interfaces": ("Interfaces", "agent.desk", "agent.desk.request agent.desk.desk agent.desk.approvals"),
    "for-many-sessions": ("Many sessions", "agent.conversation.manager", "agent.conversation.manager agent.conversation.lineage"),
    "for-tools": ("Tools", "toolcrib", "hooks derive registry entry display tool_sources types image effects state"),
    "for-calls": ("Calls and decisions on them", "toolcrib", "context background identity decision after"),
    "for-backends": ("Backends", "toolcrib", "environment terminal containment"),
    "for-backend-programs": ("Backends of programs", "toolcrib.backends", "tools.environments.remote.program"),
    "for-models": ("Model providers", "toolcrib", "session"),
    "for-chats": ("Chat platforms", "toolcrib.chat", "chat"),
    "for-platforms": (
        "Parts of chat platforms", "toolcrib.platforms",
        "toolcrib.platforms toolcrib._bot_platform intake recent dedup trust agent.http_server",
    ),
    "for-tests": (
        "Testing", "toolcrib.testing",
        " ".join(["toolcrib.testing", *(f"toolcrib._testing_{part}" for part in ("desk", "host", "platform", "server"))]),
    ),
}  # fmt: skip
"""A page's name -> its title, the module that users import, and the modules that define its contents."""
_MADE_FOR_YOU = ("Crib", "Session", "ToolCallContext")
"""Classes that callers never instantiate."""
_WIDE = 100
"""Maximum number of characters of a signature in one line."""


def pages() -> Iterator[Page]:
    """Yield an index, and a page for each kind."""
    yield index("reference/python/index", "Python interface", _WORDS, _KINDS)
    for name, (title, imported, written) in _KINDS.items():
        public = import_module(imported).__all__
        found = [
            one
            for module in written.split()
            for one in _module(module if "." in module else f"toolcrib.contract.{module}", public)
        ]
        said = "\n".join(text for named, text in found if named in public)
        shown = [text for named, text in found if named in public or re.search(rf"\b{named}\b", said)]
        begin = [doc_of(import_module(imported)), ""] if imported != "toolcrib" else []
        lines = (f"# {title}", "", f"Import from `{imported}`.", "", *begin, *shown)
        yield Page(f"reference/python/{name}", "\n".join(lines))


def types_in(text: str, up: str) -> str:
    """Return a line of links to the types in a piece of Python, "" for none; ``up`` leads to the reference's folder."""
    where = _places()
    named = [name for name in dict.fromkeys(re.findall(r"\b[A-Z]\w+", text)) if name in where]
    links = ", ".join(f"[{name}]({up}python/{where[name]}.md#{name.lower()})" for name in named)
    return f"Types: {links}." if links else ""


@functools.cache
def _places() -> Mapping[str, str]:
    """Return the page of each class and type."""
    return {
        name: page.path.rpartition("/")[2]
        for page in list(pages())[1:]
        for name in re.findall(r"^## `([A-Z]\w+)`$", page.text, re.MULTILINE)
    }


def _module(name: str, public: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each public item of a module, and of each type alias, which signatures may use."""
    for node, doc in _documented(ast.parse(inspect.getsource(import_module(name))).body):
        match node:
            case ast.ClassDef(name=own) if own in public:
                lines = list(_class(node))
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own) if own in public and "overload" not in _marks(node):
                lines = [block(_call(node), "python"), "", _doc(node), ""]
            case ast.AnnAssign(target=ast.Name(id=own)) if own in public or _type(node.annotation) == "TypeAlias":
                is_alias = _type(node.annotation) == "TypeAlias"
                said = f"{own} = {_type(node.value)}" if is_alias else f"{own}: {_type(node.annotation)}"
                lines = [block(said, "python"), "", as_markdown(doc), ""]
            case ast.Assign(targets=[ast.Name(id=own)]) if own in public:
                lines = [block(ast.unparse(node), "python"), "", as_markdown(doc), ""]
            case _:
                continue
        yield own, "\n".join((f"## {code(own)}", "", *lines))


def _documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield statements, each with the docstring below it."""
    for at, node in enumerate(body):
        match body[at + 1 : at + 2]:
            case [ast.Expr(value=ast.Constant(value=str(doc)))]:
                yield node, doc
            case _:
                yield node, ""


def _class(node: ast.ClassDef) -> Iterator[str]:
    yield from (_doc(node), "")
    fields, members = list[tuple[str, str, str, str]](), list[str]()
    for one, doc in _documented(node.body):
        match one:
            case ast.FunctionDef(name="__init__"):
                if node.name not in _MADE_FOR_YOU:
                    yield from (block(_call(one, node.name), "python"), "")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not name.startswith("_"):
                members.append(_member(node, one))
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                fields.append((code(name), code(_type(one.annotation)), _default(one.value), " ".join(as_markdown(doc).split())))
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                fields.append((code(name), "", _default(one.value), " ".join(as_markdown(doc).split())))
    if fields:
        used = [at for at in range(4) if at == 0 or any(one[at] for one in fields)]
        heads = ("field", "type", "default", "")
        yield from (rows([heads[at] for at in used], [[one[at] for at in used] for one in fields]), "")
    yield from (*members, "")


def _member(owner: ast.ClassDef, node: _Function) -> str:
    marks = _marks(node)
    shown = f"{node.name}: {_type(node.returns)}" if "property" in marks else _call(node, wide=True)
    shown = f"{owner.name}.{shown}" if {"classmethod", "staticmethod"} & marks else shown
    begun = f"- {code(shown)}"
    if len(shown) > _WIDE:
        begun = f"- {code(node.name)}\n\n{textwrap.indent(block(_call(node), 'python'), '  ')}"
    doc = textwrap.indent(_doc(node), "  ")
    return f"{begun}\n\n{doc}\n" if doc else begun


def _call(node: _Function, name: str = "", *, wide: bool = False) -> str:
    """Return the signature of a call: its parameters, without self, and its return type."""
    start = f"{'await ' if isinstance(node, ast.AsyncFunctionDef) else ''}{name or node.name}"
    end = "" if name or node.returns is None else f" -> {_type(node.returns)}"
    given = list(_parameters(node.args))
    line = f"{start}({', '.join(given)}){end}"
    if wide or len(line) <= _WIDE:
        return line
    return "\n".join((f"{start}(", *(f"    {one}," for one in given), f"){end}"))


def _parameters(args: ast.arguments) -> Iterator[str]:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    for at, (one, default) in enumerate(zip(positional, defaults, strict=True)):
        if at or one.arg not in ("self", "cls"):
            yield _parameter(one, default)
        if at + 1 == len(args.posonlyargs) and one.arg not in ("self", "cls"):
            yield "/"
    if args.vararg is not None or args.kwonlyargs:
        yield f"*{_parameter(args.vararg, None) if args.vararg is not None else ''}"
    yield from map(_parameter, args.kwonlyargs, args.kw_defaults)
    if args.kwarg is not None:
        yield f"**{_parameter(args.kwarg, None)}"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_type(one.annotation)}" if one.annotation is not None else ""
    blank = " " if kind else ""
    return f"{one.arg}{kind}" if default is None else f"{one.arg}{kind}{blank}={blank}{_type(default, is_value=True)}"


def _default(node: ast.expr | None) -> str:
    """Return a field's default as it would be written in a call."""
    match node:
        case None:
            return ""
        case ast.Call(func=ast.Name(id="field"), keywords=options):
            given = {one.arg: one.value for one in options}
            if (factory := given.get("default_factory")) is None:
                return _default(given.get("default"))
            return _default(factory.body) if isinstance(factory, ast.Lambda) else code(f"{_type(factory)}()")
        case _:
            return code(_type(node, is_value=True))


def _type(node: ast.expr | None, *, is_value: bool = False) -> str:
    """Return an expression's source, with double quotes; a type without the quotes of a forward reference."""
    if node is None:
        return ""
    if not is_value and isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    text = ast.unparse(node)
    return text if '"' in text else text.replace("'", '"')


def _marks(node: _Function) -> set[str]:
    return {ast.unparse(one) for one in node.decorator_list}


def _doc(node: ast.ClassDef | _Function) -> str:
    return as_markdown(ast.get_docstring(node) or "")
