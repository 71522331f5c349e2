"""``toolcrib docs``: the manual, in the browser or in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.reference import Page
    from agent.reference.finding import Section

HELP = "Open the manual in the browser, or show and search it in the terminal; works offline."
_EPILOG = """\
examples:
  toolcrib docs                                open the site in the browser; without the extra, print its first page
  toolcrib docs gateway                        print a page
  toolcrib docs model.base_url                 print a setting; or a class, an event, an error, a hook, a tool, a rule
  toolcrib docs --search prompt injection      list all sections with these words
  toolcrib docs --list                         list the pages
  toolcrib docs --build site                   build the site in that folder, with a subfolder for each version

The site has all pages and an offline search. It is built once for each version, which takes a few seconds and needs an extra:
pip install 'toolcrib[docs]'. Pages about settings, commands, tools, classes, events, errors, hooks and rules are generated from
the installed program.

exit codes: 0 done, 1 nothing was found, 2 wrong command line, or the site cannot be built.
"""
_SHOWN = 20
_PICTURES = Regex(r"(?m)(?:^!\[[^\]\n]*\]\([^)\n]*\)(?:\{[^}\n]*\})?\n)+\n?")
_SHORT = 3
"""Maximum length of a word, such as "how" or "to", that is ignored if no section contains all words."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="WORD", nargs="*", help="a page, or the name of a setting, class, tool, ...")
    parser.add_argument("--search", action="store_true", help="list sections that contain all the words")
    parser.add_argument("--list", action="store_true", help="list the pages")
    parser.add_argument("--build", metavar="FOLDER", type=Path, help="build the site in this folder")
    parser.add_argument("--strict", action="store_true", help="with --build: fail if a page has an error, such as a dead link")
    parser.add_argument("--no-browser", action="store_true", help="print the address of the site instead of opening it")


def run(args: argparse.Namespace) -> int:
    from agent.cli.command_pages import pages as of_commands
    from agent.reference.site import all_pages, build

    if args.strict and args.build is None:
        raise ToolcribError("--strict needs --build")
    if args.build is not None:
        print(build(args.build, of_commands(), strict=args.strict))
        return OK
    if args.list:
        return _list(list(all_pages(of_commands())))
    if args.words:
        return _here(args.words, list(all_pages(of_commands())), only_search=args.search)
    if args.search:
        raise ToolcribError("give the words to search for: toolcrib docs --search WORD ...")
    return _open(no_browser=args.no_browser)


def _open(*, no_browser: bool) -> int:
    import sys
    import webbrowser

    from agent.cli.command_pages import pages as of_commands
    from agent.cli.terminal import is_interactive
    from agent.config import cache_dir
    from agent.reference.site import EXTRA, NoSiteBuilder, all_pages, current

    def announce() -> None:
        print("toolcrib: building the pages, once for this version ...", file=sys.stderr, flush=True)

    try:
        first = current(cache_dir() / "docs", of_commands(), announce)
    except NoSiteBuilder:
        print(f"toolcrib: the pages are shown here; to open them in the browser: {EXTRA}", file=sys.stderr, flush=True)
        return _here(["index"], list(all_pages(of_commands())), only_search=False)
    print(first)
    if not no_browser and is_interactive() and not webbrowser.open(first.as_uri()):
        print("toolcrib: no browser could be started; open that file, or list the pages: toolcrib docs --list", file=sys.stderr)
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
        show_paged(_formatted(tame("\n\n".join(_PICTURES.sub("", text).strip() for text in texts)) + "\n"))
        return OK
    long = [word for word in words if len(word) > _SHORT]
    places = with_words(words, found) or (with_words(long, found) if long else [])
    if not places:
        name = " ".join(words)
        meant = f"; did you mean {' or '.join(near)}?" if (near := like(name, found)) else ""
        print(f"toolcrib: nothing found for {name!r}{meant or '.'} List the pages: toolcrib docs --list", file=sys.stderr)
        return FAILED
    for one in places[:_SHOWN]:
        print(f"{one.page}: {one.title}")
    if len(places) > _SHOWN:
        print(f"... and {len(places) - _SHOWN} more; add words to narrow the search")
    print(f"\n`toolcrib docs {places[0].page}` shows that page")
    return OK


def _formatted(text: str) -> str:
    """Return Markdown for the terminal's width, as the chat shows it; as it is for a pipe or a file."""
    import sys

    from agent.cli.screen.cells import plain
    from agent.cli.screen.markdown import Markdown
    from agent.cli.terminal import columns_of

    if (columns := columns_of(sys.stdout)) == sys.maxsize:
        return text
    page = Markdown(columns)
    page.feed(text)
    page.end()
    return "".join(f"{'# ' if row and row[0][1] == 'heading' else ''}{plain(row)}\n" for row in page.take())


def _whole(section: Section, pages: Sequence[Page]) -> str:
    from agent.reference.finding import listed

    return listed(next(page for page in pages if page.path == section.page), {page.path: page.title for page in pages})
