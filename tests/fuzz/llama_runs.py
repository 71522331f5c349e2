"""Run toolcrib against a real llama.cpp server with a real small model: ``python -m tests.fuzz.llama_runs``.

The server and the model are those of tests/infra/llama.py; ``--base-url URL`` names a server that runs already. Its model has 135
million parameters, so most cases check how a run ends, and not what the model writes. They ask with and without tools, by native
calls and by text protocols. In the last two cases the model repeats itself for ever, since the server takes the most likely words
and sets no limit of tokens: toolcrib must stop the reply, report that, and keep only its beginning and its end.

Prints a line for each case. The exit status is 1 if one failed, or if there is no server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.infra import llama

PROGRAM = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"
NOTE = "The harbour opens at seven."
QUESTION = "What is the capital of France? Answer in one sentence."
CALLS = {
    "hermes": '<tool_call>\n{"name": "read_file", "arguments": {"path": "note.txt"}}\n</tool_call>',
    "qwen_xml": "<tool_call>\n<function=read_file>\n<parameter=path>\nnote.txt\n</parameter>\n</function>\n</tool_call>",
    "json_object": '{"action": {"tool": "read_file", "args": {"path": "note.txt"}}}',
}
"""A call in each text protocol. The model is asked to repeat it, since it is too small to choose a tool."""
SENTENCE = "I am sorry, but I cannot help with that request. "
ENDLESS = f"Continue this text: {SENTENCE * 30}"
"""The model repeats the sentence too. A loop that it finds without help differs with the path of the project, and may drift."""
_TOKENS = 200
"""Limit of a reply, except in the last cases."""
_LIMIT = 1_800.0
"""Seconds for a run. An endless reply takes minutes."""
_SHORT = 6_000
"""Characters that are kept of the endless reply at most; the server has sent at least three times as many."""
Json = dict[str, Any]


class Ended(NamedTuple):
    """A run of toolcrib: its exit code, its events and what it wrote to stderr."""

    code: int
    events: Sequence[Json]
    errors: str

    def all_of(self, kind: str) -> list[Json]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]

    @property
    def streamed(self) -> str:
        """The text of the last turn, as it arrived."""
        deltas = self.all_of("text_delta")
        return "".join(event["text"] for event in deltas if event["id"] == deltas[-1]["id"])


class Case(NamedTuple):
    """A case: its name, and a function that tries it and returns a description of the result. It raises AssertionError."""

    name: str
    run: Callable[[World], str]


class World:
    """A home and a project of one case, and the server that it asks."""

    def __init__(self, folder: Path, base_url: str, model: str) -> None:
        self._folder = folder
        self._model = ("--base-url", base_url, "--model", model)
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "note.txt").write_text(f"{NOTE}\n", "utf-8")

    def configure(self, **model: Any) -> None:
        """Write the configuration: ``model`` are keys below model."""
        file = self._folder / "config" / "toolcrib" / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"model": model, "snapshots": {"enabled": False}}), "utf-8")

    def toolcrib(self, *argv: str) -> tuple[int, str, str]:
        """Return the exit code, the output and the errors of a command."""
        left_out = ("TOOLCRIB_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "XDG_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        folders = {f"XDG_{name.upper()}_HOME": str(self._folder / name) for name in ("config", "state", "data", "cache")}
        environment |= {"HOME": str(self._folder), "TMPDIR": str(self._folder), **folders}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(llama.ROOT), os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *argv], cwd=self.project, env=environment, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace",
        )  # fmt: skip
        try:
            out, errors = process.communicate(timeout=_LIMIT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, out, errors

    def ask(self, task: str, *options: str) -> Ended:
        """Return a run of a task."""
        code, out, errors = self.toolcrib("run", task, "--json", *self._model, *options)
        return Ended(code, [json.loads(line) for line in out.splitlines()], errors)

    def replies(self, session: str) -> list[Json]:
        """Return the stored replies of a session."""
        code, out, errors = self.toolcrib("sessions", "export", session, "--format", "json")
        assert code == 0, errors
        return [record for record in json.loads(out)["records"] if record.get("role") == "assistant"]


def check_end(ended: Ended) -> str:
    """Return a description of a run. Raises AssertionError if it did not end as documented, or a call has no result.

    A model that can't follow its protocol ends with NoProgress.
    """
    assert "Traceback" not in ended.errors, ended.errors[-1500:]
    last = ended.events[-1]
    assert last["type"] == "run_finished", last
    problems = [event["kind"] for event in ended.all_of("error")]
    assert problems in ([], ["NoProgress"]), f"{problems}: {ended.errors.strip()[-300:]}"
    limited = last["finish"] == "length" or last["stopped"] == "max_turns"
    expected = (1,) if problems else (5,) if limited else (0, 4)
    assert ended.code in expected, f"exit code {ended.code}, not one of {expected}: {ended.errors.strip()[-300:]}"
    assert last["usage"].get("output", 0) > 0, last["usage"]
    started, finished = ended.all_of("tool_started"), ended.all_of("tool_finished")
    assert [event["id"] for event in started] == [event["id"] for event in finished], (started, finished)
    calls = ", ".join(f"{event['name'] or 'unreadable'} {event['status']}" for event in finished) or "no call"
    text = ", ".join(problems) or repr(" ".join(last["text"].split())[:40])
    return f"exit {ended.code}, turns: {last['turns']}, {calls}, {text}"


def without_tools(options: Sequence[str], **model: Any) -> Callable[[World], str]:
    """Return the check of a question without tools."""

    def run(world: World) -> str:
        world.configure(max_output_tokens=_TOKENS, **model)
        ended = world.ask(QUESTION, "--toolsets", "", *options)
        assert ended.all_of("run_started")[0]["tools"] == []
        found = check_end(ended)
        assert "Paris" in ended.events[-1]["text"] or ended.code == 1, found
        return found

    return run


def with_tools(options: Sequence[str], style: str, *, runs: bool = False, **model: Any) -> Callable[[World], str]:
    """Return the check of a task with tools, in a protocol. If ``runs``, the model's call must succeed."""

    def run(world: World) -> str:
        world.configure(max_output_tokens=_TOKENS, **model)
        task = f"Repeat this text exactly:\n{CALLS[style]}"
        ended = world.ask(task, "--toolsets", "safe", "--max-turns", "2", *options)
        assert "read_file" in ended.all_of("run_started")[0]["tools"]
        found = check_end(ended)
        if runs:
            assert any(NOTE in json.dumps(event.get("result")) for event in ended.all_of("tool_finished")), found
        return found

    return run


def endless(options: Sequence[str], **model: Any) -> Callable[[World], str]:
    """Return the check of a reply that repeats itself for ever, and of the question after it."""

    def run(world: World) -> str:
        world.configure(**model)
        ended = world.ask(ENDLESS, "--toolsets", "", *options)
        sent = ended.streamed
        assert ended.code == 1, f"exit code {ended.code} after {len(sent):,} characters: {ended.errors.strip()[-300:]}"
        assert "repeats itself" in ended.errors, f"after {len(sent):,} characters: {ended.errors.strip()[-300:]}"
        assert [event["kind"] for event in ended.all_of("error")] == ["StreamBroken"]
        assert len(sent) > 3 * _SHORT, len(sent)
        session = ended.all_of("run_started")[0]["session"]
        kept = str(world.replies(session)[-1]["text"])
        assert len(kept) < _SHORT, len(kept)
        assert kept.startswith(sent[:1_000])
        assert kept.endswith(sent[-500:])
        assert "characters left out" in kept
        world.configure(max_output_tokens=20, **model)
        again = world.ask(QUESTION, "--continue", "--toolsets", "", *options)
        check_end(again)
        read = again.events[-1]["usage"]["input"]
        assert read < _SHORT / 2, f"{read:,} tokens in the next request"
        return f"stopped after {len(sent):,} characters, {len(kept):,} kept; next request: {read:,} tokens"

    return run


def cases() -> Iterator[Case]:
    """Yield all cases."""
    chat, text = ["--provider", "chat"], ["--provider", "text"]
    yield Case("chat, without tools", without_tools(chat))
    yield Case("chat, with tools", with_tools(chat, "hermes"))
    for name in CALLS:
        yield Case(f"text, {name}, without tools", without_tools(text, protocol=name))
        yield Case(f"text, {name}, with tools", with_tools(text, name, runs=name == "hermes", protocol=name))
    yield Case("chat, an endless reply", endless(chat))
    yield Case("text, an endless reply", endless(text, protocol="hermes"))


def try_all(chosen: Sequence[Case], base_url: str, model: str) -> int:
    """Run cases and print their results; return how many failed."""
    failed = 0
    for case in chosen:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="llama-runs-") as folder:
            try:
                result, ok = case.run(World(Path(folder), base_url, model)), True
            except (AssertionError, subprocess.TimeoutExpired, OSError, ValueError, LookupError) as error:
                result, ok = f"{type(error).__name__}: {' '.join(str(error).split())}", False
        failed += not ok
        seconds = time.monotonic() - started
        print(f"{'ok' if ok else 'FAILED':7} {case.name:32} {seconds:6.1f} s  {result}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} cases are right")
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases whose names contain ``--case``, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.llama_runs", description="Run toolcrib with a small model.")
    parser.add_argument("--base-url", metavar="URL", help="a server that runs already, instead of one of our own")
    parser.add_argument("--model", default=llama.MODEL, metavar="NAME", help="its model (default: %(default)s)")
    parser.add_argument("--case", default="", metavar="WORDS", help="only cases whose names contain this")
    options = parser.parse_args(argv)
    chosen = [case for case in cases() if options.case in case.name]
    if options.base_url:
        return int(try_all(chosen, options.base_url, options.model) > 0)
    try:
        with llama.served(llama.set_up()) as base_url:
            return int(try_all(chosen, base_url, options.model) > 0)
    except llama.NoLlama as error:
        print(error)
        return 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
