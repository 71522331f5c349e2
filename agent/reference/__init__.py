"""Reference pages, generated from the code: settings, tools, rules of the judge, hooks, errors, events, platforms, and more.

    for page in pages():
        page.path       # "reference/settings/model", without an ending
        page.text       # Markdown

Each kind has a module with ``pages()``; the pages of commands are in agent/cli/command_pages.py. Tools and platforms of separate
plugins are not included: the pages cover what toolcrib installs. ``finding`` searches the pages, and ``site`` builds a site of
them and of the written pages in docs/.
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
