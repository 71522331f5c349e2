"""Dataclasses that are completed at first use.

``dataclasses.dataclass`` writes and compiles up to seven functions for every class. That was most of the cost of importing a
module, and a process uses few of the classes that it imports. Here a class has its slots at once. After several instances it gets
a compiled ``__init__``; the standard library's fields are made when code asks for them. Comparing, hashing and printing need no
code per class.
docs/adr/0013-made-at-first-use.md has the figures, and tests/toolcrib/contract/test_dataclass.py compares with the standard
library.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import reprlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from toolcrib.contract.namedtuple import NamedTuple

_making = threading.RLock()
_FIELDS = "__dataclass_fields__"
_NO_FIELDS = frozenset({"ClassVar", "InitVar", "KW_ONLY"})
_BY_HAND = 5
"""Number of instances that are made before the class gets a compiled ``__init__``."""

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def dataclass(*, slots, frozen=False, eq=True, kw_only=False):
        """Make a class a dataclass, as ``dataclasses.dataclass`` does with these options. It always has slots."""
        if not slots:
            raise TypeError("a class that is completed later needs slots: use slots=True, or dataclasses.dataclass")
        return lambda plain: _with_slots(plain, _Options(frozen, eq, kw_only))

    def replace(one, /, **changes):
        """Return a copy of a dataclass with other values, as ``dataclasses.replace`` does, without making the fields of its
        class.
        """
        late = vars(type(one)).get(_FIELDS)
        return late.changed(one, changes) if isinstance(late, _Late) else dataclasses.replace(one, **changes)


class _Options(NamedTuple):
    frozen: bool
    eq: bool
    kw_only: bool


def _with_slots(plain: Any, options: _Options) -> Any:
    """Return a copy of a class with slots for its fields. ``_Late`` makes its ``__init__`` and its fields when they
    are needed.
    """
    names = [name for name, kind in plain.__annotations__.items() if _is_field(kind)]
    members = {name: value for name, value in vars(plain).items() if name not in ("__dict__", "__weakref__", *names)}
    inherited = {slot for base in plain.__mro__[1:] for slot in getattr(base, "__slots__", ())}
    members["__slots__"] = tuple(name for name in names if name not in inherited)
    late = _Late(plain, options)
    for name, member in {_FIELDS: late, "__init__": late.first_init(), **_methods(late, options)}.items():
        if members.get(name) is None:  # a class with its own __eq__ has None as __hash__
            members[name] = member  # setting it later would make Python search the class and all its bases
    late.made = made = type(plain)(plain.__name__, plain.__bases__, members)
    made.__qualname__ = plain.__qualname__
    return made


def _is_field(kind: object) -> bool:
    """Return whether an annotation is that of a field, unlike for example ``ClassVar[int]``."""
    return str(kind).partition("[")[0].rpartition(".")[2] not in _NO_FIELDS


class _Late:
    """Stand-in for a class's fields until they are made. ``dataclasses.fields`` and ``replace`` find it where they look for the
    fields.
    """

    made: Any
    """The class with slots."""

    def __init__(self, plain: Any, options: _Options) -> None:
        self._plain = plain
        self._options = options
        self._has_init = False
        self._filled = 0
        self._is_looked_into = False
        self._found: Sequence[_Parameter] | None = None

    def __get__(self, instance: object, owner: object) -> Any:
        self.complete()
        return vars(self.made)[_FIELDS]

    def first_init(self) -> Callable[..., None]:
        """Return an ``__init__`` that fills the first instances and then replaces itself with a compiled one. Compiling takes as
        long as filling twenty instances, and a process makes one or two instances of most classes.
        """

        def first(this: object, *args: Any, **kwargs: Any) -> None:
            self._filled += 1
            if self._filled > _BY_HAND or not self._fill(this, args, kwargs):
                self.compile_init()
                self.made.__init__(this, *args, **kwargs)

        return first

    def _fill(self, this: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Set the fields of an instance as ``__init__`` would. Return False, and set nothing, if only ``__init__`` can do it."""
        parameters = self._parameters()
        names = [one.name for one in parameters or () if one.init and not one.kw_only]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if parameters is None or len(given) != len(args) + len(kwargs):
            return False
        values: dict[str, Any] = {}
        for one in parameters:
            if one.init and one.name in given:
                values[one.name] = given.pop(one.name)
            elif one.factory is not dataclasses.MISSING:
                values[one.name] = one.factory()
            elif one.default is not dataclasses.MISSING:
                values[one.name] = one.default
            elif one.init:
                return False
        if given:
            return False
        put = object.__setattr__ if self._options.frozen else setattr
        for name, value in values.items():
            put(this, name, value)
        if hasattr(self.made, "__post_init__"):
            self.made.__post_init__(this)
        return True

    def changed(self, one: Any, changes: Mapping[str, Any]) -> Any:
        """Return a copy of an instance with other values."""
        parameters = self._parameters()
        if parameters is None or not all(given.init for given in parameters):
            return dataclasses.replace(one, **changes)
        kept = {given.name: getattr(one, given.name) for given in parameters if given.name not in changes}
        return self.made(**changes, **kept)

    def _parameters(self) -> Sequence[_Parameter] | None:
        """Return the parameters of the ``__init__`` that this module can make, and set ``__match_args__`` from them. Return None
        if the standard library must make them, or has made them.
        """
        with _making:
            if not self._is_looked_into:
                self._is_looked_into = True
                self._found = None if self._plain is None else _own_parameters(self._plain, self._options)
                if self._found is not None:
                    positional = tuple(one.name for one in self._found if one.init and not one.kw_only)
                    setattr(self.made, "__match_args__", positional)  # noqa: B010 - mypy refuses the plain assignment
            return self._found

    def compile_init(self) -> None:
        """Compile ``__init__``, unless another thread already did. The standard library's fields are also made
        here only if ``_own_parameters`` can't read the class's parameters: they take as long to make, and little code needs them.
        """
        made = self.made
        with _making:
            if self._has_init or vars(made)[_FIELDS] is not self:
                return
            parameters = self._parameters()
            if parameters is None:
                self.complete()
                return
            if "__init__" not in vars(self._plain):
                made.__init__ = _compiled_init(made, self._plain, parameters, frozen=self._options.frozen)
            self._has_init = True

    def complete(self) -> None:
        """Make the fields and ``__init__``, unless another thread already did."""
        made, (frozen, eq, kw_only) = self.made, self._options
        with _making:
            if vars(made)[_FIELDS] is not self:
                return
            # Python would make a missing docstring from the signature, and load a tokenizer for it. No code reads that docstring.
            self._plain.__doc__ = self._plain.__doc__ or " "
            # With these options the standard library compiles no methods. ``frozen`` makes it compile some, so pass it only if a
            # base must be checked to be frozen too.
            also = frozen and any(dataclasses.is_dataclass(base) for base in made.__bases__)
            done = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=also, kw_only=kw_only)(self._plain)
            options = vars(done)["__dataclass_params__"]
            options.init, options.repr, options.eq, options.frozen = True, True, eq, frozen
            given = {"__dataclass_params__": options, "__match_args__": done.__match_args__}
            if "__init__" not in vars(done) and not self._has_init:
                given["__init__"] = _compiled_init(made, done, [*map(_parameter, dataclasses.fields(done))], frozen=frozen)
            for name, value in {**given, _FIELDS: vars(done)[_FIELDS]}.items():
                setattr(made, name, value)
            self._plain = None

    @functools.cached_property
    def compared(self) -> Callable[[object], object]:
        """A function that returns the values of an instance that are compared."""
        return _getter(one.name for one in dataclasses.fields(self.made) if one.compare)

    @functools.cached_property
    def hashed(self) -> Callable[[object], object]:
        """A function that returns the values of an instance that are hashed."""
        return _getter(one.name for one in dataclasses.fields(self.made) if (one.compare if one.hash is None else one.hash))


def _getter(names: Iterable[str]) -> Callable[[object], object]:
    known = tuple(names)
    return operator.attrgetter(*known) if known else type


# -- __init__ ----------------------------------------------------------------------------------------------------------


class _Factory:
    """Default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


class _Parameter(NamedTuple):
    """The facts about a field that ``__init__`` needs."""

    name: str
    kind: Any
    default: Any
    factory: Any
    init: bool
    kw_only: bool


def _parameter(one: dataclasses.Field[Any]) -> _Parameter:
    return _Parameter(one.name, one.type, one.default, one.default_factory, one.init, kw_only=one.kw_only is True)


def _own_parameters(plain: Any, options: _Options) -> list[_Parameter] | None:
    """Return the parameters of a class without a dataclass as its base, or None if only the standard library can find them."""
    if any(_FIELDS in vars(base) for base in plain.__mro__[1:]):
        return None
    found: list[_Parameter] = []
    for name, kind in plain.__annotations__.items():
        if not _is_field(kind):
            if "ClassVar" not in str(kind):
                return None
            continue
        given = vars(plain).get(name, dataclasses.MISSING)
        if isinstance(given, dataclasses.Field):
            kw_only = options.kw_only if given.kw_only is dataclasses.MISSING else given.kw_only
            found.append(_Parameter(name, kind, given.default, given.default_factory, given.init, kw_only))
        else:
            found.append(_Parameter(name, kind, given, dataclasses.MISSING, init=True, kw_only=options.kw_only))
        if type(found[-1].default).__hash__ is None:
            return None  # a mutable default: the standard library raises the error
    return found


def _compiled_init(made: Any, plain: Any, fields: Sequence[_Parameter], *, frozen: bool) -> Any:
    known: dict[str, Any] = {"_FACTORY": _FACTORY}
    parameters = [*_parameters((one for one in fields if not one.kw_only), known)]
    if by_name := [*_parameters((one for one in fields if one.kw_only), known)]:
        parameters += ["*", *by_name]
    values = [(one.name, value) for one in fields if (value := _value(one))]
    if frozen:  # through the slots themselves, which takes half as long as object.__setattr__
        known |= {f"_set_{name}": getattr(made, name).__set__ for name, _ in values}
    body = [f"_set_{name}(self, {value})" if frozen else f"self.{name} = {value}" for name, value in values]
    if hasattr(plain, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(['self', *parameters])}):\n " + "\n ".join(body or ["pass"])
    exec(text, known)  # noqa: S102 - as the standard library does: the text holds only the names of a class's fields
    made = known["__init__"]
    made.__qualname__, made.__module__ = f"{plain.__qualname__}.__init__", plain.__module__
    made.__annotations__ = {**{one.name: one.kind for one in fields if one.init}, "return": None}
    return made


def _parameters(fields: Iterable[_Parameter], known: dict[str, Any]) -> Iterator[str]:
    for one in fields:
        if one.factory is not dataclasses.MISSING:
            known[f"_make_{one.name}"] = one.factory
            default = "=_FACTORY"
        elif one.default is not dataclasses.MISSING:
            known[f"_default_{one.name}"] = one.default
            default = f"=_default_{one.name}"
        else:
            default = ""
        if one.init:
            yield one.name + default


def _value(one: _Parameter) -> str:
    """Return the expression that a field is set to, or "" for a field that ``__init__`` does not set."""
    if one.factory is not dataclasses.MISSING:
        made = f"_make_{one.name}()"
        return f"{made} if {one.name} is _FACTORY else {one.name}" if one.init else made
    if one.init:
        return one.name
    return "" if one.default is dataclasses.MISSING else f"_default_{one.name}"


# -- the other methods ---------------------------------------------------------------------------------------------------


def _methods(late: _Late, options: _Options) -> dict[str, Any]:
    """Return the methods of a class with these options, other than ``__init__``."""

    def equal(this: object, other: object) -> Any:
        return late.compared(this) == late.compared(other) if other.__class__ is this.__class__ else NotImplemented

    def hashed(this: object) -> int:
        return hash(late.hashed(this))

    methods: dict[str, Any] = {"__repr__": _shown, "__replace__": replace}
    if options.eq:
        methods |= {"__eq__": equal, "__hash__": hashed if options.frozen else None}
    if options.frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        methods |= {"__getstate__": _state, "__setstate__": _take_state}
    return methods


@reprlib.recursive_repr()
def _shown(this: Any) -> str:
    shown = (f"{one.name}={getattr(this, one.name)!r}" for one in dataclasses.fields(this) if one.repr)
    return f"{this.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(this: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(this: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(this: Any) -> list[Any]:
    return [getattr(this, one.name) for one in dataclasses.fields(this)]


def _take_state(this: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(this), state, strict=True):
        object.__setattr__(this, one.name, value)
