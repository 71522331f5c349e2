"""``@tool``: the schema from signature and docstring, and the call."""

# No `from __future__ import annotations` here: the types below are local to their tests, as plain objects.

import asyncio
import dataclasses
import enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from toolcrib import InvalidArguments, RegistrationError, ToolCallContext, ToolRegistry, registry, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Book(pydantic.BaseModel):
    title: str
    pages: int | None = None


def parameters(reg: ToolRegistry, name: str) -> Any:
    return reg.get_definitions([name])[0]["function"]["parameters"]


def call(reg: ToolRegistry, name: str, args: dict[str, Any], ctx: Any = None) -> Any:
    entry = reg.get(name)
    assert entry is not None
    assert entry.invoke is not None
    return entry.invoke(args, ctx, {})


def test_a_function_becomes_a_tool(reg: ToolRegistry) -> None:
    @tool(toolset="weather", registry=reg, emoji="W", kind="read")
    def forecast(city: str, days: int = 3) -> str:
        """Forecast the weather.

        From the nearest station.

        Args:
            city: Where, such as "Oslo".
            days: How many days ahead.
        """
        return f"{city} {days}"

    assert forecast("Rome") == "Rome 3", "the function itself is unchanged"
    entry = reg.get("forecast")
    assert entry is not None
    assert (entry.toolset, entry.emoji, entry.kind, entry.is_async, entry.module) == ("weather", "W", "read", False, __name__)
    assert reg.get_definitions() == [
        {
            "type": "function",
            "function": {
                "name": "forecast",
                "description": "Forecast the weather.\n\nFrom the nearest station.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": 'Where, such as "Oslo".'},
                        "days": {"type": "integer", "default": 3, "description": "How many days ahead."},
                    },
                    "required": ["city"],
                    "additionalProperties": False,
                },
            },
        }
    ]
    assert call(reg, "forecast", {"city": "Oslo"}) == "Oslo 3"


def test_the_bare_form_registers_with_the_one_registry() -> None:
    try:

        @tool
        def bare_form(word: str) -> str:
            return word

        assert (entry := registry.get("bare_form")) is not None
        assert entry.toolset == "custom"
        assert entry.description == "bare_form"
    finally:
        registry.unregister("bare_form")


@pytest.mark.parametrize(
    "doc",
    [
        "Add.\n\nArgs:\n    left: The left one.\n",
        "Add.\n\n:param left: The left one.\n",
        "Add.\n\nParameters\n----------\nleft : int\n    The left one.\n",
        "Add.\n\n@param left: The left one.\n",
    ],
    ids=["google", "rest", "numpy", "epydoc"],
)
def test_docstring_styles(reg: ToolRegistry, doc: str) -> None:
    def add(left: int) -> int:
        return left

    add.__doc__ = doc
    tool(registry=reg)(add)
    assert parameters(reg, "add")["properties"]["left"] == {"type": "integer", "description": "The left one."}
    assert reg.get_definitions()[0]["function"]["description"] == "Add."


def test_annotated_descriptions_and_limits(reg: ToolRegistry) -> None:
    @tool(registry=reg, name="short")
    def function(word: Annotated[str, pydantic.Field(description="A word.", max_length=3)]) -> str:
        return word

    assert parameters(reg, "short")["properties"]["word"] == {"type": "string", "description": "A word.", "maxLength": 3}
    with pytest.raises(InvalidArguments, match=r"word: .*at most 3"):
        call(reg, "short", {"word": "long one"})


def test_types(reg: ToolRegistry) -> None:
    @tool(registry=reg)
    def many(
        maybe: str | None = None,
        mode: Literal["a", "b"] = "a",
        rows: list[dict[str, int]] | None = None,
        colour: Colour = Colour.RED,
        at: Point | None = None,
        book: Book | None = None,
    ) -> Any:
        return maybe, mode, rows, colour, at, book

    properties = parameters(reg, "many")["properties"]
    assert properties["maybe"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert properties["mode"]["enum"] == ["a", "b"]
    assert "required" not in parameters(reg, "many")
    definitions = parameters(reg, "many")["$defs"]
    assert definitions["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert definitions["Book"]["properties"]["title"] == {"type": "string"}, "a property called title stays"
    assert call(reg, "many", {}) == (None, "a", None, Colour.RED, None, None)
    args = {"rows": [{"n": 1}], "colour": "blue", "at": {"x": 3}, "book": {"title": "T"}}
    assert call(reg, "many", args) == (None, "a", [{"n": 1}], Colour.BLUE, Point(3, 0), Book(title="T"))


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({}, "at: Field required"),
        ({"at": {"x": "far"}}, "at.x: Input should be a valid integer"),
        ({"at": {"x": 1}, "mode": "c"}, "mode: Input should be 'a' or 'b'"),
        ({"at": {"x": 1}, "new": 1}, "new: Extra inputs are not permitted"),
        ({"at": {"x": 1}, "colour": "green"}, "colour: Input should be 'red' or 'blue'"),
    ],
)
def test_bad_arguments_become_invalid_arguments(reg: ToolRegistry, args: dict[str, Any], path: str) -> None:
    """002-11"""

    @tool(registry=reg)
    def move(at: Point, mode: Literal["a", "b"] = "a", colour: Colour | None = None) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        call(reg, "move", args)
    assert caught.value.text.startswith(path)


def test_names_that_a_model_class_has_itself(reg: ToolRegistry) -> None:
    @tool(registry=reg)
    def awkward(json: str, copy: bool = False, schema: int = 1, model_dump: int = 2, _private: int = 3) -> Any:
        return json, copy, schema, model_dump, _private

    assert list(parameters(reg, "awkward")["properties"]) == ["json", "copy", "schema", "model_dump", "_private"]
    assert call(reg, "awkward", {"json": "{}", "copy": True, "_private": 4}) == ("{}", True, 1, 2, 4)
    with pytest.raises(InvalidArguments, match=r"^Invalid arguments: json: "):
        call(reg, "awkward", {})


def test_a_default_keeps_its_title(reg: ToolRegistry) -> None:
    @tool(registry=reg)
    def shelve(book: dict[str, str] = {"title": "Emma"}) -> Any:  # noqa: B006 - the default is the subject
        return book

    assert parameters(reg, "shelve")["properties"]["book"]["default"] == {"title": "Emma"}


def test_an_async_function(reg: ToolRegistry) -> None:
    @tool(registry=reg)
    async def later(word: str) -> str:
        return word * 2

    entry = reg.get("later")
    assert entry is not None
    assert entry.is_async
    assert asyncio.run(call(reg, "later", {"word": "ab"})) == "abab"


def test_the_context_is_handed_in_and_not_shown(reg: ToolRegistry) -> None:
    @tool(registry=reg)
    def by_type(word: str, where: ToolCallContext) -> Any:
        return word, where

    @tool(registry=reg)
    def by_name(ctx, word: str) -> Any:  # type: ignore[no-untyped-def]  # the name alone is enough
        return word, ctx

    for name in ("by_type", "by_name"):
        assert list(parameters(reg, name)["properties"]) == ["word"]
        assert call(reg, name, {"word": "x"}, "the context") == ("x", "the context")


def test_what_cannot_be_derived_is_refused(reg: ToolRegistry) -> None:
    def untyped(word): ...  # type: ignore[no-untyped-def]  # that is the fault

    def variadic(*words: str) -> None: ...

    def unknown(word: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the fault

    class Opaque: ...

    def opaque(thing: Opaque) -> None: ...

    for function, says in (
        (untyped, "'word' needs a type annotation"),
        (variadic, "'words' must be a plain named parameter"),
        (unknown, "annotations can't be read"),
        (opaque, "its signature has no JSON Schema"),
    ):
        with pytest.raises(RegistrationError, match=says) as caught:
            tool(registry=reg)(function)
        assert function.__name__ in str(caught.value)
    assert reg.names() == []


def test_registration_errors_name_the_author_s_module(reg: ToolRegistry) -> None:
    def fine(word: str) -> None: ...

    with pytest.raises(RegistrationError, match=f"^{__name__}: tool 'not a name'"):
        tool(registry=reg, name="not a name")(fine)
