"""Wishes for the next replies, in each wire's own fields: with calls or without, one tool, JSON of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.contract.regex import Regex

_CHOICE = Regex(r"tool_?choice|tool_?config|function_?calling_?config")
_SCHEMA = Regex(r"response_?format|text\.format|json_?schema|output_?config|response_?(json_?)?schema|response_?mime|grammar")


class Steer:
    """``tool_choice`` is "auto", "none", "required" or a tool's name; ``schema`` a JSON Schema for the reply's text, or None.

    What a server refuses is left out from then on, and is then a matter of the prompt.
    """

    def __init__(self, wire: str, named: Callable[[str], str]) -> None:
        self._wire = wire
        self._named = named
        self._takes_choice = True
        self._takes_schema = True
        self.tool_choice = "auto"
        self.schema: Mapping[str, Any] | None = None

    def set(self, tool_choice: str, schema: Mapping[str, Any] | None) -> None:
        self.tool_choice, self.schema = tool_choice, schema

    @property
    def forces(self) -> bool:
        """Return whether a call has to come."""
        return self._takes_choice and self.tool_choice not in ("auto", "none")

    def choice(self) -> dict[str, Any]:
        """Fields about calls, for a request that has tools."""
        if self.tool_choice == "auto" or not self._takes_choice:
            return {}
        wanted = self.tool_choice
        if self._wire == "gemini":
            config: dict[str, Any] = {"mode": "NONE" if wanted == "none" else "ANY"}
            if wanted not in ("none", "required"):
                config["allowedFunctionNames"] = [self._named(wanted)]
            return {"toolConfig": {"functionCallingConfig": config}}
        if self._wire == "anthropic":
            plain = {"none": {"type": "none"}, "required": {"type": "any"}}
            return {"tool_choice": plain.get(wanted) or {"type": "tool", "name": self._named(wanted)}}
        if wanted in ("none", "required"):
            return {"tool_choice": wanted}
        name = {"name": self._named(wanted)}
        return {"tool_choice": {"type": "function", **(name if self._wire == "responses" else {"function": name})}}

    def format(self) -> dict[str, Any]:
        """Fields about the text; for Gemini those of its ``generationConfig``."""
        if self.schema is None or not self._takes_schema:
            return {}
        schema = dict(self.schema)
        if self._wire == "gemini":
            return {"responseMimeType": "application/json", "responseJsonSchema": schema}
        if self._wire == "anthropic":
            return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        # Not strict: that is refused for schemas with optional fields, and the reply is checked by us anyway.
        named = {"name": "answer", "schema": schema, "strict": False}
        if self._wire == "responses":
            return {"text": {"format": {"type": "json_schema", **named}}}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def adapt(self, said: str) -> bool:
        """Leave out what was refused with these words (lower case); False where that was something else."""
        if self.choice() and _CHOICE.search(said):
            self._takes_choice = False
        elif self.format() and (_SCHEMA.search(said) or "schema" in said):
            self._takes_schema = False
        else:
            return False
        return True
