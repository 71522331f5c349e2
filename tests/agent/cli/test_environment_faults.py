"""Faults of the environment end a command with one sentence: closed streams, addresses, link loops, locales."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

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


def toolcrib(folder: Path, *words: str, env: Mapping[str, str] | None = None, redirect: str = "") -> Any:
    """Run ``python -m toolcrib`` through a shell."""
    argv = ["/bin/sh", "-c", f'exec "$0" "$@" {redirect}', sys.executable, "-m", "toolcrib", *words]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        argv, cwd=folder, env={**os.environ, **path, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
        check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "redirect"),
    [
        ("tools", ">&-"),
        ("tools", ">&- 2>&-"),
        ("tools", ">&- 2>&- <&-"),
        ("plugins", ">&-"),
        ("sessions list", ">&- 2>&-"),
        ("tools --json", ">&- 2>&- <&-"),
        ("env", ">&- 2>&-"),
        ("--help", ">&-"),
    ],
)
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
def test_an_unusable_address_is_named_with_its_variable(run: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    env, url, words = ADDRESSES[case]
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    server = [] if url == "-" else ["--base-url", url or "https://model.test/v1"]
    done = run("run", *server, "--model", "x", "hi")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert "secret" not in done.err


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


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        (["call", "terminal", '{"command": "echo é ☃ 😀"}'], "ascii"),
        (["call", "terminal", '{"command": "echo é ☃ 😀"}'], "latin-1"),
        (["call", "terminal", '{"command": "echo é ☃ 😀"}'], "utf-8"),
        (["tools", "--json"], "ascii"),
        (["config", "show", "--json"], "ascii"),
    ],
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
