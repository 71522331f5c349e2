"""Checks of a registration. An invalid one is refused with an error that names the module, the tool and the key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, get_args

from toolcrib.contract.dataclass import replace
from toolcrib.contract.display import ToolDisplay
from toolcrib.contract.entry import Changes, Invoke, Need, ToolEntry, bind_handler, is_async_callable
from toolcrib.contract.errors import RegistrationError
from toolcrib.contract.regex import Regex
from toolcrib.contract.state import SCOPES, StateKey
from toolcrib.contract.types import EMPTY_PARAMETERS, Handler, Json, Kind

_NEAR_PARAMETERS = ("properties", "input_schema", "inputSchema", "parametersJsonSchema")
"""Keys that other formats use for the parameters. If they were ignored, the tool would seem to take no arguments."""
_NAME = Regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def recheck(entry: ToolEntry, where: str) -> Mapping[str, Json]:
    """Return the parameters of an entry from another registry. Raises RegistrationError like ``register``, because the entry
    may be a changed copy.
    """
    text(entry.toolset, f"{where}: toolset")
    function_schema(entry.name, entry.schema, entry.description, where)
    # If the schema had another name, models and gates would know the tool by different names.
    if entry.schema.get("name") != entry.name:
        raise RegistrationError(f"{where}: bad schema at $.name: expected {entry.name!r}, got {entry.schema.get('name')!r}")
    if "parameters" not in entry.schema:
        raise RegistrationError(f'{where}: bad schema at $.parameters: expected a JSON Schema with "type": "object"')
    refuse_bad_options(entry, where)
    parameters: Mapping[str, Json] = entry.schema["parameters"]
    return parameters


def refuse_bad_options(entry: ToolEntry, where: str) -> None:
    """Raise RegistrationError for options of a tool with unknown or wrong values."""
    # A mistyped kind would let a tool act without the gate that ``edit`` and ``execute`` must pass.
    if entry.kind not in get_args(Kind):
        raise RegistrationError(f"{where}: kind is one of {', '.join(get_args(Kind))}; got {entry.kind!r}")
    if entry.timeout is not None and not entry.timeout > 0:
        raise RegistrationError(f"{where}: timeout must be seconds above 0, or None; got {entry.timeout!r}")
    for option in ("check_fn", "effects", "dynamic_schema", "validate"):
        function = getattr(entry, option)
        if function is not None and not callable(function):
            raise RegistrationError(f"{where}: {option} must be a function, got {function!r}")
        if option != "effects" and is_async_callable(function):  # no caller awaits it, and a coroutine counts as true
            raise RegistrationError(f"{where}: {option} must be a plain function, not async")
    _refuse_bad_traits(entry, where)
    for key in entry.state:
        if not isinstance(key, StateKey) or key.scope not in SCOPES or not isinstance(key.type, type):
            raise RegistrationError(f"{where}: state is a list of StateKey(name, type, scope), got {key!r}")
    if entry.check_fn is not None and entry.check_fn.__hash__ is None:
        raise RegistrationError(f"{where}: check_fn must be hashable, so that tools can share it")


def _refuse_bad_traits(entry: ToolEntry, where: str) -> None:
    for option, known in (("changes", get_args(Changes)), ("needs", get_args(Need))):
        if (value := getattr(entry, option)) not in known:
            raise RegistrationError(f"{where}: {option} is one of {', '.join(map(repr, known))}; got {value!r}")
    if entry.kind in ("edit", "execute") and entry.changes in ("nothing", "declared"):
        raise RegistrationError(f"{where}: a tool of the kind {entry.kind!r} changes something; got changes={entry.changes!r}")
    if type(entry.polls) is not bool and (not callable(entry.polls) or is_async_callable(entry.polls)):
        raise RegistrationError(f"{where}: polls is True, False or a plain function of the arguments, got {entry.polls!r}")
    if not isinstance(entry.display, ToolDisplay):
        raise RegistrationError(f"{where}: display is a ToolDisplay(...), got {entry.display!r}")
    if entry.file and entry.file not in entry.schema["parameters"].get("properties", {}):
        raise RegistrationError(f"{where}: file names an argument of the schema, got {entry.file!r}")


if TYPE_CHECKING:  # importing it would slow the start of every process
    from typing import TypedDict

    class HermesOptions(TypedDict, total=False):
        """Options of ``register`` that hermes modules use. None of them allows a tool to replace another: the operator does."""

        max_result_size_chars: float | None
        """The tool's ``max_result_chars``; infinity if the tool sets no limit."""
        dynamic_schema_overrides: Callable[[], Mapping[str, Json] | None] | None
        """Returns keys that replace those of the schema, each time the schema is shown."""
        override: bool
        """The tool replaces another toolset's tool on purpose: no warning is logged."""

else:
    HermesOptions = dict

_HERMES = ("max_result_size_chars", "dynamic_schema_overrides", "override")


def with_hermes(entry: ToolEntry, options: HermesOptions, where: str) -> ToolEntry:
    """Return the entry with these options. Raises RegistrationError for a wrong value, TypeError for an unknown option."""
    for name in options:
        if name not in _HERMES:
            raise TypeError(f"register() got an unexpected keyword argument {name!r}")
    size, overrides = options.get("max_result_size_chars"), options.get("dynamic_schema_overrides")
    if size is not None and size != math.inf:
        if isinstance(size, bool) or not isinstance(size, int | float) or not size > 0 or size != int(size):
            raise RegistrationError(f"{where}: max_result_size_chars must be a whole number above 0, or infinity; got {size!r}")
        entry = replace(entry, max_result_chars=int(size))
    if overrides is not None:
        if not callable(overrides) or is_async_callable(overrides):
            raise RegistrationError(f"{where}: dynamic_schema_overrides must be a plain function, got {overrides!r}")
        entry = replace(entry, dynamic_schema=lambda schema, available: {**schema, **(overrides() or {})})
    return entry


def bound(handler: Handler | None, where: str) -> Invoke | None:
    """Return a tool's handler in the form that the dispatcher calls, or None for a tool that the agent loop runs. Raises
    RegistrationError.
    """
    try:
        return None if handler is None else bind_handler(handler)
    except RegistrationError as error:
        raise RegistrationError(f"{where}: {error}") from None


def text(value: object, where: str) -> str:
    """Return the name, or raise RegistrationError if it is empty or not a string."""
    if not isinstance(value, str) or not value:
        raise RegistrationError(f"{where}: expected a name, got {value!r}")
    return value


def function_schema(name: str, schema: Mapping[str, Json], description: str, where: str) -> dict[str, Json]:
    """Return the tool's function schema. Raises RegistrationError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(f"{where}: a tool's name has 1 to 128 letters, digits, '_', '.' or '-'")
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
    for key in _NEAR_PARAMETERS:
        if key in body and "parameters" not in body:
            inside = "{'properties': ...}" if key == "properties" else f"the value of {key!r}"
            raise RegistrationError(f"{where}: bad schema at $.{key}: put {inside} under 'parameters'")
    extra = {key: value for key, value in body.items() if key not in ("type", "name", "description", "parameters")}
    return {
        "name": name,
        "description": body.get("description") or description,
        "parameters": {"type": "object", **parameters},
        **extra,
    }
