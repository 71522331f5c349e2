"""Reference pages, made of what the code itself says: settings, tools, rules of the judge, hooks, errors, events, platforms,
and of what programs import.

    for page in pages():
        page.path       # "reference/settings/model", without an ending
        page.text       # Markdown

One module a kind, each with ``pages()``; commands are those of the command line, in agent/cli/command_pages.py. A plugin's
tools and platforms are not in it: pages are about what is installed with toolcrib. ``finding`` looks things up in them, and
``site`` lays them out beside the written ones of docs/.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.reference.page import Page

__all__ = ["Page", "pages"]


def pages() -> Iterator[Page]:
    """Yield the pages of all kinds, each kind's index first."""
    from agent.reference import backends, contract, errors, events, hooks, platforms, providers, rules, settings, tools

    for kind in (tools, settings, rules, hooks, contract, events, errors, providers, backends, platforms):
        yield from kind.pages()
