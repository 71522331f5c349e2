"""The benchmarks run and print the figures that they promise. No test checks how fast anything is."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import httpx
import pytest

import benchmarks._places
import benchmarks.gateway
import benchmarks.platforms
import benchmarks.preview
import benchmarks.processes
import benchmarks.pty
from benchmarks.__main__ import GROUPS, main
from benchmarks._model_server import ModelServer
from benchmarks._wire_streams import WIRES, streams
from benchmarks.core import CannotMeasureError, Figure, as_lines, as_table, clean_environment, each, median_of_each, once

pytestmark = pytest.mark.untraced  # they run complete groups for their figures; other tests cover the same code


def run(root: Path, *arguments: str, without: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    env = {name: value for name, value in os.environ.items() if name not in without}
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, check=False
    )


def measured(root: Path, *groups: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the figures of these groups by name, in their order, and the warnings."""
    done = run(root, *groups, "--json", "--quick")
    assert done.returncode in (0, 1), done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    figures = {figure["name"]: figure for figure in found}
    assert len(figures) == len(found)
    return figures, done.stderr


def test_start_prints_one_object_a_figure(root: Path) -> None:
    figures, warnings = measured(root, "start")
    assert warnings == ""
    names = ("version", "definitions", "definitions_rss", "explain", "provider")
    assert list(figures) == [f"start.{name}" for name in names]
    for figure in figures.values():
        assert list(figure) == ["name", "value", "unit", "baseline", "ratio", "bar", "ok"]
        assert figure["value"] > 0
        assert figure["baseline"] > 0


def test_what_a_cache_sees_is_measured(root: Path) -> None:
    """These figures do not depend on the machine, so the test checks their bar."""
    done = run(root, "context", "--json", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    names = [json.loads(line)["name"] for line in done.stdout.splitlines()]
    assert names == [f"context.cache_{wire}" for wire in ("chat", "responses", "anthropic", "gemini")]


@pytest.mark.full
def test_the_screen_is_measured(root: Path) -> None:
    figures, warnings = measured(root, "face")
    assert warnings == ""
    names = ("first_prompt", "resume", "echo", "first_token", "first_token_p95", "bytes", "render", "program")
    assert list(figures) == [f"face.{name}" for name in names]


PLACES = ("local", "bubblewrap", "docker", "ssh")
ON_BACKENDS = {
    "processes": [*(f"process.{what}_{place}" for place in PLACES for what in ("start", "poll", "find")), "process.idle"],
    "pty": [*(f"pty.echo_{place}" for place in PLACES), "pty.flood", "pty.flood_memory", "pty.flood_key"],
}


@pytest.mark.full
@pytest.mark.parametrize(("group", "names"), ON_BACKENDS.items())
def test_processes_and_terminals_are_measured_on_all_backends(root: Path, group: str, names: list[str]) -> None:
    done = run(root, group, "--json", "--quick")
    if f"benchmarks {group}: all its figures will be skipped: " in done.stderr:
        assert done.returncode == 2
        return
    assert done.returncode in (0, 1), done.stderr
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == names


@pytest.mark.full
def test_background_processes_of_one_backend_are_measured(tmp_path: Path) -> None:
    """The short form of the test above, which `scripts/soak benchmarks` runs: one backend, one round."""
    place = benchmarks._places.local()
    figures = [
        asyncio.run(benchmarks.processes._start(place, tmp_path, 1)),
        benchmarks.processes._poll(place, tmp_path, 1 << 16, 1),
        benchmarks.processes._find(place, tmp_path, 2, 1),
    ]
    assert [figure.name for figure in figures] == ["process.start_local", "process.poll_local", "process.find_local"]
    assert all(figure.value > 0 for figure in figures)


def test_terminals_of_one_backend_are_measured(tmp_path: Path) -> None:
    """The short form of the test above."""
    (tmp_path / "log").write_bytes(b"a line\n" * 1_000)
    figures = [
        asyncio.run(benchmarks.pty._echo(benchmarks._places.local(), tmp_path, 3, 1.0)),
        *asyncio.run(benchmarks.pty._flood(tmp_path, 1)),
    ]
    assert [figure.name for figure in figures] == ["pty.echo_local", "pty.flood", "pty.flood_memory"]
    assert all(figure.value > 0 for figure in figures[:2])


def test_the_quick_groups_run(root: Path) -> None:
    done = run(root, "dispatch", "definitions", "terminal", "--quick")
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    for name in ("dispatch.sync", "dispatch.plugins", "definitions.scale", "definitions.chars", "terminal.local"):
        assert f"| {name} " in done.stdout
    bars = {cells[1].strip(): cells[5].strip() for line in done.stdout.splitlines() if (cells := line.split("|"))[2:]}
    assert (bars["dispatch.sync"], bars["dispatch.async"], bars["definitions.repeat"]) == ("7x", "2x", "1.5x")


def test_what_others_take_of_the_processor_is_no_figure_s() -> None:
    """The clock of processor time does not advance while another process runs."""
    assert once(lambda: time.sleep(0.05), time.process_time)() < once(lambda: time.sleep(0.05))()


def test_the_loop_is_measured_with_a_store_and_a_server(root: Path) -> None:
    figures, warnings = measured(root, "loop")
    assert warnings == ""
    assert list(figures) == ["loop.first_request", "loop.turn_gap", "loop.session_memory", "loop.stream"]
    for figure in figures.values():
        assert figure["baseline"] > 0


def test_the_gateway_is_measured(root: Path) -> None:
    figures, warnings = measured(root, "gateway")
    names = ["gateway.chats", "gateway.approve", "gateway.idle", "gateway.start"]
    if "the figures of Matrix (" not in warnings:
        names += ["gateway.chats_matrix", "gateway.overhead"]
    assert list(figures) == [*names, "gateway.kill"]
    assert figures["gateway.kill"]["value"] == 0, warnings


@pytest.mark.untraced
def test_platforms_are_measured_beside_a_bare_bot(root: Path) -> None:
    figures, warnings = measured(root, "platforms")
    for name in ("xmpp", "irc", "discord", "slack", "email"):
        named = f"platforms.echo_{name}"
        assert (named in figures) != (f"benchmarks platforms: {named} will be skipped: " in warnings)
        assert figures.get(named, {"baseline": 1})["baseline"] > 0


@pytest.mark.untraced
def test_jobs_are_measured_in_a_gateway(root: Path) -> None:
    figures, _ = measured(root, "cron")
    assert list(figures) == ["cron.late", "cron.burst", "cron.claim_at_once", "cron.idle"]
    assert figures["cron.burst"]["bar"] is None
    assert figures["cron.burst"]["ok"]
    assert all(figure["value"] > 0 for name, figure in figures.items() if name != "cron.idle")  # it may round to 0


def test_what_will_be_left_out_is_said_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TOOLCRIB_SYNAPSE_VENV", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []

    def measure(*, quick: bool) -> list[Figure]:
        said.append(capsys.readouterr().err)
        return [Figure("preview.linear", 1.0, "x", 1.0, 2.0, "value", "nothing")]

    for group in ("gateway", "platforms"):
        monkeypatch.setattr(f"benchmarks.{group}.measure", measure)
    assert main(["gateway", "platforms"]) == 0
    assert "benchmarks gateway: the figures of Matrix (gateway.chats_matrix, gateway.overhead) will be skipped: " in said[0]
    assert "benchmarks platforms: platforms.echo_xmpp will be skipped: " in said[0]
    assert "apt-get install prosody" in said[0] or "pip install 'toolcrib[xmpp]'" in said[0]


def test_chats_that_do_not_get_through_are_told_and_count(root: Path, tmp_path: Path) -> None:
    """A chat without an answer does not block the benchmark; it counts with the time that it has waited."""
    dead = "http://127.0.0.1:9/v1"
    found = {}
    for what, numbers in {"chats": ("3", "0.2", "0.3"), "idle": ("100", "0", "0")}.items():
        argv = [sys.executable, "-m", "benchmarks._gateway_children", what, dead, *numbers, str(tmp_path / what)]
        (tmp_path / what).mkdir()
        done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found[what] = json.loads(done.stdout)
    assert (found["chats"]["chats"], found["chats"]["deltas"]) == (0, 0)
    assert found["chats"]["p99"] >= 500
    assert found["idle"]["chats"] == 0


def test_what_could_be_measured_of_a_group_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure("preview.linear", 1.0, "x", 1.0, 2.0, "value", "nothing")

    def measure(*, quick: bool) -> list[Figure]:
        raise CannotMeasureError("the other half is missing", [figure])

    monkeypatch.setattr(benchmarks.preview, "measure", measure)
    assert main(["preview", "--json"]) == 2
    told = capsys.readouterr()
    assert [json.loads(line)["name"] for line in told.out.splitlines()] == ["preview.linear"]
    assert "benchmarks preview: the other half is missing\nnot measured: preview" in told.err


def test_a_delegates_first_request_is_measured(root: Path) -> None:
    figures, _ = measured(root, "delegate")
    assert [(name, figure["bar"]) for name, figure in figures.items()] == [("delegate.start", 20)]


def test_readers_are_measured(root: Path) -> None:
    figures, warnings = measured(root, "wire", "text", "preview")
    assert warnings == ""
    wires = [f"wire.read_{wire}" for wire in WIRES]
    assert list(figures) == [*wires, "wire.read", "text.linear", "preview.linear"]
    for figure in figures.values():
        assert figure["baseline"] > 0


@pytest.mark.parametrize("wire", WIRES)
def test_the_streams_are_what_the_wires_send(wire: str) -> None:
    for stream in streams(wire, 20):
        assert len(stream.payloads) == len(stream.events) in (20, 21)
        for payload, event in zip(stream.payloads, stream.events, strict=True):
            data = next(line for line in event.decode().splitlines() if line.startswith("data: "))
            assert json.loads(data.removeprefix("data: ")) == json.loads(payload)


def test_the_model_server_notes_when_a_request_came() -> None:
    asked: list[tuple[str, int]] = []

    def answer(path: str, before: int) -> bytes:
        asked.append((path, before))
        return b"data: [DONE]\n\n"

    with ModelServer(answer) as server:
        for text in (b"{}", b"{}" * 100_000):
            begin = time.monotonic()
            reply = httpx.post(f"{server.base_url}/chat/completions", content=text, timeout=30, trust_env=False)
            assert reply.content == b"data: [DONE]\n\n"
            assert begin < server.next_arrival(begin) < time.monotonic()
        with pytest.raises(IndexError):
            server.next_arrival(time.monotonic())
    assert asked == [("/v1/chat/completions", 0), ("/v1/chat/completions", 1)]


def test_what_is_measured_has_bytecode_and_a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONDONTWRITEBYTECODE", "OPENAI_BASE_URL", "TOOLCRIB_CONFIG"):
        monkeypatch.setenv(name, "1")
    seen = clean_environment()
    assert "PYTHONDONTWRITEBYTECODE" not in seen
    assert seen["HOME"] != str(tmp_path)
    alone = clean_environment(tmp_path)
    assert alone["HOME"] == alone["XDG_CONFIG_HOME"] == alone["XDG_STATE_HOME"] == str(tmp_path)
    assert [name for name in alone if name.startswith(("OPENAI_", "TOOLCRIB_", "PYTHONDONT"))] == []


def test_groups_need_no_more_than_the_installed_package(root: Path) -> None:
    """`pip install .` installs everything that the benchmarks import and that their servers need; no dev group is required."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split(r"[^\w-]", text)[0].lower().replace("-", "_") for text in project["dependencies"]}
    brought = {
        top for top, names in packages_distributions().items() if needed & {name.lower().replace("-", "_") for name in names}
    }
    own = {path.stem for path in root.glob("*.py")} | {"benchmarks", "toolcrib", "tools", "agent", "plugins"}
    platforms = {"slixmpp", "irc", "discord", "yarl", "slack_bolt", "slack_sdk", "aioimaplib", "aiosmtplib"}
    own |= {"tests"}  # the benchmarks' servers and fakes
    optional = {"psycopg", "rich", "nio", "mcp", *platforms}  # if one is missing, its figures are left out and stderr names it
    known = {*sys.stdlib_module_names, *brought, *own, *optional}
    files = [*(root / "benchmarks").glob("*.py"), *(root / "tests" / "infra").glob("*.py")]
    wrong = [
        f"{path.name} imports {name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in imported(node)
        if name.partition(".")[0] not in known
    ]
    assert len(files) > len(GROUPS)
    assert wrong == []


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
    return []


def test_a_group_that_cannot_be_measured_does_not_end_the_others(root: Path) -> None:
    done = run(root, "judge", "definitions", "--quick", without=("TOOLCRIB_CORPORA",))
    assert done.returncode == 2
    assert "benchmarks judge: set TOOLCRIB_CORPORA to the folder" in done.stderr
    assert done.stderr.endswith("not measured: judge\n")
    assert "| definitions.scale " in done.stdout


def test_nothing_measured_is_no_empty_table(root: Path) -> None:
    done = run(root, "judge", without=("TOOLCRIB_CORPORA",))
    assert (done.returncode, done.stdout) == (2, "")
    assert "not measured: judge" in done.stderr


def test_a_table_with_groups_missing_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An incomplete table would replace a complete one."""
    measure = benchmarks.preview.measure
    # coverage slows the complete run down to minutes
    monkeypatch.setattr("benchmarks.preview.measure", lambda quick: measure(quick=True))
    kept = tmp_path / "RESULTS.md"
    kept.write_text("the last run")
    monkeypatch.setattr("benchmarks.__main__.RESULTS", kept)
    monkeypatch.setattr("benchmarks.__main__.GROUPS", ("judge", "preview"))
    monkeypatch.delenv("TOOLCRIB_CORPORA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["--write"]) == 2
    assert "not measured: judge; RESULTS.md was not changed" in capsys.readouterr().err
    monkeypatch.setattr("benchmarks.__main__.GROUPS", ("preview",))
    assert main(["--write"]) in (0, 1)
    assert "| preview.linear " in kept.read_text()


@pytest.mark.parametrize("arguments", [["definitions"], ["--quick"]])
def test_a_part_or_a_trial_is_no_table_to_keep(root: Path, arguments: list[str]) -> None:
    before = (root / "benchmarks" / "RESULTS.md").read_bytes()
    done = run(root, *arguments, "--write")
    assert done.returncode == 2
    assert "--write keeps the table of a whole run" in done.stderr
    assert (root / "benchmarks" / "RESULTS.md").read_bytes() == before


def test_an_unknown_group_is_named(root: Path) -> None:
    done = run(root, "stat")
    assert done.returncode == 2
    assert "no group 'stat': choose from start," in done.stderr


def test_a_bar_limits_the_ratio_or_the_value() -> None:
    slow = Figure("a.b", 30.0, "us", 10.0, 2, "ratio", "x")
    assert (slow.ratio, slow.ok, slow.group) == (3.0, False, "a")
    assert Figure("a.b", 30.0, "us", 10.0, 30, "value", "x").ok
    assert "MISSED" in as_table([slow])
    assert json.loads(as_lines([slow]))["ok"] is False


def test_runs_take_turns() -> None:
    order: list[str] = []
    runs = {"a": once(lambda: order.append("a")), "b": each(lambda: order.append("b"), 2)}
    taken = median_of_each(runs, 2)
    assert order == ["a", "b", "b", "a", "b", "b"]
    assert set(taken) == {"a", "b"}


def test_the_store_is_measured_beside_another_process(root: Path) -> None:
    figures, warnings = measured(root, "store")
    names = list(figures)
    assert names[:3] == ["store.append", "store.append_shared", "store.blocking"]
    large = ["store.size", "store.size_calls", "store.start", "store.search_rare", "store.search_newest", "store.search_ranked"]
    assert names[3:9] == large
    if names[9:]:
        assert names[9:] == ["store.append_postgres", "store.blocking_postgres"]
        assert warnings == ""
    else:
        assert "the figures of PostgreSQL (store.append_postgres, store.blocking_postgres) will be skipped" in warnings


def test_many_sessions_are_measured(root: Path) -> None:
    figures, warnings = measured(root, "many")
    assert list(figures) == ["many.sessions", "many.failures", "many.memory", "many.descriptors"]
    assert figures["many.failures"]["value"] == 0, warnings
    assert figures["many.memory"]["value"] > 0
