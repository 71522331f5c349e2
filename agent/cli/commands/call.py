"""``toolcrib call``: one call through the whole dispatcher, for scripts and experiments."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from agent.cli.app import DENIED, FAILED, INTERRUPTED, OK, open_crib
from agent.cli.options import add_develop_option, add_place_option
from agent.cli.streams import print_json_as_ascii
from agent.events import Event, ModelAnswered
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.session import ExecutedCall

HELP = "Run one tool and print its result as JSON."
_EXAMPLE = """toolcrib call terminal '{"command": "ls"}'"""
_EPILOG = """\
examples:
  toolcrib call terminal '{"command": "uname -a"}'
  echo '{"path": "README.md"}' | toolcrib call read_file -
  toolcrib call write_file @arguments.json --plain
  toolcrib call terminal '{"command": "id"}' --backend docker

exit codes: 0 done, 1 the tool failed, 2 wrong command line or configuration (nothing ran), 3 denied, 130 interrupted.
`terminal` succeeds when its command ends; the JSON has the command's exit code.
A call that needs approval is asked about at the terminal. If standard input is not a terminal, it is denied.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "tool", metavar="TOOL", help="the tool's name; `toolcrib tools` lists all, `toolcrib tools show TOOL` shows arguments"
    )
    parser.add_argument(
        "args",
        metavar="ARGS",
        nargs="?",
        default="{}",
        help="the arguments: a JSON object (default: {}), - to read it from standard input, or @FILE",
    )
    add_place_option(parser)
    add_develop_option(parser)
    parser.add_argument("--plain", action="store_true", help="print text instead of JSON")


def run(args: argparse.Namespace) -> int:
    from agent.cli.ask import asker_for
    from agent.cli.render import result_text
    from agent.cli.signals import interrupting
    from agent.cli.terminal import find_terminal
    from agent.desk.request import SessionRequest
    from tools.dispatch.bridge import run_async
    from tools.dispatch.json_results import as_json

    if not args.plain:
        print_json_as_ascii()
    arguments = _arguments(args.args)
    with open_crib(args) as crib:
        if crib.registry.get(args.tool) is None:
            near = crib.registry.closest(args.tool)
            hint = f"did you mean {near!r}?" if near else "list tools: toolcrib tools"
            raise ToolcribError(f"there is no tool {args.tool!r}; {hint}")
        if (reason := crib.registry.availability([args.tool])[args.tool]) is not None:
            raise ToolcribError(f"{args.tool} is not available here: {reason}")
        asker = asker_for(find_terminal(lines_only=crib.config.display.screen_reader))
        request = SessionRequest(platform="cli", asker=asker, backend=args.backend, once=True, watch=_tell, whole_results=True)
        session = run_async(crib.desk.open(request))
        with interrupting(session.interrupt):
            try:
                executed = session.call(args.tool, arguments)
            finally:
                session.close_sync()
    print(result_text(executed) if args.plain else as_json(executed))
    return exit_code(executed)


def _tell(event: Event) -> None:
    if isinstance(event, ModelAnswered):
        from agent.cli.view import model_said

        print(f"toolcrib: {model_said(event)}", file=sys.stderr)


def exit_code(executed: ExecutedCall) -> int:
    if executed.result.is_success:
        return OK
    kind = executed.result.failure.kind if executed.result.failure else ""
    return {"Denied": DENIED, "Cancelled": INTERRUPTED}.get(kind, FAILED)


def _arguments(given: str) -> dict[str, Any]:
    """Return the arguments from JSON. Raises ToolcribError with the place of the error and an example."""
    text, where = _read(given)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        lines = text.splitlines() or [""]
        line = lines[min(error.lineno, len(lines)) - 1]
        start = max(0, error.colno - 31)
        shown, caret = line[start : start + 60], " " * (error.colno - 1 - start) + "^"
        raise ToolcribError(
            f"{where} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}\n  {shown}\n  {caret}\n"
            f"Write an object, such as: {_EXAMPLE}"
        ) from None
    except RecursionError:
        raise ToolcribError(f"{where} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ToolcribError(f"{where} must be a JSON object, such as: {_EXAMPLE}")
    return value


def _read(given: str) -> tuple[str, str]:
    """Return the text of the arguments, and the name of its source."""
    try:
        if given == "-" and sys.stdin is None:
            raise ToolcribError("standard input is closed; pipe the arguments in, or pass them as ARGS")
        if given == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig"), "standard input"
        if given.startswith("@"):
            return Path(given[1:]).read_text("utf-8-sig"), given[1:]
    except OSError as error:
        raise ToolcribError(f"{given[1:]} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ToolcribError(f"{given.removeprefix('@')} is not UTF-8: {error.reason} at byte {error.start}") from None
    return given, "ARGS"
