"""Python source: its ``ast`` is read in order, bodies of loops at most a few times; values built in simple ways are known.

The body of a function is read once, at its definition. If the function has a single call, the constants in that call are known.
Other values are unknown; a program that may hide something in them is opaque, so the user is asked about it.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Sequence
from typing import Any

from toolcrib.contract.regex import Regex
from tools.judge.languages._python_effects import FIXTURE, PACKAGE, acts, canonical, content, is_risky
from tools.judge.languages._python_imports import PythonImports
from tools.judge.languages._tell import Tell, TooMuch, join
from tools.judge.languages._things import (
    HOLE_NAME,
    Many,
    Name,
    OwnFunction,
    Thing,
    Written,
    computed,
    elements,
    is_known,
    of_path,
    one_of,
    operate,
    parse,
    plain,
    taint_of,
    text,
    text_method,
    unknown,
)  # fmt: skip
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

MAX_STEPS = 20_000
_ENCODING = Regex(r"(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=](?![ \t]*(?i:utf-?8|(?:us-)?ascii|latin-?1)\b)")
"""A comment that names an encoding other than utf-8, ascii and latin-1. In some of these, such as utf-7, text that looks like a
comment may be code.
"""
_INNER = frozenset(
    "__globals__ __builtins__ __subclasses__ __code__ __dict__ __getattribute__ __bases__ __base__ __mro__ __loader__ __spec__"
    " __self__ __func__ __closure__ f_globals f_locals f_back tb_frame gi_frame".split()
)
"""Attributes that let a program reach objects without naming them."""
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
"""Statements whose assignments are uncertain afterwards."""
_WAITS = frozenset(
    "Break Return Raise sleep accept wait recv read readline get input select poll communicate join send exit".split()
)
_COUNTS = frozenset("print range len enumerate int round float zip isinstance time datetime date random uuid".split())
"""Functions and modules whose results can't contain text that the source hides."""
_DECODES = Regex(r"decode|decompress|unhex|a2b_|fromhex")
_INSTALLED = sys.stdlib_module_names | {"toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins"}
_SENDS = frozenset({".send", ".sendall", ".post", ".put"})


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    source = code.text.text
    tree = parse(source)
    if tree is None or (code.source != "argument" and _ENCODING.match(source) is not None):
        return False
    reader = PythonReader(Tell(sink), args, code.path, MAX_STEPS + 4 * len(source))
    try:
        reader.run(tree)
    except (TooMuch, RecursionError, MemoryError):
        reader.hide()
    reader.tell.flush()
    return not reader.opaque


class PythonReader(PythonImports):
    """Reads one program; make a new reader for each. Methods named after a class of ``ast`` read its nodes."""

    def __init__(self, tell: Tell, args: Sequence[Value], path: str, steps: int) -> None:
        self.tell, self.path, self.steps = tell, path, steps
        self.names: dict[str, Thing] = {"__file__": Value(path or HOLE)}
        """Values by name. ``.name`` is an attribute of any object that the program defines."""
        self.fixed: dict[str, Thing] = {
            "sys.argv": [Value(path or "-c"), *args],
            "sys.executable": Value("python3"),
            "__file__": PACKAGE,
        }
        self.calls: dict[str, list[ast.Call]] = {}
        self.returns: list[Thing] = []
        self.inside = ""
        """The class whose body is being read."""

    def run(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self.calls.setdefault(getattr(node.func, "attr", getattr(node.func, "id", "")), []).append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                top = getattr(node, "module", None)  # even if it is unknown whether the import is reached
                self.report_imports(*[top] if top else [], *(f"{top}.{one.name}" if top else one.name for one in node.names))
        self.read(tree)

    def read(self, node: ast.AST) -> Thing:
        """Read a statement or an expression; if it has no method here, read its parts."""
        self.steps -= 1
        if self.steps < 0:
            raise TooMuch("steps")
        self.unsure += isinstance(node, _BRANCHES)
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        found = method(node) if method is not None else self.mixed([self.read(one) for one in ast.iter_child_nodes(node)])
        self.unsure -= isinstance(node, _BRANCHES)
        return found

    def block(self, body: Sequence[ast.AST]) -> None:
        for node in body:
            self.read(node)

    def mixed(self, things: Sequence[Thing]) -> Value:
        """Return a thing made of ``things``. A function with effects among them may be called later, so the program is opaque."""
        self.opaque |= any(map(acts, things))
        return computed(*things)

    # -- statements -----------------------------------------------------------------------------------------------

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Name) and HOLE_NAME in node.value.id:
            self.tell.code("python", ANYTHING)
        self.read(node.value)

    def _assign(self, node: Any) -> Thing:
        """Read ``name = value`` in all its forms."""
        value = node.context_expr if isinstance(node, ast.withitem) else node.value
        self.annotated(getattr(node, "annotation", None))
        thing = self.read(value) if value is not None else ANYTHING
        for target in getattr(node, "targets", None) or [getattr(node, "target", None) or getattr(node, "optional_vars", None)]:
            if target is not None:
                self.assign(target, thing)
        return thing if isinstance(node, ast.NamedExpr) else None

    _annassign = _namedexpr = _withitem = _assign

    def _augassign(self, node: ast.AugAssign) -> None:
        self.assign(node.target, operate(node.op, self.read(node.target), self.read(node.value)))

    def annotated(self, *annotations: ast.expr | None) -> None:
        """Read the calls in annotations; the types in them have no effects."""
        for part in (part for one in annotations if one is not None for part in ast.walk(one)):
            if isinstance(part, ast.Call):
                self.read(part)

    def assign(self, target: Any, thing: Thing) -> None:
        owner = self.read(target.value) if isinstance(target, ast.Attribute | ast.Subscript) else None
        library = owner.path if isinstance(owner, Name) and owner.owner is None else ""
        match target:
            case ast.Name():
                self.let(target.id, thing)
            case ast.Tuple() | ast.List():
                found = elements(thing)
                exact = type(found) is list and len(found) == len(target.elts)
                for at, one in enumerate(target.elts):
                    if isinstance(one, ast.Starred):
                        self.assign(one.value, Many(found))
                    else:
                        self.assign(one, found[at] if exact else unknown(taint_of(thing)))
            case ast.Attribute():
                self.opaque |= target.attr in _INNER or acts(thing) or (library != "" and is_risky(f"{library}.{target.attr}"))
                self.let(f".{target.attr}", thing)
            case ast.Subscript():
                key = plain(self.read(target.slice))
                if library == "os.environ" and isinstance(key, str):
                    self.tell.environment[key] = text(thing)
                elif isinstance(owner, dict):
                    owner[key] = one_of([owner.get(key, thing), thing])
                self.opaque |= acts(thing) or library not in ("", "os.environ")

    def let(self, name: str, thing: Thing) -> None:
        old = self.names.get(name, thing) if self.unsure else thing
        either = isinstance(old, Name) and isinstance(thing, Name) and not acts(old) and not acts(thing)
        self.names[name] = thing if either else one_of([old, thing])

    def evaluate(self, source: Value) -> Thing:
        """Read ``source`` as ``eval`` or ``exec`` would run it; report it as code if it is not known."""
        tree = parse(source.text.strip()) if is_known(source) and not source.taint & (Taint.DECODED | Taint.REMOTE) else None
        self.run(tree) if tree is not None else self.tell.code("python", source)
        return unknown(source.taint)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Thing:
        """Read a function at its definition. Its arguments are unknown, except the constants of a single call."""
        name, spec = getattr(node, "name", "lambda"), node.args
        decorators, defaults = getattr(node, "decorator_list", ()), [*spec.defaults, *filter(None, spec.kw_defaults)]
        self.mixed([self.read(one) for one in (*decorators, *defaults)])
        self.annotated(*(one.annotation for one in ast.walk(spec) if isinstance(one, ast.arg)), getattr(node, "returns", None))
        late = self.late or bool(decorators)
        sites = self.calls.get(self.inside if name == "__init__" else name, [])
        hidden = unknown(Taint.COMPUTED if sites or defaults else Taint.NONE)
        outer, returns, self.returns = self.names, self.returns, []
        self.names = {**outer, **{one.arg: hidden for one in ast.walk(spec) if isinstance(one, ast.arg)}}
        self.names.update({one: FIXTURE for one in ("tmp_path", "tmpdir") if one in self.names})
        if len(sites) == 1 and not sites[0].keywords:
            params = [one.arg for one in spec.args if one.arg not in ("self", "cls")]
            self.names.update(
                {
                    one: self.read(given)
                    for one, given in zip(params, sites[0].args, strict=False)
                    if isinstance(given, ast.Constant)
                }
            )
        self.late = True
        self.block(node.body if isinstance(node.body, list) else [ast.Return(node.body)])
        self.late = late
        shared = {one for part in ast.walk(node) if isinstance(part, ast.Global) for one in part.names}
        outer.update({one: thing for one, thing in self.names.items() if one[0] == "." or one in shared})
        result = OwnFunction(one_of(self.returns) if self.returns else None)
        self.names, self.returns = {**outer, name: result}, returns
        return result

    _asyncfunctiondef = _lambda = _functiondef

    def _return(self, node: ast.Return | ast.Yield) -> Thing:
        self.returns.append(self.read(node.value) if node.value is not None else None)
        return ANYTHING

    _yield = _return

    def _classdef(self, node: ast.ClassDef) -> None:
        self.mixed([self.read(one) for one in (*node.bases, *(one.value for one in node.keywords), *node.decorator_list)])
        outer, around, self.inside = dict(self.names), self.inside, node.name
        self.block(node.body)
        inner, self.names, self.inside = self.names, outer, around
        self.names.update({f".{name.lstrip('.')}": thing for name, thing in inner.items() if outer.get(name) is not thing})
        self.late = self.late or bool(node.bases or node.keywords or node.decorator_list)
        self.let(node.name, OwnFunction(ANYTHING))

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        found = elements(self.read(node.iter))
        self.late = True
        for one in [*found, *found] if type(found) is Many else found:
            around, self.unsure = self.unsure, 0
            self.assign(node.target, one)
            self.unsure = around
            self.block(node.body)
        self.block(node.orelse)

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        inside = {getattr(one, "attr", getattr(one, "id", type(one).__name__)) for one in ast.walk(node)}
        if isinstance(node.test, ast.Constant) and not inside & _WAITS:
            self.hide()  # it may fill memory, or start processes forever
        self.late = True
        self.block([node.test, *node.body, *node.body, *node.orelse])

    # -- expressions ----------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Thing:
        given = node.value.decode("utf-8", "surrogateescape") if isinstance(node.value, bytes) else node.value
        if not isinstance(given, str):
            return given if isinstance(given, int | float | None) else ANYTHING
        shown = given.replace(HOLE_NAME, HOLE)
        return Value(shown, Taint.UNKNOWN if HOLE in shown else Taint.NONE)

    def _name(self, node: ast.Name) -> Thing:
        return self.names.get(node.id, Name(node.id) if hasattr(builtins, node.id) else ANYTHING)

    def _joinedstr(self, node: ast.JoinedStr) -> Thing:
        return join([text(self.read(one)) for one in node.values])

    def _formattedvalue(self, node: ast.FormattedValue) -> Thing:
        found = self.read(node.value)
        return computed(found, self.read(node.format_spec)) if node.format_spec else text(found)

    def _ifexp(self, node: ast.IfExp) -> Thing:
        self.read(node.test)
        return one_of([self.read(node.body), self.read(node.orelse)])

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Thing:
        found = [self.read(one) for one in node.elts]
        self.mixed(found)
        return Many(found) if any(isinstance(one, ast.Starred) for one in node.elts) else found

    _tuple = _set = _list

    def _dict(self, node: ast.Dict) -> Thing:
        found = {
            plain(self.read(key)) if key else None: self.read(value) for key, value in zip(node.keys, node.values, strict=True)
        }
        self.mixed([*found.values()])
        return found

    def _unaryop(self, node: ast.UnaryOp) -> Thing:
        thing = self.read(node.operand)
        return -thing if isinstance(node.op, ast.USub) and isinstance(thing, int | float) else computed(thing)

    def _binop(self, node: ast.BinOp) -> Thing:
        self.late = self.late or isinstance(node.op, ast.Pow)
        return operate(node.op, self.read(node.left), self.read(node.right))

    def _subscript(self, node: ast.Subscript) -> Thing:
        owner, key = self.read(node.value), plain(self.read(node.slice))
        if isinstance(owner, Name) and owner.path == "os.environ":
            return self.effect("os.getenv", [Value(key) if isinstance(key, str) else ANYTHING], {})
        if isinstance(owner, Name) and owner.owner is None:
            return self.module(key) if owner.path == "sys.modules" and isinstance(key, str) else unknown()
        if isinstance(owner, list) and isinstance(node.slice, ast.Slice):
            return Many(owner)
        if isinstance(owner, list):
            exact = type(owner) is list and isinstance(key, int) and -len(owner) <= key < len(owner)
            return owner[key] if exact else one_of(owner)
        return owner[key] if isinstance(owner, dict) and key in owner else computed(owner)

    def _listcomp(self, node: Any) -> Thing:
        self.late = True
        for source in node.generators:
            self.assign(source.target, one_of(elements(self.read(source.iter))))
            self.block(source.ifs)
        found = [self.read(node.value if isinstance(node, ast.DictComp) else node.elt)]
        self.mixed(found)
        return Many(found)

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _attribute(self, node: ast.Attribute) -> Thing:
        return self.attribute(self.read(node.value), node.attr)

    def attribute(self, owner: Thing, name: str) -> Thing:
        if name in _INNER:
            return self.hide()
        if isinstance(owner, Name) and owner.owner is None:
            self.report_imports(f"{owner.path}.{name}")
            self.late = self.late or f"{owner.path}.__getattr__" in self.names
            full = canonical(f"{owner.path}.{name}")
            if name == "__file__":
                return PACKAGE if owner.path.partition(".")[0] in _INSTALLED else Value(f"{owner.path}/x.py")
            return self.fixed.get(full, self.names.get(full, Name(full)))
        if name.startswith("st_"):  # a number
            return computed(owner)
        if isinstance(owner, Value) and name in ("parent", "name", "stem", "suffix") and owner.text != HOLE:
            return of_path(owner, name)
        return self.names.get(f".{name}", Name(f".{name}", owner))

    def _call(self, node: ast.Call) -> Thing:
        function = self.read(node.func)
        args: list[Thing] = []
        for one in node.args:
            args += elements(self.read(one.value)) if isinstance(one, ast.Starred) else [self.read(one)]
        named: dict[str, Thing] = {one.arg or "**": self.read(one.value) for one in node.keywords}
        named.update(named["**"] if isinstance(named.get("**"), dict) else {})
        self.called(function)
        if not isinstance(function, Name):
            self.mixed([*args, *named.values()])
            return function.result if isinstance(function, OwnFunction) else computed(function, *args, *named.values())
        owner, path = function.owner, function.path
        given = args if owner is None else [owner, *args]
        for one in (*given, *named.values()) if path not in (".close", ".flush") else ():
            if isinstance(one, Written):
                self.tell.reopen(one.number, one.path)
                others = [other for other in given if other is not one] or [ANYTHING]
                others = [self.tell.read(self.place(others[0]))] if one.packs and path in (".write", ".add") else others
                self.tell.more(one.number, content(*others))
        if path in _SENDS and taint_of(*args, *named.values()) & Taint.SECRET:
            self.tell.send(content(*args), unknown())
        found = self.effect(path, given, named)
        return self._result(function, given, named) if found is NotImplemented else found

    def _result(self, function: Name, given: list[Thing], named: dict[str, Thing]) -> Thing:
        """Return the result of a function that is in no table."""
        owner, path = function.owner, function.path
        if owner is None and is_risky(path):
            return self.hide()
        if owner is None and _DECODES.search(path):
            return unknown(taint_of(*given) | Taint.DECODED)
        if {*path.split(".")} & _COUNTS:
            return unknown(taint_of(*given) & ~Taint.COMPUTED)
        made = self.mixed([*given, *named.values()])
        if isinstance(owner, list) and path in (".append", ".extend", ".insert", ".add", ".update") and len(given) > 1:
            owner += elements(given[-1]) if path in (".extend", ".update") else given[-1:]
        return text_method(owner, path[1:], given[1:]) if isinstance(owner, Value) else made
