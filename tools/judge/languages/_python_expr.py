"""Python's expressions, evaluated abstractly."""

from __future__ import annotations

import ast
import stat as stat_module
import sys
from collections.abc import Callable, Sequence

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_operators import Operators
from tools.judge.languages._python_values import (
    PACKAGES,
    Data,
    Either,
    Func,
    ManyThings,
    Name,
    Obj,
    Scope,
    Thing,
    Unknown,
    either,
    taint_of,
    text,
)
from tools.judge.languages._tell import Tell, TooMuch, join
from tools.judge.meaning.value import HOLE, Taint, Value

HOLE_NAME = "_unknown_hole_"
"""Identifier that replaces a HOLE where a name may stand."""

_OURS = frozenset({"toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins"})

MAX_STEPS = 20_000
MAX_DEPTH = 120
MAX_TURNS = 1_024
MAX_TEXT = 200_000

_ALIASES = {
    "posix": "os",
    "nt": "os",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "_io": "io",
    "_socket": "socket",
    "_posixsubprocess": "subprocess",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "dill": "pickle",
    "cloudpickle": "pickle",
    "commands": "subprocess",
    "subprocess32": "subprocess",
    "urllib2": "urllib.request",
    "urllib3.request": "urllib.request",
    "pathlib2": "pathlib",
    "multiprocess": "multiprocessing",
    "io.open": "open",
    "codecs.open": "open",
    "os.fdopen": "open",
    "io.BytesIO": "io.StringIO",
}
_MODULES_IN_MODULES = frozenset({"os", "sys", "subprocess", "shutil", "socket", "builtins", "io", "_os", "posix"})


def canonical(path: str) -> str:
    """Return the canonical name of an object that goes by several."""
    if path in _ALIASES:
        return _ALIASES[path]
    head, dot, rest = path.partition(".")
    if head in ("builtins", "__builtins__", "__builtin__", "six") and dot and not rest.startswith("moves"):
        return canonical(rest)
    if head in _ALIASES and dot:
        return canonical(f"{_ALIASES[head]}.{rest}")
    return path


class Expressions(Operators):
    """The evaluator's state, and expressions; statements and functions are added by Machine."""

    def __init__(self, tell: Tell, chars: int, args: Sequence[Value], taint: Taint, path: str) -> None:
        self.tell = tell
        self.taint = taint
        self.scope = Scope()
        self.steps = MAX_STEPS + 4 * chars
        self.depth = 0
        self.turns = MAX_TURNS
        self.argv: list[Thing] = [Value(path or "-c"), *args]
        self.forks = 0
        self._table: dict[type[ast.expr], Callable[[Thing], Thing]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.BinOp: self._binary,
            ast.JoinedStr: self._joined,
            ast.FormattedValue: lambda node: text(self.expr(node.value)),
            ast.List: lambda node: self._items(node.elts),
            ast.Tuple: lambda node: tuple(self._items(node.elts)),
            ast.Set: lambda node: self._items(node.elts),
            ast.Dict: self._dict,
            ast.Subscript: self._subscript,
            ast.Slice: self._slice,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._boolean,
            ast.Compare: self._compare,
            ast.IfExp: self._choice,
            ast.Lambda: lambda node: Func(node, self.scope),
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.NamedExpr: self._walrus,
            ast.Await: lambda node: self.expr(node.value),
            ast.Starred: lambda node: self.expr(node.value),
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
        }

    def expr(self, node: ast.expr) -> Thing:
        self.steps -= 1
        self.depth += 1
        if self.steps < 0 or self.depth > MAX_DEPTH:
            raise TooMuch("steps" if self.steps < 0 else "depth")
        try:
            method = self._table.get(type(node))
            return method(node) if method is not None else Unknown()
        finally:
            self.depth -= 1

    def call(self, function: Thing, args: list[Thing], named: dict[str, Thing]) -> Thing:
        raise NotImplementedError

    def attribute(self, owner: Thing, name: str) -> Thing:
        raise NotImplementedError

    def assign(self, target: ast.expr, thing: Thing) -> None:
        raise NotImplementedError

    # -- atoms ---------------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Thing:
        value = node.value
        if isinstance(value, str):
            if HOLE_NAME in value:
                value = value.replace(HOLE_NAME, HOLE)
            return Value(value, Taint.UNKNOWN if HOLE in value else Taint.NONE)
        if isinstance(value, bytes):
            if HOLE_NAME.encode() in value:
                return Value(HOLE, Taint.UNKNOWN)
            return Data(value)
        return value if value is None or isinstance(value, bool | int | float) else Unknown(Taint.NONE)

    def _name(self, node: ast.Name) -> Thing:
        name = node.id
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        if HOLE_NAME in name:
            return Unknown()
        if name == "__name__":
            return Value("__main__")
        if name == "__file__":
            return self.argv[0]
        return Name(_ALIASES.get(name, name))

    def _attribute(self, node: ast.Attribute) -> Thing:
        owner = self.expr(node.value)
        if isinstance(owner, Either):
            return either([self.attribute(one, node.attr) for one in owner.options])
        return self.attribute(owner, node.attr)

    def of_name(self, path: str, attr: str) -> Thing:
        """An attribute of something imported."""
        if attr == "__dict__":
            return Name(path)
        if attr in _MODULES_IN_MODULES and path not in (attr, "os", "multiprocessing") and path.islower():
            return Name(canonical(attr.removeprefix("_")))
        full = canonical(f"{path}.{attr}")
        if path == "sys":
            if attr == "argv":
                return self.argv
            if attr == "executable":
                return Value("python3")
        elif path == "signal" and attr.startswith("SIG"):
            return Value(attr)
        elif path == "stat" and isinstance(known := getattr(stat_module, attr, None), int):
            return known
        elif path == "string" or (path == "os" and attr in ("sep", "linesep", "curdir", "pardir", "devnull", "name")):
            return pure.constant(full)
        if attr == "__file__" and (path in sys.stdlib_module_names or path.partition(".")[0] in _OURS):
            return PACKAGES._replace(text=f"{PACKAGES.text}/{path.replace('.', '/')}.py")
        if attr.startswith("__") and attr in (
            "__subclasses__",
            "__globals__",
            "__builtins__",
            "__class__",
            "__mro__",
            "__base__",
        ):
            return Name("builtins") if attr == "__builtins__" else Unknown(kind="dunder")
        return Name(full)

    # -- compounds -----------------------------------------------------------------------------------------------

    def _items(self, nodes: Sequence[ast.expr]) -> list[Thing]:
        found: list[Thing] = []
        for node in nodes:
            thing = self.expr(node)
            if isinstance(node, ast.Starred):
                items = pure.items(thing)
                found += items if items is not None else [Unknown(taint_of(thing) | Taint.UNKNOWN)]
            else:
                found.append(thing)
        return found

    def _dict(self, node: ast.Dict) -> Thing:
        found: dict[Thing, Thing] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            thing = self.expr(value)
            if key is None:
                if isinstance(thing, dict):
                    found.update(thing)
                elif isinstance(thing, Obj) and thing.kind == "environ":
                    found[Value(HOLE, Taint.SECRET)] = Value(HOLE, Taint.SECRET)
                continue
            found[pure.key(self.expr(key))] = thing
        return found

    def _joined(self, node: ast.JoinedStr) -> Thing:
        parts: list[Thing] = []
        for part in node.values:
            thing = self.expr(part)
            shown = thing if not isinstance(part, ast.FormattedValue) else self._formatted(part, thing)
            parts.append(shown)
        return self.spread(lambda *given: join([text(one) for one in given]), parts)

    def _formatted(self, node: ast.FormattedValue, shown: Thing) -> Thing:
        thing = self.expr(node.value) if not isinstance(shown, Value) or node.format_spec is not None else shown
        if node.format_spec is None or isinstance(thing, Either):
            return thing if isinstance(thing, Either) else text(thing)
        return pure.formatted(thing, text(self.expr(node.format_spec)).text)

    def _subscript(self, node: ast.Subscript) -> Thing:
        owner, index = self.expr(node.value), self.expr(node.slice)
        return self.spread(self.item, [owner, index])

    def item(self, owner: Thing, index: Thing) -> Thing:
        """``owner[index]``."""
        key = pure.key(index)
        if isinstance(owner, Name | Obj) or (isinstance(owner, Unknown) and owner.kind == "dunder"):
            return self._table_item(owner, key)
        if isinstance(owner, dict):
            if key in owner:
                return owner[key]
            return either([*owner.values(), Unknown()]) if isinstance(key, Unknown) else Unknown(taint_of(owner) | Taint.UNKNOWN)
        found = pure.index(owner, index)
        return Unknown(taint_of(owner) | Taint.UNKNOWN) if found is NotImplemented else found

    def _table_item(self, owner: Thing, key: Thing) -> Thing:
        name = key if isinstance(key, str) else None
        if isinstance(owner, Obj):
            if owner.kind == "environ":
                return pure.variable(name)
            if owner.kind == "scope":
                found = owner.fields["scope"].find(name) if name else None
                return found if found is not None else (Name(canonical(name)) if name else Unknown(kind="dunder"))
            if owner.kind == "popen" or name is None:
                return Unknown(taint_of(owner) | Taint.UNKNOWN)
            return owner.fields.get(name, Unknown(taint_of(owner) | Taint.UNKNOWN))
        if isinstance(owner, Unknown):
            known = name in ("system", "popen", "execv", "spawnlp")
            return (Name(f"os.{name}") if known else Name(canonical(name))) if name else owner
        if owner.path == "sys.modules":
            return Name(canonical(name)) if name else Name(HOLE)
        return self.of_name(owner.path, name) if name else Name(f"{owner.path}.{HOLE}")

    def _slice(self, node: ast.Slice) -> Thing:
        parts = [self.expr(one) if one is not None else None for one in (node.lower, node.upper, node.step)]
        if all(one is None or isinstance(one, int) for one in parts) and parts[2] != 0:
            return slice(*parts)
        return Unknown()

    def _walrus(self, node: ast.NamedExpr) -> Thing:
        thing = self.expr(node.value)
        self.assign(node.target, thing)
        return thing

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Thing:
        if node.value is not None:
            self.expr(node.value)
        return Unknown()

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Thing:
        function = self.expr(node.func)
        args = self._items(node.args)
        named: dict[str, Thing] = {}
        for keyword in node.keywords:
            thing = self.expr(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = thing
            elif isinstance(thing, dict):
                named.update({key: value for key, value in thing.items() if isinstance(key, str)})
        things = [function, *args]
        if any(isinstance(one, Either) for one in things):
            return self.spread(lambda called, *given: self.call(called, list(given), named), things)
        return self.call(function, args, named)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Thing:
        found: list[Thing] = []
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            known = self._generate(node, node.generators, found)
        finally:
            self.scope = outer
        if isinstance(node, ast.DictComp):
            return {pure.key(pair[0]): pair[1] for pair in found} if known else Unknown()
        return found if known else ManyThings(either(found or [Unknown()]))

    def _generate(self, node: ast.expr, generators: list[ast.comprehension], found: list[Thing]) -> bool:
        """Add the comprehension's elements to ``found``; return whether all of them are known, one by one."""
        if not generators:
            if isinstance(node, ast.DictComp):
                found.append((self.expr(node.key), self.expr(node.value)))
            else:
                found.append(self.expr(node.elt))  # type: ignore[attr-defined] # the other comprehensions all have it
            return True
        generator, rest = generators[0], generators[1:]
        source = self.expr(generator.iter)
        turns = self.turns_of(source)
        known = turns is not None
        for thing in turns if turns is not None else [pure.element(source)]:
            self.assign(generator.target, thing)
            truths = [pure.truth(self.expr(test)) for test in generator.ifs]
            if False in truths:
                continue
            known = self._generate(node, rest, found) and None not in truths and known
        return known

    def turns_of(self, source: Thing) -> list[Thing] | None:
        """The elements to go through one by one; None where they are unknown or too many."""
        items = pure.items(source)
        if items is None or len(items) > self.turns:
            return None
        self.turns -= len(items)
        return items
