"""A reference page for each subcommand, made from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

from agent.cli.app import built_in, parser_of
from agent.reference.page import Page, block, code, index, plain, rows

_WORDS = """\
The commands of `toolcrib`. `toolcrib COMMAND --help` prints the same at a terminal."""
_EVERYWHERE = {"help", "config", "profile", "verbose", "debuggable"}


def pages() -> Iterator[Page]:
    """Yield an index and a page for each command."""
    names = sorted(built_in())
    yield index("reference/commands/index", "Commands", _WORDS, names)
    for name in names:
        module = import_module(built_in()[name])
        yield Page(f"reference/commands/{name}", _text(name, parser_of(name, module)))


def _text(name: str, parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100)
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    lines = [f"# {code(f'toolcrib {name}')}", "", plain(parser.description or ""), "", block(usage), ""]
    actions = [one for one in parser._actions if one.help != argparse.SUPPRESS and one.dest not in _EVERYWHERE]
    if actions:
        lines += ["## Arguments", "", rows(("argument", "meaning"), ([_shown(one), _meaning(one)] for one in actions)), ""]
    if parser.epilog:
        lines += ["## Examples and details", "", block(parser.epilog.strip()), ""]
    return "\n".join(lines)


def _shown(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return code(value)
    takes = action.nargs != 0
    return ", ".join(
        code(f"{option} {value}" if takes and action.choices is None else option) for option in action.option_strings
    )


def _meaning(action: argparse.Action) -> str:
    words = plain((action.help or "") % {**vars(action), "prog": "toolcrib"} if action.help else "")
    chosen = "" if action.choices is None else f"One of {', '.join(code(str(one)) for one in action.choices)}."
    return " ".join(filter(None, (words, chosen)))
