"""Rows of the public reports (corpora/reports/models.jsonl) as parameters of tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def reported(wanted: Callable[[dict[str, Any]], bool]) -> list[Any]:
    """Return the wanted rows; one skipped parameter if the corpora are absent."""
    folder = os.environ.get("TOOLCRIB_CORPORA", "")
    source = Path(folder) / "reports" / "models.jsonl"
    if not folder or not source.is_file():
        return [pytest.param({}, id="absent", marks=pytest.mark.skip("set TOOLCRIB_CORPORA to the folder of recorded cases"))]
    rows = map(json.loads, source.read_text("utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in rows if wanted(row)]
