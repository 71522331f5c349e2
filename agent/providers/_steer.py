"""Steers the next replies, if the server supports it: no call, some call, a call of one tool, or JSON that matches a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.contract.regex import Regex

_CHOICE = Regex(r"tool_?choice|tool_?config|function_?calling_?config")
_SCHEMA = Regex(r"response_?format|text\.format|json_?schema|output_?config|response_?(json_?)?schema|response_?mime|grammar")


class Steer:
    """The steering of one session's replies.

    ``tool_choice`` is "auto", "none", "required" or a tool's name; ``schema`` a JSON Schema for the text, or None.
    A field that a server refuses is left out from then on; then only the prompt steers the model.
    """

    def __init__(
        self, choice_fields: Callable[[str], dict[str, Any]], schema_fields: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """Begin without steering. ``choice_fields`` returns the wire's fields for a choice, ``schema_fields`` for a schema."""
        self._choice_fields = choice_fields
        self._schema_fields = schema_fields
        self._takes_choice = True
        self._takes_schema = True
        self.tool_choice = "auto"
        self.schema: Mapping[str, Any] | None = None

    def set(self, tool_choice: str, schema: Mapping[str, Any] | None) -> None:
        self.tool_choice, self.schema = tool_choice, schema

    @property
    def forces(self) -> bool:
        """True if the next reply must contain a call."""
        return self._takes_choice and self.tool_choice not in ("auto", "none")

    def choice(self) -> dict[str, Any]:
        """Return the fields of a request that steer calls. They may be sent only with tools."""
        if self.tool_choice == "auto" or not self._takes_choice:
            return {}
        return self._choice_fields(self.tool_choice)

    def format(self) -> dict[str, Any]:
        """Return the fields of a request that steer the text."""
        if self.schema is None or not self._takes_schema:
            return {}
        return self._schema_fields(dict(self.schema))

    def adapt(self, said: str) -> bool:
        """Leave out the field that a refusal names, for calls or for text; return False if it names neither.

        ``said`` is the refusal's text in lower case.
        """
        if self.choice() and _CHOICE.search(said):
            self._takes_choice = False
        elif self.format() and (_SCHEMA.search(said) or "schema" in said):
            self._takes_schema = False
        else:
            return False
        return True
