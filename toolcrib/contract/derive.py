"""``@tool`` makes a tool from a function, and its schema from the signature and the docstring."""

from __future__ import annotations

import functools
import inspect
import typing
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.entry import ToolEntry, is_async_callable, refuse_generator
from toolcrib.contract.errors import InvalidArguments, RegistrationError
from toolcrib.contract.registry import ToolRegistry, registry
from toolcrib.contract.types import Json

F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, toolset: str = "custom", name: str = "", registry: ToolRegistry = registry, **options: Any) -> Callable[[F], F]: ...
def tool(
    function: F | None = None, /, *, toolset: str = "custom", name: str = "", registry: ToolRegistry = registry, **options: Any
) -> F | Callable[[F], F]:
    """Register a function as a tool, and return the function unchanged.

        @tool(toolset="weather")
        def forecast(city: str, days: int = 3) -> str:
            '''Forecast the weather.

            Args:
                city: Where, such as "Oslo".
                days: How many days ahead.
            '''

    Parameters need type annotations, of any kind that pydantic can check. A parameter annotated ToolCallContext (or named
    ``ctx``) receives the context and is not shown to the model. ``options`` are those of ``registry.register``.
    Raises RegistrationError if no schema can be made.
    """

    def decorate(target: F) -> F:
        schema, model, ctx_name = _derive(target)
        tool_name = name or target.__name__
        handler = _handler(target, model, ctx_name)
        _entries[target] = registry.register(tool_name, toolset, schema, handler, is_async=is_async_callable(target), **options)
        return target

    return decorate if function is None else decorate(function)


_entries: weakref.WeakKeyDictionary[Callable[..., Any], ToolEntry] = weakref.WeakKeyDictionary()
"""Entry of each function's latest registration."""


def entry_of(function: Callable[..., Any]) -> ToolEntry:
    """Return the entry that ``@tool`` made of a function. Raises RegistrationError if it made none."""
    try:
        return _entries[function]
    except (KeyError, TypeError):
        raise RegistrationError(
            f"{function!r} is not a tool: put @tool above the function, or pass a Tool or a ToolEntry"
        ) from None


def _derive(function: Callable[..., Any]) -> tuple[dict[str, Json], Any, str | None]:
    """Return the function schema, a pydantic model of the arguments, and the name of the context parameter."""
    from docstring_parser import parse
    from pydantic import ConfigDict, Field, create_model

    label = f"{function.__module__}.{function.__qualname__}"
    refuse_generator(function)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise RegistrationError(f"{label}: its annotations can't be read: {error}") from error
    doc = parse(inspect.getdoc(function) or "")
    described = {param.arg_name: (param.description or "").strip() for param in doc.params}
    fields: dict[str, Any] = {}
    ctx_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "ctx" or hints.get(parameter.name) is ToolCallContext:
            ctx_name = parameter.name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise RegistrationError(f"{label}: parameter {parameter.name!r} must be a plain named parameter")
        if parameter.name not in hints:
            raise RegistrationError(f"{label}: parameter {parameter.name!r} needs a type annotation")
        # Fields are numbered, and the parameters' names are aliases: a pydantic model already has the names json and copy, and
        # refuses _x.
        options: dict[str, Any] = {"alias": parameter.name}
        if described.get(parameter.name):
            options["description"] = described[parameter.name]
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"p{len(fields)}"] = (hints[parameter.name], Field(default, **options))
    try:
        model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        parameters = model.model_json_schema()
    except Exception as error:
        raise RegistrationError(f"{label}: its signature has no JSON Schema: {error}") from error
    text = "\n\n".join(part.strip() for part in (doc.short_description, doc.long_description) if part)
    return {"description": text or function.__name__, "parameters": _without_titles(parameters)}, model, ctx_name


def _handler(function: Callable[..., Any], model: Any, ctx_name: str | None) -> Callable[..., Any]:
    from pydantic import ValidationError

    fields = model.model_fields

    @functools.wraps(function)
    def handle(args: dict[str, Json], ctx: ToolCallContext) -> Any:
        try:
            checked = model.model_validate(args)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in first["loc"])
            raise InvalidArguments(f"{path}: {first['msg']}") from error
        named = {str(info.alias): getattr(checked, key) for key, info in fields.items()}
        if ctx_name is not None:
            named[ctx_name] = ctx
        return function(**named)

    # The registry reads the signature, and must see this one rather than the function's.
    del handle.__wrapped__
    return handle


def _without_titles(schema: Json) -> Json:
    """Return a schema without the titles that pydantic gives every field: noise for a model. A property named title stays, and
    so do values, such as defaults.
    """
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(sub) for name, sub in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("default", "const", "enum", "examples")
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
