"""Python's statements and functions, followed abstractly."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_calls import Calls
from tools.judge.languages._python_effects import EFFECTS
from tools.judge.languages._python_expr import HOLE_NAME, canonical
from tools.judge.languages._python_loops import hoards
from tools.judge.languages._python_own import MENTIONS
from tools.judge.languages._python_values import (
    Class,
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
from tools.judge.languages._tell import Tell, TooMuch
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

MAX_EVALS_DEEP = 6
MAX_WHILE = 300

Parse = Callable[[str], ast.Module | None]

_BRAKES = frozenset({"accept", "wait", "waitpid", "sleep", "recv", "select", "poll", "join", "_exit", "exit", "execv", "execvp"})


class Machine(Calls):
    def __init__(self, tell: Tell, parse: Parse, args: Sequence[Value], taint: Taint, path: str, chars: int) -> None:
        super().__init__(tell, args, taint, path, chars)
        self.parse = parse
        self.folder = path.rpartition("/")[0] + "/" * ("/" in path)
        self.evals = 0
        self.loaded: dict[str, Thing] = {}
        self._statements: dict[type[ast.stmt], Callable[[Thing], bool]] = {
            ast.Expr: self._expression,
            ast.Assign: self._assignment,
            ast.AugAssign: self._augmented,
            ast.AnnAssign: self._annotated,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.Return: self._return,
            ast.Raise: self._raise,
            ast.Assert: lambda node: bool(self.expr(node.test)) and False,
            ast.Global: self._global,
            ast.Match: self._match,
            ast.Break: lambda _node: True,
            ast.Continue: lambda _node: True,
        }

    def run(self, tree: ast.Module, source: str) -> None:
        if MENTIONS.search(source):
            self.own.statements(tree)
        self.block(tree.body)

    def finish(self) -> None:
        for process in self.pending:
            if not process.fields.get("told"):
                process.fields["start"](ANYTHING)
        self.tell.flush()

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Run the statements; return whether the block ends by leaving: return, raise, break, continue."""
        for node in body:
            self.steps -= 1
            if self.steps < 0:
                raise TooMuch("steps")
            method = self._statements.get(type(node))
            if method is not None and method(node):
                return True
        return False

    # -- simple statements ---------------------------------------------------------------------------------------

    def _expression(self, node: ast.Expr) -> bool:
        if isinstance(node.value, ast.Name) and HOLE_NAME in node.value.id:
            self.tell.code("python", ANYTHING)
        elif not isinstance(node.value, ast.Constant):
            self.expr(node.value)
        return False

    def _assignment(self, node: ast.Assign) -> bool:
        thing = self.expr(node.value)
        for target in node.targets:
            self.assign(target, thing)
        return False

    def _annotated(self, node: ast.AnnAssign) -> bool:
        if node.value is not None:
            self.assign(node.target, self.expr(node.value))
        return False

    def _augmented(self, node: ast.AugAssign) -> bool:
        old = self.expr(node.target)
        new = self.expr(node.value)
        if type(old) is list and isinstance(node.op, ast.Add) and (more := pure.items(new)) is not None:
            old += more
            return False
        self.assign(node.target, self.operate(node.op, old, new))
        return False

    def assign(self, target: ast.expr, thing: Thing) -> None:
        if isinstance(target, ast.Name):
            self.scope.set(target.id, thing)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, thing)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, thing)
        elif isinstance(target, ast.Attribute):
            owner = self.expr(target.value)
            if isinstance(owner, Obj):
                owner.fields[target.attr] = thing
            elif isinstance(owner, Class):
                owner.scope.names[target.attr] = thing
        elif isinstance(target, ast.Subscript):
            self._store(self.expr(target.value), self.expr(target.slice), thing)

    def _store(self, owner: Thing, index: Thing, thing: Thing) -> None:
        key = pure.key(index)
        if isinstance(owner, dict):
            owner[key] = thing
        elif type(owner) is list and isinstance(index, int) and -len(owner) <= index < len(owner):
            owner[index] = thing
        elif isinstance(owner, Obj) and owner.kind == "environ" and isinstance(key, str):
            self.tell.environment[key] = text(thing)
        elif isinstance(owner, Obj) and owner.kind == "scope" and isinstance(key, str):
            owner.fields["scope"].set(key, thing)

    def _unpack(self, targets: Sequence[ast.expr], thing: Thing) -> None:
        items = pure.items(thing)
        if items is not None and len(items) == len(targets) and not any(isinstance(one, ast.Starred) for one in targets):
            for target, one in zip(targets, items, strict=True):
                self.assign(target, one)
            return
        for i, target in enumerate(targets):
            if isinstance(thing, Either):
                self.assign(target, either([pure.index(one, i) for one in thing.options if type(one) is tuple] or [Unknown()]))
            elif isinstance(target, ast.Starred):
                self.assign(target, items[i:] if items is not None else ManyThings(pure.element(thing)))
            else:
                self.assign(
                    target, items[i] if items is not None and i < len(items) else Unknown(taint_of(thing) | Taint.UNKNOWN)
                )

    def _return(self, node: ast.Return) -> bool:
        self.returns.append(self.expr(node.value) if node.value is not None else None)
        return True

    def _raise(self, node: ast.Raise) -> bool:
        if node.exc is not None:
            self.expr(node.exc)
        return True

    def _global(self, node: ast.Global) -> bool:
        self.scope.globals.update(node.names)
        return False

    # -- imports -------------------------------------------------------------------------------------------------

    def _import(self, node: ast.Import) -> bool:
        for alias in node.names:
            module = self.module(alias.name)
            if alias.asname:
                self.scope.set(alias.asname, module)
            else:
                first = alias.name.partition(".")[0]
                self.scope.set(first, module if first == alias.name else Name(canonical(first)))
        return False

    def _import_from(self, node: ast.ImportFrom) -> bool:
        known = node.level == 0 or node.module
        owner = self.module(node.module or HOLE, relative=node.level > 0) if known else Unknown(Taint.NONE)
        for alias in node.names:
            if alias.name == "*" and isinstance(owner, Name):
                for path in EFFECTS:
                    head, _, last = path.rpartition(".")
                    if head == owner.path:
                        self.scope.set(last, Name(path))
                if owner.path == "os":
                    self.scope.set("path", Name("os.path"))
                    self.scope.set("environ", Obj("environ", None, taint=Taint.SECRET))
            elif alias.name != "*":
                self.scope.set(alias.asname or alias.name, self.attribute(owner, alias.name))
        return False

    def module(self, name: str, *, relative: bool = False) -> Thing:
        """An imported module; one that lies beside the source is read."""
        name = canonical(name.removeprefix("six.moves."))
        if not relative:
            self.own.imported(name)
        if "." in name or name in sys.stdlib_module_names or HOLE in name:
            return Name(name)
        if name not in self.loaded:
            self.loaded[name] = Name(name)
            seen = self.tell.sink.look(f"{self.folder}{name}.py")
            if seen.kind == "file" and seen.text is not None:
                self.loaded[name] = self._load(Value(seen.text, seen.taint), f"{self.folder}{name}.py")
        return self.loaded[name]

    def _load(self, source: Value, path: str) -> Thing:
        tree = self.parse(source.text) if not source.taint and self.evals < MAX_EVALS_DEEP else None
        if tree is None:
            self.tell.code("python", source, path)
            return Unknown(source.taint | Taint.UNKNOWN)
        outer, self.scope = self.scope, Scope()
        in_file, self.own.in_file = self.own.in_file, True
        self.scope.names["__name__"] = Value(path.rpartition("/")[2].removesuffix(".py"))
        self.evals += 1
        try:
            self.run(tree, source.text)
            return Obj("module", None, **self.scope.names)
        finally:
            self.scope, self.own.in_file = outer, in_file
            self.evals -= 1

    def evaluate(self, source: Thing, want: bool = False) -> Thing:
        """``exec`` or, with ``want``, ``eval`` of a text: in this scope where it is plainly known, else reported as code."""
        shown = text(source)
        hidden = shown.taint & (Taint.DECODED | Taint.REMOTE)
        tree = None
        if shown.known and not hidden and self.evals < MAX_EVALS_DEEP:
            self.steps -= len(shown.text) // 8
            tree = self.parse(shown.text.strip() if want else shown.text)
        if tree is None:
            self.tell.code("python", shown)
            return Unknown(shown.taint | Taint.UNKNOWN)
        if MENTIONS.search(shown.text):
            self.own.statements(tree)
        self.evals += 1
        try:
            if want and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
                return self.expr(tree.body[0].value)
            self.block(tree.body)
            return None
        finally:
            self.evals -= 1

    # -- definitions ---------------------------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        function: Thing = Func(node, self.scope)
        for decorator in node.decorator_list:
            wrapper = self.expr(decorator)
            if isinstance(wrapper, Func):
                function = self.call(wrapper, [function], {})
            elif isinstance(wrapper, Name) and wrapper.path == "atexit.register":
                self.call(function, [], {})
        self.scope.set(node.name, function)
        return False

    def _class(self, node: ast.ClassDef) -> bool:
        bases = [self.expr(base) for base in node.bases]
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            self.block(node.body)
            made = Class(self.scope, bases)
        finally:
            self.scope = outer
        self.scope.set(node.name, made)
        return False

    # -- branches and loops --------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> bool:
        truth = pure.truth(self.expr(node.test))
        if truth is not None:
            return self.block(node.body if truth else node.orelse)
        return self._branches([node.body, node.orelse])

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> bool:
        """Run each body as if alone, then join the variables of all that don't leave."""
        scope, before = self.scope, self.scope.names
        after: list[dict[str, Thing]] = []
        for body in bodies:
            scope.names = dict(before)
            if not body or not self.block(body):
                after.append(scope.names)
        if not after:
            scope.names = before
            return True
        merged = after[0]
        for other in after[1:]:
            for name, thing in other.items():
                if name not in merged:
                    merged[name] = thing
                elif merged[name] is not thing:
                    merged[name] = either([merged[name], thing])
        scope.names = merged
        return False

    def _try(self, node: ast.Try) -> bool:
        left = self.block(node.body)
        for handler in node.handlers:
            if handler.name:
                self.scope.set(handler.name, Unknown())
            self._branches([handler.body, []])
        if not left:
            left = self.block(node.orelse)
        return self.block(node.finalbody) or (left and not node.handlers)

    def _match(self, node: ast.Match) -> bool:
        subject = self.expr(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None)
                if isinstance(name, str):
                    self.scope.set(name, subject if part is case.pattern else Unknown(taint_of(subject) | Taint.UNKNOWN))
        self._branches([*[case.body for case in node.cases], []])
        return False

    def _for(self, node: ast.For | ast.AsyncFor) -> bool:
        source = self.expr(node.iter)
        endless = isinstance(source, ManyThings) and isinstance(source.each, Unknown) and source.each.kind == "endless"
        turns = self.turns_of(source)
        if turns is None:
            self._forget(node.body)
            turns = [pure.element(source)]
        forks = self.forks
        for thing in turns:
            self.assign(node.target, thing)
            self.block(node.body)
        if endless:
            self._endless(node.body, forks)
        return self.block(node.orelse)

    def _while(self, node: ast.While) -> bool:
        forks = self.forks
        always = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if not always:
            for _ in range(MAX_WHILE):
                truth = pure.truth(self.expr(node.test))
                if truth is False:
                    return self.block(node.orelse)
                if truth is None or self.turns <= 0:
                    break
                self.turns -= 1
                if self.block(node.body):
                    break
        self._forget(node.body)
        self.block(node.body)
        if always or pure.truth(self.expr(node.test)) is True:
            self._endless(node.body, forks)
        return False

    def _endless(self, body: Sequence[ast.stmt], forks: int) -> None:
        if self.forks == forks and not hoards(body):
            return
        for statement in body:
            for node in ast.walk(statement):
                name = getattr(node, "attr", getattr(node, "id", ""))
                if isinstance(node, ast.Break | ast.Return) or name in _BRAKES:
                    return
        if self.forks == forks:
            self.tell.words("@endless")
        else:
            self.tell.forkbomb()

    def _forget(self, body: Sequence[ast.stmt]) -> None:
        """Forget the variables that a loop changes from round to round: they are unknown before any of its rounds."""
        for statement in body:
            for node in ast.walk(statement):
                self.steps -= 1
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in self.scope.names:
                    old = self.scope.names[node.id]
                    self.scope.names[node.id] = either([old, Unknown(taint_of(old) | Taint.UNKNOWN)])

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            thing = self.expr(item.context_expr)
            if isinstance(thing, Obj) and thing.cls is not None and (enter := thing.cls.find("__enter__")) is not None:
                thing = self.call(Func(enter.node, enter.scope, thing), [], {}) if isinstance(enter, Func) else thing
            if item.optional_vars is not None:
                self.assign(item.optional_vars, thing)
        return self.block(node.body)
