"""Python's builtins and the small change of its standard library."""

from __future__ import annotations

from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_evaluator import Effect, Evaluator
from tools.judge.languages._python_values import Data, ManyThings, Name, Obj, Thing, Unknown, dump, either, taint_of, text
from tools.judge.languages._tell import join
from tools.judge.meaning.value import HOLE, Taint, Value

_FAULTS = (ValueError, TypeError, OverflowError, KeyError, IndexError)


def _exec(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return m.evaluate(args[0]) if args else None


def _eval(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return m.evaluate(args[0], want=True) if args else None


def _compile(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return text(args[0] if args else named.get("source"))


def _import(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    name = text(args[0] if args else named.get("name"))
    if not name.known:
        return Name(HOLE)
    m.own.imported(name.text)
    fromlist = args[3] if len(args) > 3 else named.get("fromlist")
    return m.module(name.text if fromlist else name.text.partition(".")[0])


def _import_module(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    name = text(args[0] if args else named.get("name"))
    return m.module(name.text) if name.known else Name(HOLE)


def _getattr(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if len(args) < 2:
        return Unknown()
    name = text(args[1])
    if name.known:
        return m.attribute(args[0], name.text)
    return Name(f"{args[0].path}.{HOLE}") if isinstance(args[0], Name) else Unknown()


def _setattr(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if len(args) > 2 and isinstance(args[0], Obj) and isinstance(args[1], Value):
        args[0].fields[args[1].text] = args[2]


def _vars(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if not args:
        return Obj("scope", None, scope=m.scope)
    return args[0] if isinstance(args[0], Name) else Obj("scope", None, scope=m.scope) if not args else Unknown(kind="dunder")


def _globals(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Obj("scope", None, scope=m.scope.module)


def _str(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if not args:
        return Value("")
    if isinstance(args[0], Value | Data | int | float) or type(args[0]) not in (list, tuple, dict):
        return text(args[0])
    return dump(args[0])


def _bytes(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if not args:
        return Data(b"")
    given = args[0]
    if isinstance(given, int):
        return Data(b"\0" * given) if 0 <= given < 10_000 else Unknown()
    raw = pure.as_bytes(given)
    if raw is None:
        return Unknown(taint_of(given) | Taint.UNKNOWN)
    made = Taint.DECODED if type(given) in (list, tuple) else Taint.NONE
    return Data(raw, taint_of(given) | made)


def _chr(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if args and isinstance(args[0], int) and 0 <= args[0] < 0x110000:
        return Value(chr(args[0]), Taint.DECODED)
    return Unknown()


def _ord(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    raw = pure.plain(args[0]) if args else None
    return ord(raw) if isinstance(raw, str | bytes) and len(raw) == 1 else Unknown()


def _int(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    given = [pure.plain(one) for one in args[:2]]
    try:
        return int(*given) if given and None not in given else Unknown(taint_of(args) | Taint.UNKNOWN)
    except _FAULTS:
        return Unknown(taint_of(args) | Taint.UNKNOWN)


def _list(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if not args:
        return []
    found = pure.items(args[0])
    return found if found is not None else args[0]


def _tuple(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = _list(m, args, named)
    return tuple(found) if type(found) is list else found


def _dict(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if args and isinstance(args[0], Obj) and args[0].kind == "environ":
        return args[0]
    first = args[0] if args and isinstance(args[0], dict) else {}
    pairs = pure.items(args[0]) if args and not isinstance(args[0], dict) else []
    made = {pure.key(pair[0]): pair[1] for pair in pairs or [] if type(pair) in (tuple, list) and len(pair) == 2}
    return {**first, **made, **named}


def _len(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    given: Thing = args[0] if args else None
    if isinstance(given, Value):
        return len(given.text) if given.known else Unknown()
    if isinstance(given, Data):
        return len(given.raw)
    return len(given) if type(given) in (list, tuple, dict, range) else Unknown(Taint.NONE)


def _range(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    try:
        return range(*args) if args and all(isinstance(one, int) for one in args) else ManyThings(Unknown(Taint.NONE))
    except _FAULTS:
        return ManyThings(Unknown(Taint.NONE))


def _reversed(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = pure.items(args[0]) if args else None
    return found[::-1] if found is not None else (args or [Unknown()])[0]


def _enumerate(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = pure.items(args[0]) if args else None
    start = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
    if found is None:
        return ManyThings((Unknown(Taint.NONE), pure.element(args[0]) if args else Unknown()))
    return list(enumerate(found, start))


def _zip(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = [pure.items(one) for one in args]
    if any(one is None for one in found):
        return ManyThings(tuple(pure.element(one) for one in args))
    return list(zip(*[one for one in found if one is not None], strict=False))


def write_to(m: Evaluator, target: Thing, given: Value) -> None:
    """``given`` is written to an open file."""
    if isinstance(target, Obj) and target.kind == "file" and "number" in target.fields:
        m.tell.reopen(target.fields["number"], text(target.fields["path"]))
        m.tell.more(target.fields["number"], given)
    elif isinstance(target, Obj) and target.kind == "popen":
        target.fields["start"](given)


def _print(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    target = named.get("file")
    if isinstance(target, Obj):
        write_to(m, target, join([*[dump(one) for one in args], Value("\n")], " "))


def _input(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Value(HOLE, Taint.UNKNOWN | Taint.LOCAL)


def _same(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return args[0] if args else Unknown()


def _next(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return pure.element(args[0]) if args else Unknown()


def _sum(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    """``sum(lists, [])``; numbers are of no interest."""
    found = pure.items(args[0]) if len(args) > 1 else None
    total = args[1] if len(args) > 1 else None
    for one in found or []:
        total = pure.add(total, one)
    return total if total is not None and total is not NotImplemented else Unknown(Taint.NONE)


def _reduce(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = m.turns_of(args[1]) if len(args) > 1 else None
    if found is None:
        return m.call(args[0], [Unknown(), Unknown()], {}) if args else Unknown()
    found = [*args[2:3], *found]
    total = found[0] if found else Unknown()
    for one in found[1:]:
        total = m.call(args[0], [total, one], {})
    return total


def _partial(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Obj("partial", None, function=args[0], args=args[1:], named=named) if args else Unknown()


def _methodcaller(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Unknown(kind="dunder")


def _attrgetter(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Obj("partial", None, function=Name("_attribute_of"), args=args[:1], named={})


def _attribute_of(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return _getattr(m, [args[1], args[0]], {}) if len(args) > 1 else Unknown()


def _chain(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    found = [pure.items(one) for one in args]
    if any(one is None for one in found):
        return ManyThings(either([pure.element(one) for one in args]))
    return [thing for one in found for thing in one or []]


def _product(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return ManyThings(tuple(pure.element(one) for one in args))


def _endless(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return ManyThings(Unknown(Taint.NONE, "endless"))


def _super(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Unknown(Taint.NONE)


def _operator(name: str) -> Effect:
    def effect(m: Evaluator, args: list[Thing], named: dict[str, Thing]) -> Thing:
        if len(args) < 2:
            return Unknown()
        found = pure.add(*args[:2]) if name == "add" else pure.index(*args[:2])
        return Unknown(taint_of(args) | Taint.UNKNOWN) if found is NotImplemented else found

    return effect


BUILTINS: dict[str, Effect] = {
    "exec": _exec,
    "eval": _eval,
    "compile": _compile,
    "code.interact": lambda m, args, named: None,
    "__import__": _import,
    "importlib.import_module": _import_module,
    "importlib.__import__": _import,
    "getattr": _getattr,
    "setattr": _setattr,
    "vars": _vars,
    "globals": _globals,
    "locals": _vars,
    "str": _str,
    "repr": _str,
    "bytes": _bytes,
    "bytearray": _bytes,
    "memoryview": _same,
    "chr": _chr,
    "unichr": _chr,
    "ord": _ord,
    "int": _int,
    "list": _list,
    "set": _list,
    "frozenset": _list,
    "sorted": _list,
    "tuple": _tuple,
    "dict": _dict,
    "collections.OrderedDict": _dict,
    "len": _len,
    "range": _range,
    "xrange": _range,
    "reversed": _reversed,
    "enumerate": _enumerate,
    "zip": _zip,
    "print": _print,
    "input": _input,
    "raw_input": _input,
    "sys.stdin.read": _input,
    "sys.stdin.readline": _input,
    "sys.stdin.buffer.read": _input,
    "iter": _same,
    "next": _next,
    "sum": _sum,
    "functools.reduce": _reduce,
    "reduce": _reduce,
    "functools.partial": _partial,
    "operator.methodcaller": _methodcaller,
    "operator.attrgetter": _attrgetter,
    "_attribute_of": _attribute_of,
    "operator.add": _operator("add"),
    "operator.concat": _operator("add"),
    "operator.getitem": _operator("item"),
    "itertools.chain": _chain,
    "itertools.product": _product,
    "itertools.count": _endless,
    "itertools.cycle": _endless,
    "itertools.repeat": _endless,
    "asyncio.run": _same,
    "asyncio.gather": lambda m, args, named: list(args),
    "tqdm.tqdm": _same,
    "tqdm": _same,
    "super": _super,
}
