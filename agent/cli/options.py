"""Options that several commands share, and functions that evaluate them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from agent.config import Config
    from agent.conversation.limits import RunLimits
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

T = TypeVar("T")
MODEL_HELP = """\
choice of the model:
  --base-url and --model, else OPENAI_BASE_URL and OPENAI_MODEL, else `model` in the configuration. If none of them names a
  server, --model claude-... or gemini-... uses its vendor if ANTHROPIC_API_KEY or GEMINI_API_KEY is set. OPENAI_API_KEY is sent
  only to OPENAI_BASE_URL; name the key for another server with --api-key-env. Servers found on this machine are never used
  unless you choose them. A resumed session keeps its model. `toolcrib models` lists all models.
"""


def add_model_options(parser: argparse.ArgumentParser) -> None:
    from agent.providers.rows import MANUAL, PROVIDERS

    group = parser.add_argument_group("the model")
    group.add_argument("--model", metavar="NAME", default="", help="its name on the server")
    group.add_argument("--base-url", metavar="URL", default="", help="address of its server, such as http://127.0.0.1:11434/v1")
    group.add_argument("--api-key-env", metavar="NAME", default="", help="the environment variable that holds the server's key")
    group.add_argument(
        "--provider",
        metavar="NAME",
        default="",
        help=f"the server's API: {', '.join(PROVIDERS)}, or a plugin's; default: by the server or the model's name. "
        f"{MANUAL}: no model, whatever is configured",
    )


def add_session_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the session")
    group.add_argument(
        "--max-turns",
        metavar="N",
        type=count,
        help="turns with calls before the model must give its final answer; the chat asks you first",
    )
    group.add_argument("--max-tokens", metavar="N", type=count, help="tokens that one run may use, input and output")
    group.add_argument("--toolsets", metavar="A,B", type=_names, help="these toolsets instead of the configured ones")
    group.add_argument("--disable", metavar="X,Y", type=_names, help="without these toolsets")
    group.add_argument("--trace", action="store_true", help="print requests and calls on stderr, like TOOLCRIB_TRACE=1")
    group.add_argument("--cwd", metavar="DIR", help="working folder (default: the current one); with ssh, a folder of the host")
    add_place_option(group)
    add_mode_option(group)
    add_develop_option(group)
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c",
        "--continue",
        dest="latest",
        action="store_true",
        help="continue the last session of this folder or its project",
    )
    which.add_argument("--resume", metavar="ID", default="", help="continue this session; list sessions: toolcrib sessions")


def add_place_option(group: argparse._ActionsContainer) -> None:
    from tools.environments.rows import ROWS

    group.add_argument(
        "--backend",
        metavar="NAME",
        default="",
        help=f"backend for commands, instead of terminal.backend: {', '.join(ROWS)} ...; list all: toolcrib env",
    )


def add_mode_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--mode",
        choices=("default", "cautious", "confirm-edits", "plan"),
        default="",
        help="instead of approval.mode: cautious also asks about calls that the sandbox contains or an undo reverts; "
        "confirm-edits asks about every edit and every command that may write; plan denies them",
    )


def mode_of(args: argparse.Namespace, config: Config) -> str:
    """Return the mode that the command line names, or "". Raises Denied in a process below a session's command."""
    if args.mode:
        from agent.policy.self_protection import folders_of, refuse_below

        refuse_below(folders_of(config), "--mode")
    return str(args.mode)


def add_develop_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--develop-toolcrib",
        action="store_true",
        help="let tools change toolcrib's own sources, if it runs from a checkout that you work on",
    )


def folder_of(args: argparse.Namespace, crib: Crib) -> str | None:
    """Return the folder that --cwd names, as a path for the session's backend, or None."""
    if not args.cwd:
        return None
    return str(args.cwd) if crib.backends.get(args.backend).is_remote else str(crib.project_dir)


def choice_of(args: argparse.Namespace) -> ModelChoice:
    from agent.model_choice.models import ModelChoice

    return ModelChoice(args.model, args.base_url, args.api_key_env, args.provider)


def limits_of(config: Config, args: argparse.Namespace, turns: int | None = None) -> RunLimits:
    """Return the limits from the options and the configuration; ``turns`` is the default number of turns."""
    from agent.conversation.limits import RunLimits

    given = turns if args.max_turns is None and config.origin("max_turns") == "default" else args.max_turns
    return RunLimits.of(config, max_turns=given, max_tokens=args.max_tokens)


def wants_trace(args: argparse.Namespace) -> bool:
    return bool(args.trace) or os.environ.get("TOOLCRIB_TRACE", "") not in ("", "0")


def positive_seconds(text: str) -> float:
    seconds = _number(float, text, "seconds above 0, such as 90")
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("expected seconds above 0")
    return seconds


def count(text: str) -> int:
    number = _number(int, text, "a whole number")
    if number < 1:
        raise argparse.ArgumentTypeError("expected 1 or more")
    return number


def age(text: str) -> float:
    """Return the seconds of an age such as ``30d``, ``12h``, ``45m`` or ``10s``."""
    sizes = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    if text[-1:] not in sizes or not text[:-1].isdecimal():
        raise argparse.ArgumentTypeError(f"expected an age such as 90s, 30m, 12h or 7d, got {text!r}")
    return int(text[:-1]) * sizes[text[-1]]


def _number(kind: Callable[[str], T], text: str, expected: str) -> T:
    """Return the parsed number. argparse's own message about a wrong number would show the name of our function."""
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}") from None


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]
