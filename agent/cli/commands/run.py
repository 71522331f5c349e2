"""``toolcrib run``: one task for a model, for scripts and quick questions."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, INTERRUPTED, TIMED_OUT, USAGE, running_crib
from agent.cli.options import (
    MODEL_HELP,
    add_model_options,
    add_session_options,
    choice_of,
    folder_of,
    limits_of,
    mode_of,
    positive_seconds,
    wants_trace,
)
from agent.cli.signals import Ended, interrupting
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.images import ImageFolder
    from agent.cli.jsonl import JsonLines
    from agent.cli.oneshot import Tally, TaskOutcome, Watch
    from agent.cli.trace import Tracer
    from agent.cli.waitline import WaitLine
    from agent.conversation.session import Session
    from agent.events import Event
    from agent.process import Crib
    from toolcrib.contract.image import Image

HELP = "Give a model one task; print its answer on stdout and its tool calls on stderr."
_MOST_RULES = 5
_EPILOG = f"""\
examples:
  toolcrib run "which test fails, and why?"
  git diff | toolcrib run "review this"    standard input is context for the task; without a task, it is the task
  toolcrib run "tidy up" --json | jq -r 'select(.type == "text_delta") | .text'
  toolcrib run "and now its tests" --continue
  toolcrib run "what is wrong in this plot?" --image plot.png
  toolcrib run "does it build from scratch?" --backend docker
  toolcrib run "tidy up" --park            calls that need approval wait, even for days: `toolcrib approvals answer` continues
  toolcrib run "clean up" --allow '{{command: rm, options: -r -rf, operands: build|dist, example: rm -rf build}}'
  toolcrib run --resume 4f1c               continue a parked run, or one whose process was killed

{MODEL_HELP}
standard input:
  A pipe or a file is read to its end (at most 1 MiB of text) and given to the model with the task, as data. A terminal is not
  read. In a loop that reads lines (`while read line; do toolcrib run ...`) add --no-stdin, or toolcrib reads the other lines.

If standard output is a pipe or a file, it gets only the answer, so `x=$(toolcrib run ...)` captures nothing else. Text that the
model writes before calls goes to standard error.

run never asks: a call that needs approval is denied. With --park the run waits until a user answers. A task for a session with a
parked run waits until that run has ended. --allow permits a script's own commands in this run, but never calls that are asked
every time or blocked, or that --mode plan denies. --park does not store --allow.

exit codes:
  0    it answered, and no call was denied because no user could be asked
  1    the run failed: the model's server failed, the model made no progress, or a gate ended the run
  2    a wrong command line or configuration, or no model
  4    it answered, but calls that needed approval were denied
  5    --max-turns or --max-tokens was reached, or the answer was cut off at its own limit
  6    --timeout expired
  7    the run is parked: it waits for answers to the listed requests
  8    --resume or --continue without a task: the session's last run has ended, so there is nothing to continue
  130  interrupted (143 by SIGTERM)
  141  the reader of the output has exited (| head): the run was interrupted, and its session is kept

--json prints events as JSON, one on each line; see `toolcrib docs events`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "task",
        metavar="TASK",
        nargs="?",
        help="what to do, or - to read it from standard input; without it, the piped input is the task, or --resume and "
        "--continue continue an unfinished run",
    )
    parser.add_argument("--no-stdin", action="store_true", help="do not read standard input, even if it is a pipe or a file")
    parser.add_argument("--park", action="store_true", help="park the run if a call needs approval, instead of denying the call")
    parser.add_argument(
        "--allow",
        metavar="RULE",
        action="append",
        default=[],
        help="allow what this rule covers in this run, without asking; the form is as in approval.rules or approval.tools",
    )
    parser.add_argument(
        "--allow-file", metavar="FILE", action="append", default=[], help="read such rules from a YAML file outside the project"
    )
    parser.add_argument("--json", action="store_true", help="print events as JSON lines")
    parser.add_argument(
        "--image", metavar="FILE", action="append", default=[], help="attach this image (PNG, JPEG, GIF, WebP); may be repeated"
    )
    parser.add_argument(
        "--save-images", metavar="DIR", help="write images that the model makes to this folder; no file is overwritten"
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=positive_seconds, help="limit of the whole run")
    add_model_options(parser)
    add_session_options(parser)


def run(args: argparse.Namespace) -> int:
    lines = _json_lines() if args.json else None
    from agent.cli.oneshot import Tally, TaskOutcome

    tally = Tally()
    try:
        return _to_its_end(args, lines, tally)
    except Exception as error:
        if lines is not None:
            from agent.cli.faults import unexpected

            with suppress(OSError):  # the original error may be that output cannot be written
                lines.error(unexpected(error))
                _finish(lines, TaskOutcome("error", "", FAILED), tally)
        raise


def refused(why: str) -> None:
    """Print the events of ``--json`` for a wrong command line."""
    _json_lines().refused(why, USAGE)


def _to_its_end(args: argparse.Namespace, lines: JsonLines | None, tally: Tally) -> int:
    from agent.cli.oneshot import TaskOutcome

    try:
        outcome = _run(args, tally, lines)
    except ToolcribError as error:
        from agent.cli.faults import exit_code

        outcome = TaskOutcome("error", "", exit_code(error))
        report_error(error, lines)
    except Ended as end:
        _finish(lines, TaskOutcome("interrupted", "", 128 + end.number), tally)
        raise
    except KeyboardInterrupt:
        _finish(lines, TaskOutcome("interrupted", "", INTERRUPTED), tally)
        raise
    if lines is None and outcome.stopped != "error":
        say_how_it_ended(outcome, args.timeout)
    _finish(lines, outcome, tally)
    return outcome.code


def _run(args: argparse.Namespace, tally: Tally, lines: JsonLines | None) -> TaskOutcome:
    from agent.cli.oneshot import TaskOutcome, TaskRun
    from agent.cli.render import Screen
    from agent.cli.view import View

    begun = time.monotonic()
    try:
        task = _task(args)
    except TimeoutError:
        return TaskOutcome("timeout", "", TIMED_OUT)
    images, folder = _pictures(args)
    if lines is not None:
        lines.images = folder
    with running_crib(args) as (crib, runner):
        session = runner.run(_open(crib, args))
        session.limits = limits_of(crib.config, args)
        left = None if args.timeout is None else max(0.0, args.timeout - (time.monotonic() - begun))
        shot = TaskRun(session, choice_of(args), timeout=left, images=images)
        with closing(session, runner), interrupting(shot.interrupt):
            if lines is not None and (args.resume or args.latest):
                from agent.cli.repeating import earlier_output

                lines.earlier = runner.run(earlier_output(session, has_task=bool(task)))
            view = View(Screen(interactive=False), thinking=crib.config.display.thinking, images=folder, only_answer=True)
            tracer = _tracer(session) if wants_trace(args) else None
            waits = _wait_line(session) if lines is None else None
            watches: list[Watch] = [*([waits] if waits else []), tally, *([view] if lines is None else [lines, _warn])]
            try:
                return runner.run(shot.run(task, watches, lambda model: _started(lines, session, model, args), tracer))
            finally:
                if waits is not None:
                    waits.end()
                view.end()


def _wait_line(session: Session) -> WaitLine | None:
    """Return the listener that shows what the run waits for, or None if standard error is not a terminal."""
    from agent.cli.terminal import is_terminal

    if not is_terminal(sys.stderr):
        return None
    from agent.cli.waitline import WaitLine

    return WaitLine(lambda: session.model, thinking=session.config.display.thinking)


def _pictures(args: argparse.Namespace) -> tuple[Sequence[Image], ImageFolder | None]:
    """Return the images for the model, and the folder for images that it makes. Raises ToolcribError."""
    if not args.image and args.save_images is None:
        return (), None
    from agent.cli.images import ImageFolder, read_images

    return read_images(args.image), None if args.save_images is None else ImageFolder(args.save_images)


async def _open(crib: Crib, args: argparse.Namespace) -> Session:
    """Open the session. Raises ToolcribError, also if no model is configured for it."""
    from agent.cli.refusing import Refuser
    from agent.desk.request import SessionRequest
    from agent.model_choice.connecting import own_choice
    from agent.model_choice.models import find_endpoint
    from agent.providers.clients import load_early
    from agent.providers.rows import MANUAL

    choice, goes_on = choice_of(args), args.resume or args.latest
    if choice.provider == MANUAL:
        raise ToolcribError("--provider manual has no model for a task; use it with `toolcrib chat`")
    if not goes_on and find_endpoint(crib.config, choice) is None:
        raise _no_model()
    crib.backends.start_early(args.backend)
    load_early()
    session = await crib.desk.open(
        SessionRequest(
            platform="cli",
            asker=None if args.park else Refuser(),
            suspends=args.park,
            cwd=folder_of(args, crib),
            backend=args.backend,
            enabled=args.toolsets,
            disabled=args.disable,
            resume=args.resume,
            latest=args.latest,
            choice=choice,
            mode=mode_of(args, crib.config),
            delegates="awaited",
            leaves_open=True,
        )
    )
    try:
        if goes_on and find_endpoint(crib.config, await own_choice(session, choice)) is None:
            raise _no_model()
    except BaseException:
        await session.close()
        raise
    return session


def _no_model() -> ToolcribError:
    from agent.cli.offer import no_model

    return no_model("run TASK")


@contextmanager
def closing(session: Session, runner: asyncio.Runner) -> Iterator[None]:
    """Close the session after the block, with everything that still runs in it."""
    from agent.cli.escape import one_line
    from agent.later import MOST_NOTE, later_note

    note = ""
    try:
        yield
        note = runner.run(later_note(session))
    finally:
        with interrupting(lambda: None):
            runner.run(session.close())
        if note:
            print(f"toolcrib: {one_line(note, MOST_NOTE)}", file=sys.stderr, flush=True)


def _task(args: argparse.Namespace) -> str:
    """Return the task with piped input as context, or "" to continue an unfinished run. Raises TimeoutError if --timeout expires
    before standard input ends.
    """
    from agent.cli.piped import piped_descriptor, read_piped, with_input

    given: str | None = args.task
    if given == "-" and args.no_stdin:
        raise ToolcribError("TASK - reads standard input, but --no-stdin forbids it; use only one of them")
    descriptor = None if args.no_stdin else piped_descriptor()
    piped = "" if descriptor is None else read_piped(descriptor, args.timeout)
    if given == "-":
        task = piped if descriptor is not None else _typed()
    elif given is None:
        task = piped
    else:
        task = with_input(given, piped) if piped.strip() and given.strip() else given
    if task.strip():
        return task
    if given is not None:
        raise ToolcribError('the task is empty; give a task: toolcrib run "which test fails?"')
    if not args.resume and not args.latest:
        raise ToolcribError('give a task: toolcrib run "which test fails?"')
    if args.image:
        raise ToolcribError("--image needs a task: what to do with the image")
    return ""


def _typed() -> str:
    """Return the task typed at a terminal, up to Ctrl-D."""
    from agent.cli.piped import LIMIT, as_text

    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the task in, or pass it as TASK")
    return as_text(sys.stdin.buffer.read(LIMIT + 1))


def _json_lines() -> JsonLines:
    from agent.cli.jsonl import JsonLines

    return JsonLines(sys.stdout)


def _tracer(session: Session) -> Tracer:
    from agent.cli.trace import Tracer

    return Tracer(session)


def _started(lines: JsonLines | None, session: Session, model: str, args: argparse.Namespace) -> None:
    from agent.backends import unavailable
    from agent.cli.escape import one_line
    from agent.context.instructions import describe_files

    if problem := unavailable(session.backend):
        name = session.backend.name
        print(f"toolcrib: the backend {name!r} is unavailable, so calls in it will fail: {problem}", file=sys.stderr, flush=True)
    files = session.prompt.surroundings.files
    if lines is not None:
        instructions = [file.path for file in files if file.size]
        lines.started(session.identity.session_id, model, session.names, instructions, getattr(args, "allowed", ()))
    if files:
        print(f"toolcrib: {one_line(describe_files(files))}", file=sys.stderr, flush=True)


def _warn(event: Event) -> None:
    """Print a warning on stderr about a reply that was cut short; stdout has JSON events only."""
    from agent.cli.view import CUT_SHORT
    from agent.events import TurnFinished

    if isinstance(event, TurnFinished) and event.finish in CUT_SHORT:
        print(f"toolcrib: {CUT_SHORT[event.finish]}", file=sys.stderr, flush=True)


def report_error(error: ToolcribError, lines: JsonLines | None) -> None:
    from agent.cli.faults import explained

    if lines is not None:
        lines.error(error)
    print(f"toolcrib: {explained(error)}", file=sys.stderr, flush=True)


def say_how_it_ended(outcome: TaskOutcome, timeout: float | None) -> None:
    """Print on stderr how a run ended, unless its answer shows it."""
    from agent.cli.parked import parked_lines

    words: dict[str, Any] = {
        "timeout": f"not finished in {timeout} s (--timeout)",
        "interrupted": "interrupted",
        "max_turns": "the model was asked for its answer before the task was done: --max-turns was reached",
        "ended": "a gate ended the run",
    }
    if outcome.empty:
        words["done"] = "the model's answer is empty"
    elif outcome.spent:
        words["done"] = f"the answer is complete, but --max-tokens was reached: {outcome.spent}"
    if outcome.code == 4:
        allowing = "; to allow them in a run, --allow RULE" if outcome.rules else ""  # no rule allows calls that are always asked
        words["done"] = (
            f"calls that needed approval were denied; to be asked, use `toolcrib chat`{allowing}; to let the run wait for an"
            " answer, --park"
        )
        words["done"] += "".join(f"\nto allow exactly that call: {rule}" for rule in outcome.rules[:_MOST_RULES])
    if outcome.stopped == "parked":
        words["parked"] = "\n".join(parked_lines(outcome.session, outcome.tickets, outcome.queued))
    if outcome.stopped in words:
        print(f"toolcrib: {words[outcome.stopped]}", file=sys.stderr, flush=True)


def _finish(lines: JsonLines | None, outcome: TaskOutcome, tally: Tally) -> None:
    if lines is not None:
        if outcome.stopped == "parked":
            lines.parked(outcome.tickets)
        text = outcome.text or tally.text
        lines.finished(
            stopped=outcome.stopped,
            finish=tally.finish,
            text=text,
            usage=tally.usage,
            turns=tally.turns,
            code=outcome.code,
            data=outcome.data,
        )
