"""``toolcrib docs``: the manual, in the browser or here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.reference import Page
    from agent.reference.finding import Section

HELP = "Open the manual in the browser, or show and search it here; it needs no network."
_EPILOG = """\
examples:
  toolcrib docs                                the site, in the browser
  toolcrib docs gateway                        a page, here
  toolcrib docs model.base_url                 a setting; also a class, an event, an error, a hook, a tool, a rule
  toolcrib docs --search prompt injection      all places where these words stand
  toolcrib docs --list                         the pages
  toolcrib docs --build site                   lay the site out in that folder, a folder for each version

The site has all pages, with a search that works from files. It is laid out once for each version, which takes some seconds and
the extra: pip install 'toolcrib[docs]'. Pages about settings, commands, tools, classes, events, errors, hooks and rules are made
of the installed program itself.

exit codes: 0 done, 1 nothing was found, 2 a wrong command line, or the site can't be laid out.
"""
_SHOWN = 20
_SHORT = 3
"""Most letters of a word, such as "how" or "to", that is ignored if no section contains all words."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="WORD", nargs="*", help="a page, or the name of what is described in one")
    parser.add_argument("--search", action="store_true", help="list the places where all the words stand")
    parser.add_argument("--list", action="store_true", help="list the pages")
    parser.add_argument("--build", metavar="FOLDER", type=Path, help="lay the site out in this folder")
    parser.add_argument("--strict", action="store_true", help="with --build: fail where a page has a fault, such as a dead link")
    parser.add_argument("--no-browser", action="store_true", help="print where the site is instead of opening it")


def run(args: argparse.Namespace) -> int:
    from agent.cli.command_pages import pages as of_commands
    from agent.reference.site import all_pages, build

    if args.strict and args.build is None:
        raise ToolcribError("--strict goes with --build")
    if args.build is not None:
        print(build(args.build, of_commands(), strict=args.strict))
        return OK
    if args.list:
        return _list(list(all_pages(of_commands())))
    if args.words:
        return _here(args.words, list(all_pages(of_commands())), only_search=args.search)
    if args.search:
        raise ToolcribError("say what to look for: toolcrib docs --search WORD ...")
    return _open(no_browser=args.no_browser)


def _open(*, no_browser: bool) -> int:
    import sys
    import webbrowser

    from agent.cli.command_pages import pages as of_commands
    from agent.cli.terminal import is_interactive
    from agent.config import cache_dir
    from agent.reference.site import current

    def announce() -> None:
        print("toolcrib: laying out the pages, once for this version ...", file=sys.stderr, flush=True)

    first = current(cache_dir() / "docs", of_commands(), announce)
    print(first)
    if not no_browser and is_interactive() and not webbrowser.open(first.as_uri()):
        print("toolcrib: no browser could be started; open that file in one, or see `toolcrib docs --list`", file=sys.stderr)
    return OK


def _list(pages: Sequence[Page]) -> int:
    from agent.cli.render import table

    table([(page.path, page.title) for page in sorted(pages, key=lambda page: page.path.startswith("adr/"))])
    return OK


def _here(words: Sequence[str], pages: Sequence[Page], *, only_search: bool) -> int:
    """Show the section with that name; else list the sections that contain the words. Return the exit code."""
    import sys

    from agent.cli.escape import tame
    from agent.cli.screen.external_programs import show_paged
    from agent.reference.finding import like, named, sections, with_words

    words = " ".join(words).split()
    found = list(sections(pages))
    called = [] if only_search else named(" ".join(words), found)
    if called:
        texts = [_whole(one, pages) if one.is_first else one.text for one in called]
        show_paged(tame("\n\n".join(text.strip() for text in texts)) + "\n")
        return OK
    long = [word for word in words if len(word) > _SHORT]
    places = with_words(words, found) or (with_words(long, found) if long else [])
    if not places:
        name = " ".join(words)
        meant = f"; did you mean {' or '.join(near)}?" if (near := like(name, found)) else ""
        print(f"toolcrib: nothing is said about {name!r}{meant or ';'} `toolcrib docs --list` has the pages", file=sys.stderr)
        return FAILED
    for one in places[:_SHOWN]:
        print(f"{one.page}: {one.title}")
    if len(places) > _SHOWN:
        print(f"... and {len(places) - _SHOWN} more; name more words")
    print(f"\n`toolcrib docs {places[0].page}` shows that page")
    return OK


def _whole(section: Section, pages: Sequence[Page]) -> str:
    from agent.reference.finding import listed

    return listed(next(page for page in pages if page.path == section.page), {page.path: page.title for page in pages})
