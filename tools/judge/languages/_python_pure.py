"""Operations on what is known, without effects: joins, formats, indexes, methods of texts."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages import _decode
from tools.judge.languages._python_values import Data, Either, ManyThings, PathThing, Thing, Unknown, either, taint_of, text
from tools.judge.languages._tell import join
from tools.judge.meaning.value import HOLE, Taint, Value

MAX_TEXT, MAX_ITEMS = 200_000, 4_096

_SECRET_NAME = Regex(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH", re.IGNORECASE)
_PERCENT = Regex(r"%(?:\((\w+)\))?[-+ #0]*\d*(?:\.\d+)?([sdrixXcuf%])")
_FIELD = Regex(r"\{\{|\}\}|\{([\w.\[\]]*)(?:![rsa])?(?::([^{}]*))?\}")
_CONSTANTS = {
    "os.sep": "/",
    "os.linesep": "\n",
    "os.curdir": ".",
    "os.pardir": "..",
    "os.devnull": "/dev/null",
    "os.name": "posix",
}
_FAULTS = (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError)


def constant(path: str) -> Thing:
    if path in _CONSTANTS:
        return Value(_CONSTANTS[path])
    known = getattr(string, path.removeprefix("string."), None)
    return Value(known) if isinstance(known, str) else Unknown()


def variable(name: str | None) -> Thing:
    """An environment variable: HOME is ``~``, those that hold keys by their name are secret, the rest unknown."""
    if name == "HOME":
        return Value("~")
    secret = name is None or _SECRET_NAME.search(name) is not None
    return Value(HOLE, Taint.UNKNOWN | (Taint.SECRET if secret else Taint.NONE))


def path_join(parts: Sequence[Value]) -> Value:
    """Join paths as os.path.join does."""
    kept: list[Value] = []
    for part in parts:
        if part.text[:1] in ("/", "~"):
            kept = []
        if not part.text or part.text == ".":
            continue
        if kept and not kept[-1].text.endswith("/"):
            kept.append(Value("/"))
        kept.append(part)
    return join(kept) if kept else Value(".")


def key(thing: Thing) -> Thing:
    """Return a hashable key to look up in a dict: a plain str for a known text."""
    if isinstance(thing, Value):
        return thing.text if thing.known else Unknown(thing.taint)
    if isinstance(thing, Data):
        return thing.raw
    if thing is None or isinstance(thing, int | float | str):
        return thing
    return Unknown()


def truth(thing: Thing) -> bool | None:
    if thing is None or isinstance(thing, bool | int | float):
        return bool(thing)
    if isinstance(thing, Value):
        return True if thing.text.replace(HOLE, "") else (None if thing.text else False)
    if isinstance(thing, Data):
        return bool(thing.raw)
    if type(thing) in (list, tuple, dict):
        return True if thing else None
    return None


def plain(thing: Thing) -> Thing:
    """Return the thing's plain value where it can be compared exactly, else None."""
    if isinstance(thing, Value):
        return thing.text if thing.known and not thing.pattern else None
    if isinstance(thing, Data):
        return thing.raw
    return thing if isinstance(thing, bool | int | float) else None


def contains(container: Thing, thing: Thing) -> bool | None:
    item = plain(thing)
    if item is None:
        return None
    if isinstance(container, Value):
        return item in container.text if container.known and not container.pattern and isinstance(item, str) else None
    if type(container) in (list, tuple):
        known = [plain(one) for one in container]
        return True if item in known else (None if None in known else False)
    if isinstance(container, dict):
        return True if item in container else None
    return None


def items(thing: Thing) -> list[Thing] | None:
    """The elements of a known iterable, in order."""
    if type(thing) in (list, tuple):
        return list(thing)
    if isinstance(thing, dict):
        return [Value(one) if isinstance(one, str) else one for one in thing]
    if isinstance(thing, Value) and thing.known and not thing.pattern:
        return [Value(char, thing.taint) for char in thing.text[:MAX_ITEMS]]
    if isinstance(thing, Data):
        return list(thing.raw[:MAX_ITEMS])
    if isinstance(thing, range):
        return list(thing) if len(thing) <= MAX_ITEMS else None
    return None


def element(thing: Thing) -> Thing:
    """Return any one element of an iterable."""
    if isinstance(thing, ManyThings):
        return thing.each
    found = items(thing)
    return either([*found[:8], Unknown()]) if found else Unknown(taint_of(thing) | Taint.UNKNOWN, getattr(thing, "kind", ""))


def index(owner: Thing, at: Thing) -> Thing:
    if isinstance(owner, ManyThings):
        return owner if isinstance(at, slice) else owner.each
    if not isinstance(at, int | slice):
        return either([*owner[:8], Unknown()]) if type(owner) in (list, tuple) and owner else NotImplemented
    try:
        if isinstance(owner, Value):
            return owner._replace(text=owner.text[at]) if owner.known and not owner.pattern else NotImplemented
        if isinstance(owner, Data):
            found = owner.raw[at]
            return owner._replace(raw=found) if isinstance(found, bytes) else found
        if type(owner) in (list, tuple) or isinstance(owner, range):
            return owner[at]
    except _FAULTS:
        return NotImplemented
    return NotImplemented


def add(left: Thing, right: Thing) -> Thing:
    if isinstance(left, Data) and isinstance(right, Data):
        return Data(left.raw + right.raw, left.taint | right.taint) if len(left.raw) < MAX_TEXT else NotImplemented
    if isinstance(left, Value) or isinstance(right, Value):
        if not isinstance(left, Value | Unknown | Data) or not isinstance(right, Value | Unknown | Data):
            return Unknown(taint_of(left) | taint_of(right) | Taint.UNKNOWN)
        one, other = text(left), text(right)
        return join([one, other]) if len(one.text) < MAX_TEXT else NotImplemented
    if type(left) in (list, tuple) and type(right) is type(left) and len(left) + len(right) <= MAX_ITEMS:
        return left + right
    if type(left) is list and isinstance(right, Unknown):
        return [*left, right]
    if type(right) is list and isinstance(left, Unknown):
        return [left, *right]
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left + right
    return NotImplemented


def repeat(left: Thing, right: Thing) -> Thing:
    if isinstance(left, int) and not isinstance(right, int | float):
        left, right = right, left
    if isinstance(left, int | float) and isinstance(right, int | float):
        try:
            return left * right if abs(left) < 1e100 and abs(right) < 1e100 else NotImplemented
        except OverflowError:
            return NotImplemented
    if isinstance(right, int):
        if isinstance(left, Value) and len(left.text) * right <= MAX_TEXT:
            return left._replace(text=left.text * right)
        if isinstance(left, Data) and len(left.raw) * right <= MAX_TEXT:
            return left._replace(raw=left.raw * right)
        if type(left) in (list, tuple) and len(left) * right <= MAX_ITEMS:
            return left * right
    return NotImplemented


def formatted(thing: Thing, spec: str) -> Value:
    """``format(thing, spec)``; widths are held back."""
    if not re.fullmatch(r"[^\d]?[<>^=]?[-+ #0]*\d{0,3}[,_]?(?:\.\d{1,2})?[a-zA-Z%]?", spec):
        return Value(HOLE, taint_of(thing) | Taint.UNKNOWN)
    given = plain(thing)
    try:
        return Value(format(given, spec), taint_of(thing)) if given is not None else text(thing)
    except (*_FAULTS, ArithmeticError):
        return text(thing)


def percent(template: Value, given: Thing) -> Thing:
    values = list(given) if type(given) is tuple else [given]
    taint = template.taint
    at = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal at, taint
        kind = match[2]
        if kind == "%":
            return "%"
        if match[1] is not None:
            thing = given.get(match[1], Unknown()) if isinstance(given, dict) else Unknown()
        else:
            thing = values[at] if at < len(values) else Unknown()
            at += 1
        shown = text(thing)
        taint |= shown.taint
        if isinstance(thing, int) and kind in "xXc":
            return f"{thing:{kind}}" if kind != "c" or 0 <= thing < 0x110000 else HOLE
        return shown.text

    return Value(_PERCENT.sub(replace, template.text)[:MAX_TEXT], taint)


def brace_format(template: Value, args: Sequence[Thing], named: dict[str, Thing]) -> Value:
    """``str.format``."""
    taint = template.taint
    at = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal at, taint
        if match[0] in ("{{", "}}"):
            return match[0][0]
        field, spec = match[1] or "", match[2]
        thing: Thing = Unknown()
        if field == "":
            thing = args[at] if at < len(args) else thing
            at += 1
        elif field.isdecimal() and len(field) < 5:
            thing = args[int(field)] if int(field) < len(args) else thing
        else:
            thing = named.get(field, thing)
        shown = formatted(thing, spec) if spec else text(thing)
        taint |= shown.taint
        return shown.text

    return Value(_FIELD.sub(replace, template.text)[:MAX_TEXT], taint)


# -- methods of texts and bytes ------------------------------------------------------------------------------------

_SAME_TEXT = frozenset(
    re.findall(
        r"\w+",
        """lower upper strip lstrip rstrip title capitalize swapcase casefold replace removeprefix removesuffix zfill
    ljust rjust center expandtabs translate""",
    )
)
_LISTS = frozenset(["split", "rsplit", "splitlines", "partition", "rpartition"])
_FACTS = frozenset(
    re.findall(
        r"\w+",
        """startswith endswith find index rfind count isdigit isalpha isalnum isspace isupper islower isdecimal isnumeric""",
    )
)


def text_method(owner: Value, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if name == "format":
        return brace_format(owner, args, named)
    if name == "format_map" and args and isinstance(args[0], dict):
        return brace_format(owner, [], args[0])
    if name == "join":
        return _joined(owner, args[0] if args else None)
    if name == "encode":
        if not owner.known:
            return owner
        return Data(owner.text.encode("utf-8", "surrogatepass"), owner.taint)
    exact = owner.known and not owner.pattern
    if name in ("decode", "strip", "rstrip", "lstrip", "lower", "casefold") and not exact:
        return owner
    if name in ("splitlines", "readlines") and not owner.known:
        return ManyThings(owner)
    return _plain_method(owner, owner.text if exact else None, name, args)


def _plain_method(owner: Value | Data, raw: str | bytes | None, name: str, args: list[Thing]) -> Thing:
    taint = owner.taint
    for arg in args:
        taint |= taint_of(arg)
    if raw is None or name not in _SAME_TEXT | _LISTS | _FACTS:
        return Unknown(taint | Taint.UNKNOWN)
    given = [_raw(arg) for arg in args]
    if any(one is NotImplemented for one in given) or any(isinstance(one, int) and one > MAX_TEXT for one in given):
        return Unknown(taint | Taint.UNKNOWN)
    if name == "replace" and given and not given[0] and len(raw) > 1_000:
        return Unknown(taint | Taint.UNKNOWN)
    try:
        found = getattr(raw, name)(*given)
    except _FAULTS:
        return Unknown(taint | Taint.UNKNOWN)
    return wrapped(found, taint)


def wrapped(found: object, taint: Taint) -> Thing:
    """A Python value as a thing of the domain."""
    if isinstance(found, str):
        return Value(found, taint) if len(found) <= MAX_TEXT else Unknown(taint | Taint.UNKNOWN)
    if isinstance(found, bytes):
        return Data(found, taint) if len(found) <= MAX_TEXT else Unknown(taint | Taint.UNKNOWN)
    if isinstance(found, list | tuple):
        return [wrapped(one, taint) for one in found]
    if isinstance(found, dict):
        return {key: wrapped(value, taint) for key, value in found.items()}
    return found if found is None or isinstance(found, bool | int | float) else Unknown(taint | Taint.UNKNOWN)


def _raw(arg: Thing) -> Thing:
    if isinstance(arg, Value):
        return arg.text if arg.known else NotImplemented
    if isinstance(arg, Data):
        return arg.raw
    if isinstance(arg, dict):
        table = {key: _raw(value) for key, value in arg.items()}
        return NotImplemented if any(value is NotImplemented for value in table.values()) else table
    if type(arg) is tuple:
        return tuple(_raw(one) for one in arg)
    return arg if arg is None or isinstance(arg, int) else NotImplemented


def _joined(between: Value, given: Thing) -> Thing:
    found = items(given)
    if found is None or any(isinstance(one, Either) for one in found):
        return Value(HOLE, taint_of(given) | between.taint | Taint.UNKNOWN)
    return join([text(one) for one in found], between.text)


def data_method(owner: Data, name: str, args: list[Thing]) -> Thing:
    if name == "decode":
        codec = args[0].text if args and isinstance(args[0], Value) else "utf-8"
        found = _decode.text_of(owner.raw, codec)
        return Value(found, owner.taint) if found is not None else Unknown(owner.taint | Taint.UNKNOWN)
    if name == "hex":
        return Value(owner.raw.hex(), owner.taint)
    if name == "join":
        parts = items(args[0]) if args else None
        if parts is not None and all(isinstance(one, Data) for one in parts):
            return Data(owner.raw.join([one.raw for one in parts])[:MAX_TEXT], taint_of(parts) | owner.taint)
        return Unknown(taint_of(args) | Taint.UNKNOWN)
    return _plain_method(owner, owner.raw, name, args)


def path_attribute(path: Value, name: str) -> Thing:
    """``Path(p).parent`` and the like; NotImplemented for what is no plain attribute."""
    head, _, tail = path.text.rpartition("/")
    if name == "parent":
        return PathThing(path._replace(text=head or ("/" if path.text.startswith("/") else ".")))
    if name == "parents":
        parts = path.text.split("/")
        return [PathThing(path._replace(text="/".join(parts[:-i]) or "/")) for i in range(1, len(parts))]
    if name == "name":
        return path._replace(text=tail)
    if name in ("stem", "suffix"):
        stem, dot, suffix = tail.rpartition(".")
        return path._replace(text=(stem or tail) if name == "stem" else dot + suffix if stem else "")
    if name == "parts":
        return [path._replace(text=one or "/") for one in path.text.split("/")]
    return NotImplemented


def as_bytes(thing: Thing) -> bytes | None:
    if isinstance(thing, Data):
        return thing.raw
    if isinstance(thing, Value) and thing.known:
        return thing.text.encode("utf-8", "surrogatepass")
    if type(thing) in (list, tuple) and all(isinstance(one, int) and 0 <= one < 256 for one in thing):
        return bytes(thing)
    return None


def decoded(thing: Thing, decoder: Callable[[bytes], bytes | str | None]) -> Thing:
    """The result of a decoder of known bytes, DECODED; of unknown ones, unknown and DECODED."""
    raw = as_bytes(thing)
    taint = taint_of(thing) | Taint.DECODED
    found = decoder(raw) if raw is not None else None
    return Unknown(taint | Taint.UNKNOWN) if found is None else wrapped(found, taint)


_MISSING = Unknown()


def arg(args: list[Thing], named: dict[str, Thing], at: int, name: str = "", other: Thing = _MISSING) -> Thing:
    """A parameter by its place or its name."""
    if at < len(args):
        return args[at]
    return named.get(name, other)
