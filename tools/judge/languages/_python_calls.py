"""Python's attributes and calls: effects by name, methods, functions that are followed."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_builtins import write_to
from tools.judge.languages._python_effects import EFFECTS
from tools.judge.languages._python_expr import Expressions
from tools.judge.languages._python_objects import METHODS, method_of_unknown
from tools.judge.languages._python_own import OwnCode
from tools.judge.languages._python_values import (
    Class,
    Data,
    Either,
    Func,
    Method,
    Name,
    Obj,
    PathThing,
    Scope,
    Thing,
    Unknown,
    either,
    taint_of,
)
from tools.judge.languages._tell import Tell
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

MAX_CALLS_DEEP = 12


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    return any(getattr(one, "id", "") == "staticmethod" for one in getattr(node, "decorator_list", ()))


class Calls(Expressions):
    def __init__(self, tell: Tell, args: Sequence[Value], taint: Taint, path: str, chars: int) -> None:
        super().__init__(tell, chars, args, taint, path)
        self.stack: list[ast.AST] = []
        self.returns: list[Thing] = []
        self.pending: list[Obj] = []
        """Programs that were started with a pipe as their input, of which nothing has been reported yet."""
        self.own = OwnCode(tell, bool(path))

    def evaluate(self, source: Thing, want: bool = False) -> Thing:
        raise NotImplementedError

    def module(self, name: str) -> Thing:
        raise NotImplementedError

    def block(self, body: Sequence[ast.stmt]) -> bool:
        raise NotImplementedError

    # -- attributes and calls ------------------------------------------------------------------------------------

    def attribute(self, owner: Thing, name: str) -> Thing:
        if isinstance(owner, Name):
            self.own.attribute(owner.path, name)
            if owner.path == "os" and name in ("environ", "environb"):
                return Obj("environ", None, taint=Taint.SECRET)
            return self.of_name(owner.path, name)
        if isinstance(owner, Obj):
            if name in owner.fields:
                return owner.fields[name]
            if owner.kind == "popen" and name in ("stdin", "stdout", "stderr"):
                return owner
            found = owner.cls.find(name) if owner.cls is not None else None
            if isinstance(found, Func) and _is_static(found.node):
                return found
            return Func(found.node, found.scope, owner) if isinstance(found, Func) else (found or Method(owner, name))
        if isinstance(owner, Class):
            found = owner.find(name)
            return found if found is not None else Method(owner, name)
        if isinstance(owner, PathThing):
            found = pure.path_attribute(owner.value, name)
            return Method(owner, name) if found is NotImplemented else found
        if isinstance(owner, Unknown) and (owner.kind == "dunder" or name in ("__globals__", "__subclasses__", "__builtins__")):
            return Unknown(kind="dunder")
        if name in ("__class__", "__globals__", "__subclasses__", "__mro__", "__base__", "__bases__"):
            return Unknown(kind="dunder")
        return Method(owner, name)

    def call(self, function: Thing, args: list[Thing], named: dict[str, Thing]) -> Thing:
        if isinstance(function, Name):
            effect = EFFECTS.get(function.path)
            if effect is not None:
                return effect(self, args, named)
            return self._unknown_name(function.path, args, named)
        if isinstance(function, Method):
            return self._method(function, args, named)
        if isinstance(function, Func):
            return self._inline(function, args, named)
        if isinstance(function, Class):
            return self._instance(function, args, named)
        if isinstance(function, Either):
            return either([self.call(one, args, named) for one in function.options])
        if isinstance(function, Obj) and function.cls is not None and isinstance(found := function.cls.find("__call__"), Func):
            return self._inline(Func(found.node, found.scope, function), args, named)
        if isinstance(function, Obj) and function.kind == "partial":
            return self.call(
                function.fields["function"], [*function.fields["args"], *args], {**function.fields["named"], **named}
            )
        self.callbacks(args, named)
        return Unknown(taint_of([function, *args]) | Taint.UNKNOWN, function.kind if isinstance(function, Unknown) else "")

    def _unknown_name(self, path: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
        head, _, last = path.rpartition(".")
        if HOLE in path:
            effect = EFFECTS.get(f"os.{last}") or EFFECTS.get(f"subprocess.{last}") or EFFECTS.get(f"shutil.{last}")
            if HOLE in head and effect is not None:
                return effect(self, args, named)
            if HOLE in last and (head in ("os", "subprocess", "shutil", "builtins") or HOLE in head):
                self.tell.code("python", Value(f"{path}(...)", Taint.UNKNOWN))
        self.callbacks(args, named)
        if head and path not in EFFECTS:
            return method_of_unknown(self, Name(head), last, args, named)
        return Unknown(taint_of([*args, *named.values()]) | Taint.UNKNOWN)

    def _method(self, method: Method, args: list[Thing], named: dict[str, Thing]) -> Thing:
        owner, name = method
        if isinstance(owner, Value):
            if name in ("execute", "executescript"):
                return Unknown()
            return pure.text_method(owner, name, args, named)
        if isinstance(owner, Data):
            return pure.data_method(owner, name, args)
        kind = owner.kind if isinstance(owner, Obj) else "path" if isinstance(owner, PathThing) else type(owner).__name__
        handler = METHODS.get((kind, name)) or METHODS.get((kind, "*"))
        if handler is not None:
            return handler(self, owner, name, args, named)
        self.callbacks(args, named)
        return method_of_unknown(self, owner, name, args, named)

    def callbacks(self, args: list[Thing], named: dict[str, Thing]) -> None:
        """Functions that are handed to something unknown may be called by it, open files written."""
        for thing in [*args, *named.values()]:
            if isinstance(thing, Obj) and thing.kind == "file":
                write_to(self, thing, ANYTHING)
            elif isinstance(thing, Func):
                count = len(thing.node.args.args)
                self.call(thing, [Unknown() for _ in range(count)], {})
            elif (
                isinstance(thing, Name)
                and thing.path in EFFECTS
                and thing.path.partition(".")[0] in ("os", "shutil", "subprocess")
            ):
                self.call(thing, [Unknown()], {})

    def _instance(self, cls: Class, args: list[Thing], named: dict[str, Thing]) -> Thing:
        made = Obj("instance", cls)
        for name, thing in list(cls.scope.names.items()):
            if isinstance(thing, Func) and name.startswith("__") and name in ("__init__", "__post_init__", "__del__", "__new__"):
                given = args if name in ("__init__", "__new__") else []
                self._inline(Func(thing.node, thing.scope, made), given, named if given is args else {})
        if "__init__" not in cls.scope.names and isinstance(found := cls.find("__init__"), Func):
            self._inline(Func(found.node, found.scope, made), args, named)
        return made

    def _inline(self, function: Func, args: list[Thing], named: dict[str, Thing]) -> Thing:
        node = function.node
        if node in self.stack or len(self.stack) >= MAX_CALLS_DEEP:
            if node in self.stack and self.forks:
                self.tell.forkbomb()
            return Unknown(taint_of(args) | Taint.UNKNOWN)
        scope = Scope(function.scope)
        self._bind(node.args, scope, [function.first, *args] if function.first is not None else args, named)
        outer, self.scope = self.scope, scope
        returns, self.returns = self.returns, []
        self.stack.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return self.expr(node.body)
            self.block(node.body)
            return either(self.returns) if self.returns else None
        finally:
            self.stack.pop()
            self.scope = outer
            self.returns = returns

    def _bind(self, spec: ast.arguments, scope: Scope, args: list[Thing], named: dict[str, Thing]) -> None:
        names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
        for name, default in zip(reversed(names), reversed(spec.defaults), strict=False):
            scope.names[name] = self.expr(default)
        for one, standard in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            scope.names[one.arg] = self.expr(standard) if standard is not None else Unknown()
        for name in names:
            scope.names.setdefault(name, Unknown())
        scope.names.update(zip(names, args, strict=False))
        scope.names.update(named)
        if spec.vararg is not None:
            scope.names[spec.vararg.arg] = list(args[len(names) :])
        if spec.kwarg is not None:
            scope.names[spec.kwarg.arg] = {key: value for key, value in named.items() if key not in names}
