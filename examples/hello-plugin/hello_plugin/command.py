"""The subcommand ``toolcrib hello``: a module with HELP, configure(parser) and run(args)."""

from __future__ import annotations

import argparse

from hello_plugin.greeting import greet

HELP = "Print a greeting, from the example plugin."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the name to greet")
    parser.add_argument("--shout", action="store_true", help="print it in capitals")


def run(args: argparse.Namespace) -> int:
    """Return the exit code."""
    print(greet(args.name, args.shout))
    return 0
