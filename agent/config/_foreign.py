"""YAML files of other programs."""

from __future__ import annotations

from typing import Any


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML text. Raises ValueError."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
