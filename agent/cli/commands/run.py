"""``toolcrib run``: one task for a model, for scripts and for a quick question."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.cli.app import INTERRUPTED, open_crib
from agent.cli.options import (
    MODEL_HELP,
    add_model_options,
    add_session_options,
    choice_of,
    folder_of,
    limits_of,
    positive_seconds,
    wants_trace,
)
from agent.cli.signals import Ended, interrupting
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.cli.jsonl import JsonLines
    from agent.cli.oneshot import Outcome, Tally, Watch
    from agent.session import Session

HELP = "Give a model one task: its answer on stdout, its tool calls on stderr."
_EPILOG = f"""\
examples:
  toolcrib run "which test fails, and why?"
  git diff | toolcrib run - --max-turns 3
  toolcrib run "tidy up" --json | jq -r 'select(.type == "text_delta") | .text'
  toolcrib run "and now its tests" --continue
  toolcrib run "what is wrong in this plot?" --image plot.png
  toolcrib run "does it build from scratch?" --backend docker

{MODEL_HELP}
Nobody is asked: what would need a person's agreement is denied.

exit codes:
  0    it answered, and nothing was denied for want of a person
  1    the run failed: the model's server, a loop that got nowhere, a gate that ended it
  2    a wrong command line or configuration, or no model
  4    it answered, but what a person would have been asked about was denied
  5    --max-turns or --max-tokens was reached
  6    --timeout ran out
  130  interrupted (143 by SIGTERM)

--json writes one JSON object a line: docs/events.md describes them.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("task", metavar="TASK", help="what to do, or - to read it from stdin")
    parser.add_argument("--json", action="store_true", help="events as JSON lines on stdout")
    parser.add_argument(
        "--image", metavar="FILE", action="append", default=[], help="show it the picture (PNG, JPEG, GIF, WebP); may be repeated"
    )
    parser.add_argument("--save-images", metavar="DIR", help="write what it draws there; no file is overwritten")
    parser.add_argument("--timeout", metavar="SECONDS", type=positive_seconds, help="for the whole run")
    add_model_options(parser)
    add_session_options(parser)


def run(args: argparse.Namespace) -> int:
    from agent.cli.faults import exit_code
    from agent.cli.jsonl import JsonLines
    from agent.cli.oneshot import Outcome, Tally

    lines = JsonLines(sys.stdout) if args.json else None
    tally = Tally()
    try:
        outcome = _run(args, tally, lines)
    except ToolcribError as error:
        outcome = Outcome("error", "", exit_code(error))
        _tell(error, lines)
    except Ended as end:
        _finish(lines, Outcome("interrupted", "", 128 + end.number), tally)
        raise
    except KeyboardInterrupt:
        _finish(lines, Outcome("interrupted", "", INTERRUPTED), tally)
        raise
    if lines is None and outcome.stopped != "error":
        _say_how_it_ended(outcome, args)
    _finish(lines, outcome, tally)
    return outcome.code


def _run(args: argparse.Namespace, tally: Tally, lines: JsonLines | None) -> Outcome:
    from agent.cli.ask import Refuser
    from agent.cli.images import ImageFolder, read_images
    from agent.cli.offer import no_model
    from agent.cli.oneshot import OneShot
    from agent.cli.render import Screen
    from agent.cli.trace import Tracer
    from agent.cli.view import View
    from agent.models import find_endpoint, own_choice

    task = _task(args.task)
    images = read_images(args.image)
    folder = None if args.save_images is None else ImageFolder(args.save_images)
    if lines is not None:
        lines.images = folder
    with open_crib(args) as crib:
        choice = choice_of(args)
        if choice.provider == "manual":
            raise ToolcribError("--provider manual has no model to give a task to; `toolcrib chat` takes it")
        goes_on = args.resume or args.latest
        if not goes_on and find_endpoint(crib.config, choice) is None:
            raise no_model("run TASK")
        session = crib.open_session(
            platform="cli",
            asker=Refuser(),
            cwd=folder_of(args, crib),
            backend=args.backend,
            enabled=args.toolsets,
            disabled=args.disable,
            resume=args.resume,
            latest=args.latest,
        )
        if goes_on and find_endpoint(crib.config, own_choice(session, choice)) is None:
            raise no_model("run TASK")
        shot = OneShot(session, choice, limits_of(crib.config, args), timeout=args.timeout, images=images)
        with asyncio.Runner() as runner, _closing(session, runner), interrupting(shot.interrupt):
            view = View(Screen(interactive=False), thinking=crib.config.display.thinking, images=folder)
            tracer = Tracer(session) if wants_trace(args) else None
            watches: list[Watch] = [tally, view if lines is None else lines]
            try:
                return runner.run(shot.run(task, watches, lambda model: _started(lines, session, model), tracer))
            finally:
                view.end()


@contextmanager
def _closing(session: Session, runner: asyncio.Runner) -> Iterator[None]:
    """End what the session still runs together with it, whatever comes meanwhile."""
    try:
        yield
    finally:
        with interrupting(lambda: None):
            runner.run(session.close())


def _task(given: str) -> str:
    if given != "-":
        task = given
    elif sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the task in, or give it as TASK")
    else:
        task = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not task.strip():
        raise ToolcribError('the task is empty; say what to do: toolcrib run "which test fails?"')
    return task


def _started(lines: JsonLines | None, session: Session, model: str) -> None:
    if lines is not None:
        lines.started(session.identity.session_id, model, session.names)


def _tell(error: ToolcribError, lines: JsonLines | None) -> None:
    from agent.cli.faults import explained

    if lines is not None:
        lines.error(error)
    print(f"toolcrib: {explained(error)}", file=sys.stderr, flush=True)


def _say_how_it_ended(outcome: Outcome, args: argparse.Namespace) -> None:
    words: dict[str, Any] = {
        "timeout": f"not finished in {args.timeout} s (--timeout)",
        "interrupted": "interrupted",
        "max_turns": "the answer was asked for before the task was done: --max-turns was reached",
        "ended": "a gate ended the run",
        "pending": "a call waits for an answer",
    }
    if outcome.empty:
        words["done"] = "the model's answer is empty"
    if outcome.code == 4:
        words["done"] = "something was denied because nobody was asked; `toolcrib chat` asks"
    if outcome.stopped in words:
        print(f"toolcrib: {words[outcome.stopped]}", file=sys.stderr, flush=True)


def _finish(lines: JsonLines | None, outcome: Outcome, tally: Tally) -> None:
    if lines is not None:
        text = outcome.text or tally.text
        lines.finished(stopped=outcome.stopped, text=text, usage=tally.usage, turns=tally.turns, code=outcome.code)
