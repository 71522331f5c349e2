"""Answers as data: the model gets the schema, the wire enforces it if it can, and every answer is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from toolcrib.contract.errors import ConfigError
from toolcrib.contract.regex import Regex
from tools.arguments import check_schema, make_validator

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
        """Return the answer's value, or ``value`` from a text protocol if it matches. Raises ValueError for the model to read."""
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


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
