"""Pages of the bundled plugins: the README.md of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.reference.page import Page, index

_WORDS = """\
The plugins that come with toolcrib, which `toolcrib plugins enable NAME` enables: platforms for chats through the gateway, and
plugins that observe runs. [The gateway](../../gateway.md) describes what all platforms share."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each bundled plugin that has a README.md."""
    from agent.plugin_host.sources import bundled

    readmes = [Path(one.where) / "README.md" for one in bundled()]
    found = sorted(path for path in readmes if path.is_file())
    yield index("reference/platforms/index", "Platforms and plugins", _WORDS, [one.parent.name for one in found])
    for one in found:
        yield Page(f"reference/platforms/{one.parent.name}", one.read_text("utf-8"))
