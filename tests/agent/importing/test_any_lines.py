"""Files of other tools with any content: the import returns records that a session can resume, or raises an error that names
the place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.exporting import export
from agent.importing import claude_code, codex
from agent.importing.keeping import as_ours
from agent.importing.own import read_export
from agent.importing.session_files import ForeignSession, ImportFault
from tests.agent.importing.samples import claude_lines, codex_lines
from tools.redact import Redactor

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "content", "id"]), inner, max_size=3)
    ),
    max_leaves=6,
)
Reads = Callable[[Path, Callable[[ImportFault], None]], Iterator[ForeignSession]]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON value."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def put(value: Any, at: tuple[Any, ...], other: Any) -> Any:
    """Return the JSON value with the value at a path replaced."""
    if not at:
        return other
    if isinstance(value, dict):
        return {key: put(inner, at[1:], other) if key == at[0] else inner for key, inner in value.items()}
    return [put(inner, at[1:], other) if number == at[0] else inner for number, inner in enumerate(value)]


@pytest.mark.parametrize(
    ("lines", "read", "name"), [(claude_lines(), claude_code.read, "a.jsonl"), (codex_lines(), codex.read, "rollout-a.jsonl")]
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_is_read_or_named(
    tmp_path: Path, lines: list[Any], read: Reads, name: str, data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines) - 1))
        if isinstance(lines[number], dict):
            at = data.draw(st.sampled_from(list(places(lines[number]))))
            lines = [put(line, at, data.draw(JSON)) if count == number else line for count, line in enumerate(lines)]
    path = tmp_path / name
    path.write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8", "surrogatepass"
    )
    faults: list[ImportFault] = []
    for found in read(path, faults.append):
        info, records = as_ours(found, Redactor())
        calls = [call["id"] for record in records for call in record.get("calls") or ()]
        assert calls == [result["call_id"] for record in records for result in record.get("results") or ()]
        page = tmp_path / "out.json"
        page.write_text(export(info, records, "json"), "utf-8", "surrogatepass")
        for form in ("markdown", "html"):
            assert export(info, records, form)  # type: ignore[arg-type]  # both are forms
        again, kept = read_export(page)
        assert (again.title, again.created_at, list(kept)) == (info.title, info.created_at, list(records))
    assert all(fault.place for fault in faults)
