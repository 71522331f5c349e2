"""Answers as data: the model gets the schema, the server enforces it if its API can, and every answer is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_origin

from agent.conversation.limits import AnswerUnfit
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.regex import Regex
from tools.arguments import check_schema, make_validator

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from agent.conversation.state import RunResult

_ASK = "\n\nYour final answer must be one JSON value, without any other text, that matches this JSON Schema:\n"
AGAIN = (
    "That answer does not match: {why}. Give the whole answer again, as one JSON value that matches the schema and nothing else."
)
_FENCED = Regex(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_SHOWN = 3


class AnswerCheck:
    """Checks answers against a JSON Schema (Draft 2020-12 unless ``$schema`` differs).

    Raises ConfigError for an invalid schema.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        fault = check_schema(schema)
        if fault is not None:
            raise ConfigError(f"the schema of the answer is not a JSON Schema: {fault[0].replace('.parameters', '')}: {fault[1]}")
        self.schema = dict(schema)
        self._validator = make_validator(self.schema)

    def request(self, text: str) -> str:
        """Return the user's text with a description of the schema for the model."""
        return text + _ASK + json.dumps(self.schema, ensure_ascii=False)

    def read(self, text: str, value: Any = None) -> Any:
        """Return the answer's value, or ``value`` from a text protocol if that matches the schema.

        Raises ValueError with a reason for the model.
        """
        if value is not None and self._validator.is_valid(value):
            return value
        text = text.strip()
        fenced = _FENCED.findall(text)
        try:
            value = json.loads(fenced[0] if len(fenced) == 1 else text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON ({error})") from None
        faults = []
        for fault in self._validator.iter_errors(value):
            faults.append(f"at {'/'.join(map(str, fault.instance_path)) or 'the top'}: {fault.message[:300]}")
            if len(faults) == _SHOWN:
                break
        if faults:
            raise ValueError("; ".join(faults))
        return value


class AnswerType:
    """The wanted type of answers: a JSON Schema, a pydantic class or another type that pydantic can check, or None for text.

    Raises ConfigError for anything else.
    """

    def __init__(self, wanted: Any) -> None:
        self.schema: Mapping[str, Any] | None = None
        self._adapter: TypeAdapter[Any] | None = None
        if wanted is None or isinstance(wanted, Mapping):
            self.schema = wanted
            return
        if not isinstance(wanted, type) and get_origin(wanted) is None:
            raise ConfigError(f'schema: expected a JSON Schema, such as {{"type": "array"}}, or a pydantic class; got {wanted!r}')
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        try:
            self._adapter = TypeAdapter(wanted)
            self.schema = self._adapter.json_schema()
        except PydanticUserError as error:
            raise ConfigError(f"schema: pydantic makes no JSON Schema of {wanted!r}: {error.message}") from None

    def typed(self, result: RunResult) -> RunResult:
        """Return the result with its data as an object of the class. Raises AnswerUnfit if the class rejects the data."""
        if self._adapter is None or result.stopped not in ("done", "max_turns"):
            return result
        try:
            return replace(result, data=self._adapter.validate_json(json.dumps(result.data)))
        except ValueError as error:
            raise AnswerUnfit(f"the answer matches the schema, but not the class: {error}", result.text) from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
