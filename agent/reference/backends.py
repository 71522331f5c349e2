"""A page for each backend, which runs commands and has files."""

from __future__ import annotations

from collections.abc import Iterator

from agent.reference.page import Page, code, index
from tools.environments.rows import ROWS

_WORDS = """\
Backends run commands and hold files. `terminal.backend` or `--backend` selects one, `toolcrib env` lists them, and `toolcrib env
test NAME` tests one. A session keeps its backend: it never runs elsewhere unless a user chooses another.
[Settings](../settings/environments.md). Plugins can add backends with the hook
[`register_environment`](../hooks/register_environment.md)."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each backend."""
    yield index("reference/backends/index", "Backends", _WORDS, tuple(ROWS))
    for row in ROWS.values():
        extra = f"It needs an extra: `pip install 'toolcrib[{row.extra}]'`.\n\n" if row.extra else ""
        text = f"# {code(row.name)}\n\n{row.manual}\n\n{extra}Try it: `toolcrib env test {row.name}`.\n"
        yield Page(f"reference/backends/{row.name}", text)
