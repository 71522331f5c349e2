"""The registry holds what may run. Tool modules call ``registry.register(...)`` when they are imported (003-1)."""

from __future__ import annotations

import copy
import difflib
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, get_args

from toolcrib._entry import DynamicSchema, EffectsFn, ToolEntry, bind_handler, is_async_callable
from toolcrib._errors import RegistrationError
from toolcrib._frozen import freeze
from toolcrib._types import EMPTY_PARAMETERS, CheckFn, Handler, Json, Kind, Tool, Unavailable

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class Dispatch(Protocol):
    def __call__(self, name: str, args: Any, **kwargs: Any) -> str: ...


class SchemaCheck(Protocol):
    def __call__(self, parameters: Mapping[str, Json]) -> tuple[str, str] | None:
        """None for a good JSON Schema, else (JSON path of the fault, what is wrong)."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that doctor should show: what it is about, and why."""

    subject: str
    reason: str


class ToolRegistry:
    """Tools by name. Registering is thread-safe; ``generation`` grows with every change, for caches."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolEntry] = {}
        self._lock = threading.RLock()
        self._dispatch: Dispatch | None = None
        self._check_schema: SchemaCheck | None = None
        self._shown: dict[tuple[str, ...], tuple[int, list[Mapping[str, Json]]]] = {}
        self._guard: Callable[[ToolEntry | None, ToolEntry], None] | None = None
        self.generation = 0
        self.problems: list[Problem] = []

    # -- registering ---------------------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        toolset: str,
        schema: Mapping[str, Json],
        handler: Handler | None,
        check_fn: CheckFn | None = None,
        requires_env: Sequence[str] = (),
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        *,
        id: str = "",  # noqa: A002 - the specification's name
        kind: Kind = "other",
        parallel_safe: bool = False,
        interactive: bool = False,
        repeatable: bool = False,
        timeout: float | None = None,
        max_result_chars: int | None = None,
        effects: EffectsFn | None = None,
        dynamic_schema: DynamicSchema | None = None,
        validate: Callable[[Mapping[str, Json]], None] | None = None,
    ) -> ToolEntry:
        """Declare a tool.

        ``schema`` is OpenAI's function format: ``{"description": ..., "parameters": {JSON Schema of type object}}``.
        ``handler`` takes ``(args)`` or ``(args, ctx)``, sync or async; None for a tool that the agent loop runs.
        ``check_fn`` says whether the tool can work here: falsy, or an exception, hides it; ``Unavailable(reason)`` says why.
        ``effects`` says what a call would do, for the gates. See ToolEntry for the rest.

        A name that is taken is replaced by the later registration, with a warning where the toolset differs (003-3).
        Raises RegistrationError, which names the module, the tool and the JSON path.
        """
        module = _caller()
        where = f"{module}: tool {name!r}"
        function = _function_schema(name, schema, description, where)
        self._check(function["parameters"], where)
        try:
            invoke = None if handler is None else bind_handler(handler)
        except RegistrationError as error:
            raise RegistrationError(f"{where}: {error}") from None
        entry = ToolEntry(
            name=name, toolset=_text(toolset, f"{where}: toolset"), schema=freeze(function), handler=handler, invoke=invoke,
            id=id or name, check_fn=check_fn, requires_env=tuple(requires_env),
            is_async=is_async or (handler is not None and is_async_callable(handler)),
            description=description or str(function["description"]), emoji=emoji, kind=kind, parallel_safe=parallel_safe,
            interactive=interactive, repeatable=repeatable, timeout=timeout, max_result_chars=max_result_chars,
            effects=effects, dynamic_schema=dynamic_schema, validate=validate, module=module,
        )  # fmt: skip
        _refuse_bad_options(entry, where)
        self._put(entry)
        return entry

    def add(self, tool: Tool, toolset: str | None = None, **options: Any) -> ToolEntry:
        """Register a Tool object (002-4). The toolset defaults to the descriptor's category; ``options`` as for ``register``."""
        descriptor = tool.descriptor()
        return self.register(
            descriptor.name,
            toolset or descriptor.category or "custom",
            {"description": descriptor.description, "parameters": descriptor.parameters},
            tool.execute,
            id=descriptor.id,
            validate=getattr(tool, "validate_args", None),
            **options,
        )

    def put(self, entry: ToolEntry) -> ToolEntry:
        """Add an entry that another registry made. As ``register``."""
        self._check(entry.schema["parameters"], f"{entry.module}: tool {entry.name!r}")
        self._put(entry)
        return entry

    def _put(self, entry: ToolEntry) -> None:
        with self._lock:
            old = self._tools.get(entry.name)
            if self._guard is not None:
                self._guard(old, entry)
            if old is not None and old.toolset != entry.toolset:
                first, second = f"{old.module} (toolset {old.toolset!r})", f"{entry.module} (toolset {entry.toolset!r})"
                reason = f"registered by {first} and again by {second}; the later wins"
                _log.warning("tool %r: %s", entry.name, reason)
                self.problems.append(Problem(f"tool {entry.name}", reason))
            self._tools[entry.name] = entry
            self.generation += 1

    def unregister(self, name: str) -> bool:
        with self._lock:
            was_there = self._tools.pop(name, None) is not None
            self.generation += 1  # afterwards: a cache filled in between must not count as up to date
            return was_there

    def guard(self, check: Callable[[ToolEntry | None, ToolEntry], None] | None) -> None:
        """``check(old, new)`` before each registration; it raises RegistrationError to refuse. For the plugin loader."""
        self._guard = check

    def checkpoint(self) -> Callable[[], None]:
        """What brings the tools back as they are now. For the plugin loader, when a plugin fails half-way."""
        tools, problems = dict(self._tools), list(self.problems)

        def take_back() -> None:
            with self._lock:
                self._tools, self.problems = dict(tools), list(problems)
                self.generation += 1

        return take_back

    def attach(self, dispatch: Dispatch, check_schema: SchemaCheck) -> None:
        """Give the registry its dispatcher and its schema checker; tools registered before are checked now.

        A tool whose schema is bad is taken out, logged, and kept among ``problems``.
        """
        self._dispatch, self._check_schema = dispatch, check_schema
        for entry in list(self._tools.values()):
            try:
                self._check(entry.schema["parameters"], f"{entry.module}: tool {entry.name!r}")
            except RegistrationError as error:
                _log.error("%s", error)
                self.problems.append(Problem(f"tool {entry.name}", str(error)))
                self.unregister(entry.name)

    def _check(self, parameters: Mapping[str, Json], where: str) -> None:
        fault = None if self._check_schema is None else self._check_schema(parameters)
        if fault is not None:
            path, reason = fault
            raise RegistrationError(f"{where}: bad schema at {path}: {reason}")

    # -- looking -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> ToolEntry | None:
        return self._tools.get(name)

    def names(self) -> list[str]:
        """All names, in order of registration, available or not."""
        return list(self._tools)

    def entries(self) -> list[ToolEntry]:
        return list(self._tools.values())

    def toolsets(self) -> dict[str, list[str]]:
        """Tool names by the toolset that they were registered under."""
        found: dict[str, list[str]] = {}
        for entry in list(self._tools.values()):
            found.setdefault(entry.toolset, []).append(entry.name)
        return found

    def closest(self, name: str) -> str | None:
        """The registered name most like a mistyped one."""
        match = difflib.get_close_matches(name, self._tools, n=1)
        return match[0] if match else None

    # -- availability --------------------------------------------------------------------------------------------

    def availability(self, names: Iterable[str] | None = None) -> dict[str, str | None]:
        """For each registered tool (of ``names``, in their order unless a set): None where it works here, else the reason.

        A check_fn that several tools share runs once a call (003-8); one that raises means unavailable (003-9).
        """
        if names is None or isinstance(names, Set):  # a set has no order worth keeping, and prompt caches want one
            entries = [entry for entry in self.entries() if names is None or entry.name in names]
        else:
            entries = [entry for name in names if (entry := self._tools.get(name)) is not None]
        reasons: dict[CheckFn, str | None] = {}
        found: dict[str, str | None] = {}
        for entry in entries:
            if entry.check_fn is None:
                found[entry.name] = None
                continue
            if entry.check_fn not in reasons:
                reasons[entry.check_fn] = _why_not(entry)
            found[entry.name] = reasons[entry.check_fn]
        return found

    def is_toolset_available(self, toolset: str) -> bool:
        """Whether any tool registered under this toolset can work here (003-10)."""
        names = self.toolsets().get(toolset, [])
        return any(reason is None for reason in self.availability(names).values())

    def get_definitions(self, names: Iterable[str] | None = None) -> list[Mapping[str, Json]]:
        """Schemas in OpenAI's form of the tools (of ``names``, in their order) that can work here (003-7).

        Tools with a ``dynamic_schema`` are shown as it makes them (003-15). The schemas are shared and read-only:
        change a ``copy.deepcopy``.
        """
        key = tuple(name for name, reason in self.availability(names).items() if reason is None)
        generation, shown = self._shown.get(key, (-1, []))
        if generation != self.generation:
            generation = self.generation
            available = frozenset(key)
            shown = [definition for name in key if (definition := self._define(name, available)) is not None]
            if len(self._shown) > 256:
                self._shown.clear()
            self._shown[key] = (generation, shown)
        return list(shown)

    def _define(self, name: str, available: frozenset[str]) -> Mapping[str, Json] | None:
        entry = self._tools.get(name)
        if entry is None:  # taken out by another thread since
            return None
        if entry.dynamic_schema is None:
            return freeze(entry.definition)  # type: ignore[no-any-return]  # freeze keeps the type it is given
        try:
            patched = entry.dynamic_schema(copy.deepcopy(dict(entry.schema)), available)
            self._check(patched["parameters"], f"{entry.module}: tool {name!r}")
        except Exception as error:  # noqa: BLE001 - a plugin's function: whatever it raises, the other tools stay
            _log.warning("tool %r is left out: its dynamic schema failed: %s: %s", name, type(error).__name__, error)
            return None
        return freeze({"type": "function", "function": {**patched, "name": name}})  # type: ignore[no-any-return]  # as above

    # -- running -------------------------------------------------------------------------------------------------

    def dispatch(self, name: str, args: Any, **kwargs: Any) -> str:
        """Run a tool through hooks and gates, and answer JSON text always; never raises for the call's sake (003-19, 003-21)."""
        if self._dispatch is None:
            return json.dumps({"error": f"Error executing {name}: no dispatcher is attached; import model_tools first"})
        return self._dispatch(name, args, **kwargs)


def _why_not(entry: ToolEntry) -> str | None:
    assert entry.check_fn is not None  # noqa: S101 - the caller looked
    try:
        verdict = entry.check_fn()
    except Exception as error:  # noqa: BLE001 - 003-9: whatever it raises means unavailable
        _log.debug("check_fn of %r raised", entry.name, exc_info=True)
        return f"its check failed: {type(error).__name__}: {error}"
    if verdict:
        return None
    if isinstance(verdict, Unavailable):
        return verdict.reason
    missing = [name for name in entry.requires_env if not os.environ.get(name)]
    return f"set {', '.join(missing)}" if missing else "its check says that it cannot work here"


def _refuse_bad_options(entry: ToolEntry, where: str) -> None:
    # A mistyped kind would let a tool act without the gate that ``edit`` and ``execute`` must pass.
    if entry.kind not in get_args(Kind):
        raise RegistrationError(f"{where}: kind is one of {', '.join(get_args(Kind))}; got {entry.kind!r}")
    if entry.timeout is not None and not entry.timeout > 0:
        raise RegistrationError(f"{where}: timeout is in seconds and more than 0, or None; got {entry.timeout!r}")
    for option in ("check_fn", "effects", "dynamic_schema", "validate"):
        function = getattr(entry, option)
        if function is not None and not callable(function):
            raise RegistrationError(f"{where}: {option} must be a function, got {function!r}")
    if entry.check_fn is not None and entry.check_fn.__hash__ is None:
        raise RegistrationError(f"{where}: check_fn must be hashable, so that tools can share it")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise RegistrationError(f"{where}: expected a name, got {value!r}")
    return value


def _function_schema(name: str, schema: Mapping[str, Json], description: str, where: str) -> dict[str, Json]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(f"{where}: a name is 1 to 128 of letters, digits, '_', '.' and '-'")
    if not isinstance(schema, Mapping):
        raise RegistrationError(
            f"{where}: schema must be a mapping with 'description' and 'parameters', got {type(schema).__name__}"
        )
    body = schema.get("function", schema) if schema.get("type") == "function" else schema
    if not isinstance(body, Mapping):
        raise RegistrationError(f"{where}: bad schema at $.function: expected a mapping, got {type(body).__name__}")
    if not isinstance(body.get("description") or "", str):
        raise RegistrationError(f"{where}: bad schema at $.description: expected text, got {body['description']!r}")
    parameters = body.get("parameters", EMPTY_PARAMETERS)
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise RegistrationError(f'{where}: bad schema at $.parameters: expected a JSON Schema with "type": "object"')
    extra = {key: value for key, value in body.items() if key not in ("type", "name", "description", "parameters")}
    return {
        "name": name,
        "description": body.get("description") or description,
        "parameters": {"type": "object", **parameters},
        **extra,
    }


def _caller() -> str:
    """The module that registers: the first frame outside the contract."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("toolcrib."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "?"))


registry = ToolRegistry()
"""The one that built-in tools register with."""
