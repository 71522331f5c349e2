"""A page for each section of the configuration: keys, their purpose, defaults, and expected values."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config import settings
from agent.reference.page import Page, as_json, code, index, plain

_WORDS = """\
The keys of `config.yaml`, by section. `toolcrib config` shows the values and where each comes from, `toolcrib config set KEY
VALUE` changes one, and `toolcrib config check` finds errors in the file. `*` stands for a name that you choose. A key below
`profiles.NAME` is one of these keys and applies with `--profile NAME`."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each section."""
    found = settings()
    sections = list(dict.fromkeys(_section(one.key) for one in found))
    yield index("reference/settings/index", "Settings", _WORDS, sections)
    for section in sections:
        mine = [one for one in found if _section(one.key) == section]
        lines = [f"# {code(section)}", "", f"{mine[0].section}.", ""] if mine[0].section else [f"# {code(section)}", ""]
        for one in mine:
            lines += [f"## {code(one.key)}", "", one.doc, ""]
            lines += [f"Default: {code(as_json(one.default))}." if one.has_default else "Required."]
            lines += [f"Expected: {plain(one.expect)}."] if one.expect else []
            lines += [""]
        yield Page(f"reference/settings/{section}", "\n".join(lines))


def _section(key: str) -> str:
    return key.partition(".")[0].removesuffix("[]")
