"""The registry of tools. Tool modules call ``registry.register(...)`` when they are imported (003-1)."""

from __future__ import annotations

import copy
import json
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, Unpack

from toolcrib.contract.available import let_pass, why_not
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.declared import HermesOptions, bound, function_schema, recheck, refuse_bad_options, text, with_hermes
from toolcrib.contract.display import NO_DISPLAY, ToolDisplay
from toolcrib.contract.entry import Changes, DynamicSchema, EffectsFn, Need, ToolEntry, is_async_callable
from toolcrib.contract.errors import RegistrationError
from toolcrib.contract.frozen import freeze
from toolcrib.contract.state import StateKey
from toolcrib.contract.suggest import near
from toolcrib.contract.types import CheckFn, Handler, Json, Kind, Tool

_log = logging.getLogger(__name__)
_SLOW = 1.0
"""Seconds after which a slow check_fn is reported."""
_adopter: ContextVar[ToolRegistry | None] = ContextVar("toolcrib_adopter", default=None)


class Dispatch(Protocol):
    def __call__(self, name: str, args: Any, **kwargs: Any) -> str: ...


class SchemaCheck(Protocol):
    def __call__(self, parameters: Mapping[str, Json]) -> tuple[str, str] | None:
        """Return None for a valid JSON Schema, else (JSON path of the fault, what is wrong)."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that doctor shows: its subject, the reason, and how to fix it."""

    subject: str
    reason: str
    fix: str = ""


class ToolRegistry:
    """Tools by name. Registering is thread-safe; ``generation`` grows with every change, for caches."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolEntry] = {}
        self._lent: dict[str, ToolEntry] = {}
        """Entries that children see: all except those registered while this registry was ``adopting``."""
        self._lock = threading.RLock()
        self._dispatch: Dispatch | None = None
        self._check_schema: SchemaCheck | None = None
        self._trusted: Collection[str] = ()
        self._shown: dict[tuple[str, ...], tuple[int, list[Mapping[str, Json]]]] = {}
        self._guard: Callable[[ToolEntry | None, ToolEntry], None] | None = None
        self._parent: ToolRegistry | None = None
        self._own: set[str] = set()
        self._gone: dict[str, str] = {}
        self._children: weakref.WeakSet[ToolRegistry] = weakref.WeakSet()
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
        requires_env: Sequence[str] | None = (),
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
        state: Sequence[StateKey[Any]] = (),
        display: ToolDisplay = NO_DISPLAY,
        file: str = "",
        changes: Changes = "unknown",
        lasting: str = "",
        needs: Need = "",
        polls: bool | Callable[[Mapping[str, Json]], bool] = False,
        **hermes: Unpack[HermesOptions],
    ) -> ToolEntry:
        """Declare a tool.

        ``schema`` is OpenAI's function format: ``{"description": ..., "parameters": {JSON Schema of type object}}``.
        ``handler`` takes ``(args)`` or ``(args, ctx)``, sync or async; None for a tool that the agent loop runs.
        ``check_fn`` returns whether the tool can work here: a falsy value, ``Unavailable(reason)`` or an exception hides it.
        ``effects`` returns what a call would do, for the gates; ``state`` lists the keys of the state that the tool reads and
        writes. See ToolEntry for the rest; ``hermes`` are max_result_size_chars, dynamic_schema_overrides and override, as in
        hermes-agent.

        A later registration of the same name replaces the earlier one, with a warning if the toolset differs (003-3). Raises
        RegistrationError, which names the module, the tool and the JSON path.
        """
        module = _caller()
        where = f"{module}: tool {name!r}"
        function = function_schema(name, schema, description, where)
        self._check(function["parameters"], where)
        invoke = bound(handler, where)
        entry = ToolEntry(
            name=name, toolset=text(toolset, f"{where}: toolset"), schema=freeze(function), handler=handler, invoke=invoke,
            id=id or name, check_fn=check_fn, requires_env=tuple(requires_env or ()), emoji=emoji, kind=kind, validate=validate,
            is_async=is_async or (handler is not None and is_async_callable(handler)), parallel_safe=parallel_safe,
            description=description or str(function["description"]), interactive=interactive, repeatable=repeatable,
            timeout=timeout, max_result_chars=max_result_chars, effects=effects, state=tuple(state), module=module, file=file,
            dynamic_schema=dynamic_schema, display=display, changes=changes, lasting=lasting, needs=needs, polls=polls,
        )  # fmt: skip
        entry = with_hermes(entry, hermes, where) if hermes else entry
        refuse_bad_options(entry, where)
        self._put(entry, on_purpose=bool(hermes.get("override")))
        return entry

    def add(self, tool: Tool, toolset: str | None = None, **options: Any) -> ToolEntry:
        """Register a Tool object (002-4). The toolset defaults to the descriptor's category; ``options`` are those of
        ``register``.
        """
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
        """Add an entry that another registry made. Raises as ``register`` does."""
        where = f"{entry.module}: tool {entry.name!r}"
        self._check(recheck(entry, where), where)
        self._put(entry)
        return entry

    def _put(self, entry: ToolEntry, *, on_purpose: bool = False) -> None:
        adopter = self._adopter()
        if adopter is not None:
            return adopter._put(entry, on_purpose=on_purpose)
        with self._lock:
            old = self._tools.get(entry.name)
            if self._guard is not None:
                self._guard(old, entry)
            if old is not None and old.toolset != entry.toolset and not on_purpose:
                first, second = f"{old.module} (toolset {old.toolset!r})", f"{entry.module} (toolset {entry.toolset!r})"
                reason = f"registered by {first} and again by {second}; the later one is used"
                _log.warning("tool %r: %s", entry.name, reason)
                self._note(Problem(f"tool {entry.name}", reason, "rename one of the two"))
            self._tools[entry.name] = entry
            self._gone.pop(entry.name, None)
            self._own.add(entry.name)
            self.generation += 1
            self._lend(entry.name, entry)
        return None

    def unregister(self, name: str, *, reason: str = "") -> bool:
        """Remove a tool, and return False if no tool has that name. Later calls of it fail with the ``reason``."""
        adopter = self._adopter()
        if adopter is not None:
            return adopter.unregister(name, reason=reason)
        with self._lock:
            self._gone[name] = reason
            was_there = self._tools.pop(name, None) is not None
            self._own.add(name)
            self.generation += 1  # last, so that a cache filled in between does not count as current
            self._lend(name, None)
            return was_there

    # -- children: registries that share these tools -------------------------------------------------------------

    def child(self) -> ToolRegistry:
        """Return a registry with these tools, and with those registered here later. Tools registered in the child stay there."""
        made = ToolRegistry()
        with self._lock:
            made._parent, made._check_schema, made._trusted = self, self._check_schema, self._trusted
            made._tools, made._lent, made.problems = dict(self._lent), dict(self._lent), list(self.problems)
            self._children.add(made)
        return made

    def _lend(self, name: str, entry: ToolEntry | None) -> None:
        if _adopter.get() is self:
            return
        _set(self._lent, name, entry)
        for child in list(self._children):
            child._inherit(name, entry)

    def _inherit(self, name: str, entry: ToolEntry | None) -> None:
        with self._lock:
            if name in self._own:
                return
            _set(self._tools, name, entry)
            _set(self._lent, name, entry)
            self.generation += 1

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Within this block, tools that this thread registers with the parent registry are registered here instead, and children
        do not see tools registered here. For the plugin loader: a plugin's module may register tools when it is imported.
        """
        token = _adopter.set(self)
        try:
            yield
        finally:
            _adopter.reset(token)

    def _adopter(self) -> ToolRegistry | None:
        adopter = _adopter.get()
        return adopter if adopter is not None and adopter._parent is self else None

    def guard(self, check: Callable[[ToolEntry | None, ToolEntry], None] | None) -> None:
        """Call ``check(old, new)`` before each registration; it raises RegistrationError to refuse. For the plugin loader."""
        self._guard = check

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that restores the current tools. For the plugin loader, if a plugin fails during loading."""
        tools, lent, own, problems = dict(self._tools), dict(self._lent), set(self._own), list(self.problems)

        def take_back() -> None:
            with self._lock:
                self._tools, self._lent, self._own, self.problems = dict(tools), dict(lent), set(own), list(problems)
                self.generation += 1

        return take_back

    def attach(self, dispatch: Dispatch, check_schema: SchemaCheck, *, trusted: Collection[str] = ()) -> None:
        """Give the registry its dispatcher and its schema checker, and check the tools that are registered already.

        A tool with a bad schema is removed, logged, and kept among ``problems``. Tools of ``trusted`` modules are not checked.
        """
        known, self._dispatch, self._check_schema = self._check_schema, dispatch, check_schema
        if known is check_schema:
            return
        self._trusted = trusted
        for entry in [one for one in self._tools.values() if one.module not in trusted]:
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

    # -- lookup --------------------------------------------------------------------------------------------------

    def get(self, name: str) -> ToolEntry | None:
        """Return the entry with that name, or None."""
        return self._tools.get(name)

    def why_gone(self, name: str) -> str:
        """Return why a tool was removed, or "" if no reason is known or none was removed."""
        return self._gone.get(name, "")

    def names(self) -> list[str]:
        """Return all names in order of registration, available or not."""
        return list(self._tools)

    def entries(self) -> list[ToolEntry]:
        return list(self._tools.values())

    def toolsets(self) -> dict[str, list[str]]:
        """Return the tool names by the toolset that they were registered under."""
        found: dict[str, list[str]] = {}
        for entry in list(self._tools.values()):
            found.setdefault(entry.toolset, []).append(entry.name)
        return found

    def closest(self, name: str) -> str | None:
        """Return the registered name most similar to a mistyped one, or None."""
        match = near(name, self._tools)
        return match[0] if match else None

    # -- availability --------------------------------------------------------------------------------------------

    def availability(self, names: Iterable[str] | None = None) -> dict[str, str | None]:
        """Return for each registered tool the reason why it can't work here, or None if it can. With ``names``, return only these
        tools, in the order of the names unless they are a set.

        A check_fn that several tools share runs once for all of them (003-8). If it raises, they are unavailable (003-9).
        """
        if names is None or isinstance(names, Set):  # a set has no order worth keeping, and prompt caches need a fixed one
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
                began = time.monotonic()
                reasons[entry.check_fn] = why_not(entry)
                if (took := time.monotonic() - began) >= _SLOW:
                    self._is_slow(entry, took)
            found[entry.name] = reasons[entry.check_fn]
        return found

    def _is_slow(self, entry: ToolEntry, took: float) -> None:
        reason = f"its check_fn ({entry.module}) took {took:.1f} s, and every session waits for it"
        if self._note(Problem(f"tool {entry.name}", reason, "check only local state in it, without the network")):
            _log.warning("tool %r: %s", entry.name, reason)

    def _note(self, problem: Problem) -> bool:
        """Keep the problem and return True, or return False if a problem of this kind is kept already."""
        known = any((one.subject, one.fix) == (problem.subject, problem.fix) for one in self.problems)
        if not known:
            self.problems.append(problem)
        return not known

    def is_toolset_available(self, toolset: str) -> bool:
        """Return whether any tool registered under this toolset can work here (003-10)."""
        names = self.toolsets().get(toolset, [])
        return any(reason is None for reason in self.availability(names).values())

    def get_definitions(self, names: Iterable[str] | None = None) -> list[Mapping[str, Json]]:
        """Return the schemas, in OpenAI's form, of the tools that can work here (003-7), selected as by ``availability``.

        Tools with a ``dynamic_schema`` have the schema that it returns (003-15). The schemas are shared and read-only: change a
        ``copy.deepcopy``.
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
        if entry is None or entry.dynamic_schema is None:  # None: another thread removed it
            return None if entry is None else freeze(entry.definition)
        try:
            patched = entry.dynamic_schema(copy.deepcopy(dict(entry.schema)), available)
            if entry.module not in self._trusted:
                self._check(patched["parameters"], f"{entry.module}: tool {name!r}")
        except BaseException as error:  # noqa: BLE001 - a plugin's function: the other tools stay, whatever it raises
            let_pass(error)
            reason = f"it is missing: its dynamic_schema ({entry.module}) failed: {type(error).__name__}: {error}"
            if self._note(Problem(f"tool {name}", reason, "fix it, or disable its plugin")):
                _log.warning("tool %r: %s", name, reason)
            return None
        return freeze({"type": "function", "function": {**patched, "name": name}})  # type: ignore[no-any-return]  # as above

    # -- running -------------------------------------------------------------------------------------------------

    def dispatch(self, name: str, args: Any, **kwargs: Any) -> str:
        """Run a tool through hooks and gates, and always return JSON text; never raises because of the call (003-19, 003-21)."""
        if self._dispatch is None:
            return json.dumps({"error": f"Error executing {name}: no dispatcher is attached; import model_tools first"})
        return self._dispatch(name, args, **kwargs)


def _set(tools: dict[str, ToolEntry], name: str, entry: ToolEntry | None) -> None:
    if entry is None:
        tools.pop(name, None)
    else:
        tools[name] = entry


def _caller() -> str:
    """Return the name of the module that registers a tool: the module of the first frame outside the package ``toolcrib``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("toolcrib."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "?"))


registry = ToolRegistry()
"""The registry that built-in tools register with."""
