"""Faults of the environment end a command with one sentence: closed streams, addresses, link loops, locales, file limits."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

ADDRESSES: Mapping[str, tuple[dict[str, str], str, str]] = {
    "https_proxy=http://bad:port": ({"https_proxy": "http://bad:port"}, "", "https_proxy is 'http://bad:port'"),
    "http_proxy='http://[::1'": ({"http_proxy": "http://[::1"}, "", "http_proxy is 'http://[::1'"),
    "--base-url http://xn--/v1": ({}, "http://xn--/v1", "--base-url is 'http://xn--/v1'"),
    "label": ({}, "http://a..b/v1", "--base-url is 'http://a..b/v1'"),
    "number": ({}, "http://999.1.1.1/v1", "--base-url is 'http://999.1.1.1/v1'"),
    "variable": ({"OPENAI_BASE_URL": "http://xn--/v1"}, "-", "OPENAI_BASE_URL is 'http://xn--/v1'"),
    "password": ({"HTTPS_PROXY": "http://me:secret@[::1"}, "", "HTTPS_PROXY is 'http://***@[::1'"),
    "socks": ({"ALL_PROXY": "socks://127.0.0.1:1"}, "", "ALL_PROXY is 'socks://127.0.0.1:1'; write socks5://"),
    "no_proxy": ({"http_proxy": "http://a:1", "no_proxy": "http://b:d"}, "", "no_proxy is 'http://b:d'"),
    "certificates": ({"SSL_CERT_FILE": "/nowhere/ca.pem"}, "", "SSL_CERT_FILE is '/nowhere/ca.pem'"),
    "keys": ({"SSLKEYLOGFILE": "/nowhere/keys"}, "", "SSLKEYLOGFILE is '/nowhere/keys'"),
}
"""Case (its name is that of its row in the corpus, if any) -> variables, base URL ("-": none), and part of the message."""
KINDS = {"stdout closed", "malformed address in the environment", "JSON on an ASCII stdout", "link loop"}


def toolcrib(folder: Path, *words: str, env: Mapping[str, str] | None = None, redirect: str = "", files: int = 0) -> Any:
    """Run ``python -m toolcrib`` through a shell, with at most ``files`` open files if that is not 0."""
    limits = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
    argv = ["/bin/sh", "-c", f'exec "$0" "$@" {redirect}', sys.executable, "-m", "toolcrib", *words]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        argv, cwd=folder, env={**os.environ, **path, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
        check=False, timeout=120, preexec_fn=limits,
    )  # fmt: skip


@pytest.mark.parametrize("redirect", [">&-", ">&- 2>&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("command", ["tools", "plugins", "sessions list", "tools --json", "env", "--help"])
def test_a_closed_output_is_no_error(tmp_path: Path, command: str, redirect: str) -> None:
    done = toolcrib(tmp_path, *command.split(), redirect=redirect)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_closed_output_is_not_the_next_file(tmp_path: Path) -> None:
    done = toolcrib(tmp_path, "call", "todo", "{}", redirect=">&-")
    assert (done.returncode, done.stderr) == (0, b"")
    databases = list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.db"))
    assert databases
    assert all(file.read_bytes().startswith(b"SQLite format 3") for file in databases)


def test_an_error_goes_nowhere_if_standard_error_is_closed(tmp_path: Path) -> None:
    done = toolcrib(tmp_path, "call", "nothing", "{}", redirect="2>&-")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("case", ADDRESSES)
def test_an_unusable_address_is_named_with_its_variable(tmp_path: Path, case: str) -> None:
    env, url, words = ADDRESSES[case]
    server = [] if url == "-" else ["--base-url", url or "https://model.test/v1"]
    done = toolcrib(tmp_path, "run", *server, "--model", "x", "hi", env=env)
    assert (done.returncode, done.stdout) == (2, b"")
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert b"secret" not in done.stderr


def test_a_socks_proxy_without_its_package_is_explained(tmp_path: Path) -> None:
    code = "import sys; sys.modules['socksio'] = None; from agent.cli import main; sys.exit(main())"
    words = ["run", "--base-url", "http://model.test/v1", "--model", "x", "hi"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "all_proxy": "socks5://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "all_proxy is 'socks5://127.0.0.1:1'" in done.stderr
    assert "toolcrib[socks]" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize(
    "words", [["call", "terminal", '{"command": "echo é ☃ 😀"}'], ["tools", "--json"], ["config", "show", "--json"]]
)
def test_json_is_valid_whatever_the_encoding(tmp_path: Path, words: list[str], encoding: str) -> None:
    (tmp_path / "config.yaml").write_text("model: {name: é☃😀}\n", "utf-8")
    done = toolcrib(tmp_path, *words, env={"PYTHONIOENCODING": encoding, "TOOLCRIB_CONFIG": str(tmp_path / "config.yaml")})
    told = json.loads(done.stdout.decode("utf-8"))
    if words[0] == "call":
        assert told["output"] == "é ☃ 😀\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["call", "read_file", '{"path": "a"}'], 1),
        (["call", "read_file", '{"path": "FOLDER/a/x"}'], 1),
        (["run", "--cwd", "a", "hi"], 2),
        (["config", "set", "model.name", "x", "--config", "a"], 2),
        (["run", "--allow-file", "a", "hi"], 2),
        (["run", "--cwd", "~nobody-of-this-name", "hi"], 2),
    ],
)
def test_a_loop_of_links_is_an_error_in_words(tmp_path: Path, words: list[str], code: int) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    done = toolcrib(tmp_path, *(word.replace("FOLDER", str(tmp_path)) for word in words))
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == code, told
    assert told.count("\n") == 1
    assert "RuntimeError" not in told
    assert (tmp_path / "a").is_symlink()


def test_a_run_ends_with_its_last_line_whatever_the_number_of_files(tmp_path: Path) -> None:
    for files in range(8, 40, 2):
        words = ["run", "--json", "--base-url", "http://127.0.0.1:9/v1", "--model", "x", "--timeout", "0.3", "hi"]
        done = toolcrib(tmp_path, *words, files=files)
        assert b"Traceback" not in done.stderr, (files, done.stderr)
        lines = done.stdout.decode().splitlines()
        if lines:  # with fewer files Python itself may not start
            assert json.loads(lines[-1])["type"] == "run_finished", (files, done.stderr)


def test_too_few_files_are_no_fault_of_a_tool_or_of_toolcrib(tmp_path: Path) -> None:
    """The imports of a first call need files too."""
    call = ("read_file", {"path": "."})
    for files in range(8, 40, 4):
        with ChatServer(ChatServer.calls(call), ChatServer.text("done")) as server:
            done = toolcrib(
                tmp_path, "run", "--json", "--base-url", server.base_url, "--model", "x", "--timeout", "20", "hi", files=files
            )
        assert b"Traceback" not in done.stderr, (files, done.stderr)
        assert b"failed: OSError" not in done.stderr, (files, done.stderr)
        events = [json.loads(line) for line in done.stdout.decode().splitlines()]
        for event in events:
            if event["type"] == "error" or event.get("error"):
                told = event.get("error") or event["message"]
                assert "short of file descriptors" in told or "Too many open files" in told, (files, told)
                assert event.get("kind") != "Internal", (files, told)
        assert not events or events[-1]["type"] == "run_finished"


@pytest.mark.parametrize(
    "words", [["--timeout", "x", "hi"], ["--nosuch", "hi"], ["a", "b"], ["--mode", "zz", "hi"]], ids=" ".join
)
def test_a_wrong_command_line_of_a_run_ends_with_its_last_line_too(run: Any, words: list[str]) -> None:
    done = run("run", "--json", *words)
    error, finished = (json.loads(line) for line in done.out.splitlines())
    assert (done.code, error["type"], error["kind"]) == (2, "error", "ToolcribError")
    assert done.err.strip() == f"toolcrib run: {error['message']}"
    assert (finished["type"], finished["stopped"], finished["exit_code"]) == ("run_finished", "error", 2)
    assert run("run", *words).out == ""


def test_an_unexpected_exception_takes_a_line_and_verbose_shows_its_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.cli.commands.tools.run", lambda args: 1 / 0)
    done = run("tools")
    assert (done.code, done.out) == (1, "")
    assert done.err == "toolcrib: failed: ZeroDivisionError: division by zero\n--verbose shows the traceback\n"
    assert "Traceback" in run("tools", "--verbose").err


def test_an_engine_s_unusable_address_is_named(tmp_path: Path) -> None:
    pytest.importorskip("docker")
    (tmp_path / "config.yaml").write_text("environments: {docker: {image: 'debian:12'}}\n")
    env = {"TOOLCRIB_CONFIG": str(tmp_path / "config.yaml"), "DOCKER_HOST": "tcp://[::1"}
    (tmp_path / "project").mkdir()
    done = toolcrib(tmp_path / "project", "call", "terminal", '{"command": "ls"}', "--backend", "docker", env=env)
    assert (done.returncode, done.stderr) == (1, b"")
    assert "DOCKER_HOST is 'tcp://[::1', which is not an address" in json.loads(done.stdout)["error"]


def test_a_project_s_modules_do_not_replace_ours(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "__init__.py").write_text("raise SystemExit('the project ran')")
    done = toolcrib(tmp_path, "--version")
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(rb"toolcrib \S+\n", done.stdout)


def test_every_row_of_these_kinds_has_a_test(corpora: Path) -> None:
    rows = [json.loads(line) for line in (corpora / "reports" / "desk.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["kind"] in KINDS]
    assert rows
    for row in rows:
        if row["kind"].startswith("malformed"):
            assert row["run"].partition(" toolcrib run")[0] in ADDRESSES
        else:
            assert row["run"].startswith(
                ("toolcrib tools", "toolcrib plugins", "toolcrib sessions list", "PYTHONIO", "ln -s a b")
            )
