"""Logins at MCP servers, with a server of the SDK and an authorization server."""

from __future__ import annotations

import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pexpect
import pytest

from agent.api import Crib
from agent.config import load_config, read_tokens, token_values, tokens_path, write_secret, write_tokens
from tests.agent.mcp.conftest import Asked, configure, lock
from tests.forks import Forks
from toolcrib.contract.types import ToolCallStatus

SERVER = str(Path(__file__).with_name("oauth_server.py"))
BROWSER = """\
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=30).read()
"""


class Guarded(NamedTuple):
    """The server. ``path``: of its endpoint."""

    port: int
    transport: str

    @property
    def section(self) -> dict[str, Any]:
        path = "sse" if self.transport == "sse" else "mcp"
        more = {"transport": "sse", "protocol": "legacy"} if self.transport == "sse" else {}
        return {"url": f"http://127.0.0.1:{self.port}/{path}", "timeout": 20, **more}

    def control(self, **settings: Any) -> dict[str, Any]:
        """Change the settings of the authorization server, and return what it knows."""
        found: dict[str, Any] = httpx.post(f"http://127.0.0.1:{self.port}/control", json=settings, timeout=30).json()
        return found

    def grants(self) -> list[str]:
        return [one["grant_type"] for one in self.control()["asked"] if one["at"] == "token"]


@pytest.fixture
def start() -> Iterator[Callable[[str], Guarded]]:
    """Return a function that starts a server."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(transport: str = "http") -> Guarded:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        running.append(subprocess.Popen([sys.executable, SERVER, transport, str(port)]))
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    return Guarded(port, transport)
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    yield begin
    for one in running:
        one.kill()
        one.wait()


@pytest.fixture
def guarded(start: Callable[[], Guarded]) -> Guarded:
    """Return a running server, which is configured as ``mail``."""
    found = start()
    configure({"mail": found.section})
    return found


@pytest.fixture
def toolcrib(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs ``toolcrib mcp``, with a browser whose user agrees."""
    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {browser} %s")
    return lambda *args: forks.run("mcp", *args, cwd=tmp_path)


@pytest.fixture
def terminal(forks: Forks, tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn]]:
    """Return a function that runs ``toolcrib mcp`` at a terminal."""
    running: list[pexpect.spawn] = []

    def begin(*args: str) -> pexpect.spawn:
        running.append(forks.spawn("mcp", *args, cwd=tmp_path, timeout=60, encoding="utf-8", dimensions=(50, 2_000)))
        return running[-1]

    yield begin
    for one in running:
        one.close(force=True)


def doubled(crib: Crib, asked: Asked, user: str = "") -> Any:
    """Call the server's tool. Return its result, or why it failed."""
    session = crib.open_session(platform="api", user=user, asker=asked, enabled=["mcp-mail"])
    executed = session.call("double", {"number": 21})
    return executed.result.data["result"] if executed.status is ToolCallStatus.SUCCEEDED else executed.result.message


def entry(principal: str = "") -> dict[str, Any]:
    return read_tokens()[principal]["mail"]


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_login_in_the_browser_is_used_by_calls(
    transport: str, start: Any, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    guarded = start(transport)
    configure({"mail": guarded.section})
    done = toolcrib("login", "mail")
    assert done.returncode == 0, done
    assert done.stdout == "mail: logged in; look at its tools and lock them: toolcrib mcp lock mail\n"
    assert guarded.grants() == ["authorization_code"]
    [authorized] = [one for one in guarded.control()["asked"] if one["at"] == "authorize"]
    assert authorized["code_challenge_method"] == "S256"
    assert authorized["resource"] == guarded.section["url"]
    assert stat.S_IMODE(tokens_path().stat().st_mode) == 0o600
    lock("mail")
    assert doubled(opened(), asked) == 42
    assert guarded.grants() == ["authorization_code"]


def test_tokens_reach_no_output_and_the_redactor_knows_them(guarded: Guarded, toolcrib: Any, opened: Any) -> None:
    done = toolcrib("login", "mail")
    values = token_values()
    access, secret = entry()["token"]["access_token"], entry()["client"]["client_secret"]
    assert {access, secret, entry()["token"]["refresh_token"]} <= {*values.values()}
    shown = opened().redactor().text(f"{access} {secret}")
    assert access not in shown
    assert secret not in shown
    said = done.stdout + done.stderr + toolcrib("list").stdout + load_config().path.read_text()
    assert not [value for value in values.values() if value in said]


def test_an_expired_token_is_renewed_and_the_new_one_kept(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    guarded.control(seconds=1)
    assert toolcrib("login", "mail").returncode == 0
    first = entry()["token"]
    guarded.control(seconds=3600)
    lock("mail")
    assert doubled(opened(), asked) == 42
    assert guarded.grants() == ["authorization_code", "refresh_token"]
    assert entry()["token"]["access_token"] != first["access_token"]
    assert entry()["token"]["refresh_token"] != first["refresh_token"]


def test_a_token_that_the_server_revoked_is_renewed_during_a_session(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    toolcrib("login", "mail")
    lock("mail")
    crib = opened()
    assert doubled(crib, asked) == 42
    guarded.control(without="tokens")
    assert doubled(crib, asked) == 42
    assert guarded.grants() == ["authorization_code", "refresh_token"]


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_call_without_a_login_fails_with_the_fix_and_opens_no_browser(
    transport: str, start: Any, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    guarded = start(transport)
    configure({"mail": guarded.section})
    toolcrib("login", "mail")
    lock("mail")
    crib = opened()
    assert doubled(crib, asked) == 42
    stored = entry()
    write_tokens("", "mail", None)
    assert "not logged in: toolcrib mcp login mail" in doubled(crib, asked)
    assert "not logged in: toolcrib mcp login mail" in doubled(opened(), asked)
    assert toolcrib("list").stdout.splitlines()[1].split()[:4] == ["mail", "not", "logged", "in"]
    assert len([one for one in guarded.control()["asked"] if one["at"] == "authorize"]) == 1
    write_tokens("", "mail", stored)
    assert doubled(crib, asked) == 42


def test_a_logout_removes_the_token(guarded: Guarded, toolcrib: Any) -> None:
    toolcrib("login", "mail")
    access = entry()["token"]["access_token"]
    assert toolcrib("logout", "mail").stdout.startswith("mail: logged out here")
    assert access not in tokens_path().read_text()
    assert toolcrib("logout", "mail").stdout == "mail: not logged in\n"
    assert toolcrib("list").stdout.splitlines()[1].split()[:4] == ["mail", "not", "logged", "in"]


def test_a_session_cannot_log_in_or_out(guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked) -> None:
    toolcrib("login", "mail")
    lock("mail")
    opened().open_session(platform="api", asker=asked, enabled=["mcp-mail"])
    for action in ("login", "logout"):
        assert f"Denied: mcp {action} is for " in toolcrib(action, "mail").stderr
    assert "token" in entry()


def test_a_server_that_is_added_says_that_it_needs_a_login(guarded: Guarded, toolcrib: Any) -> None:
    assert toolcrib("list").stdout.splitlines()[1].split()[:3] == ["mail", "not", "locked"]
    done = toolcrib("lock", "mail")
    assert done.returncode == 1
    assert "the MCP server mail did not start: not logged in: toolcrib mcp login mail\n" in done.stderr
    assert toolcrib("list").stdout.splitlines()[1].split()[:4] == ["mail", "not", "logged", "in"]


def test_processes_that_find_an_expired_token_renew_it_once(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    """The authorization server accepts a refresh token only once."""
    toolcrib("login", "mail")
    lock("mail")
    write_tokens("", "mail", {**entry(), "expires_at": time.time() - 1})
    cribs = [opened() for _ in range(3)]
    with ThreadPoolExecutor(len(cribs)) as pool:
        assert [*pool.map(lambda crib: doubled(crib, asked), cribs)] == [42] * 3
    assert guarded.grants() == ["authorization_code", "refresh_token"]


def test_a_login_without_the_needed_scope_says_so(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    toolcrib("login", "mail")
    lock("mail")
    guarded.control(scopes=["other"], without="tokens")
    assert re.search("the login does not include .*scope.*: toolcrib mcp login mail$", doubled(opened(), asked))


def test_a_login_that_cannot_be_renewed_has_ended(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    toolcrib("login", "mail")
    lock("mail")
    stored = entry()
    broken = {**stored["token"], "refresh_token": "another"}
    write_tokens("", "mail", {**stored, "token": broken, "expires_at": time.time() - 1})
    assert "not logged in: toolcrib mcp login mail" in doubled(opened(), asked)
    assert "token" not in entry()


def test_a_login_survives_an_authorization_server_that_is_down(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    toolcrib("login", "mail")
    lock("mail")
    write_tokens("", "mail", {**entry(), "expires_at": time.time() - 1})
    guarded.control(down=True)
    crib = opened()
    assert "the login has expired, and the request to renew it is answered with 503" in doubled(crib, asked)
    guarded.control(down=False)
    assert doubled(crib, asked) == 42


def test_another_address_gets_no_token(guarded: Guarded, toolcrib: Any, start: Any) -> None:
    toolcrib("login", "mail")
    other = start()
    configure({"mail": other.section})
    done = toolcrib("test", "mail")
    assert "not logged in: toolcrib mcp login mail" in done.stderr
    assert not other.control()["asked"]


def test_another_user_needs_a_login_of_its_own_unless_the_server_is_shared(
    guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    toolcrib("login", "mail")
    lock("mail")
    assert toolcrib("login", "mail", "--for", "12").returncode == 2
    assert toolcrib("login", "mail", "--for", "api:12").returncode == 0
    assert entry("api:12")["token"] != entry()["token"]
    assert doubled(opened(), asked, "12") == 42
    fix = "not logged in: toolcrib mcp login mail --for api:13, or set mcp.servers.mail.shared"
    assert fix in doubled(opened(), asked, "13")
    configure({"mail": {**guarded.section, "shared": True}})
    assert doubled(opened(), asked, "13") == 42
    assert "api:13" not in read_tokens()


def test_a_login_with_a_code_on_another_device(guarded: Guarded, toolcrib: Any, opened: Callable[[], Crib], asked: Asked) -> None:
    done = toolcrib("login", "mail", "--device")
    assert done.returncode == 0, done
    assert done.stderr == f"Open http://127.0.0.1:{guarded.port}/enter on any device, and enter the code WDJB-MJHT\n"
    assert guarded.grants() == ["urn:ietf:params:oauth:grant-type:device_code"] * 2
    lock("mail")
    write_tokens("", "mail", {**entry(), "expires_at": time.time() - 1})
    assert doubled(opened(), asked) == 42
    assert guarded.grants()[2:] == ["refresh_token"]


def test_a_login_by_a_pasted_address(guarded: Guarded, terminal: Any) -> None:
    program = terminal("login", "mail", "--paste")
    program.expect(r"(http://127\S+/as/authorize\S+)")
    url = program.match[1]
    program.expect("Paste its address here:")
    program.sendline(_answer(url))
    program.expect("mail: logged in")
    program.expect(pexpect.EOF)
    assert "token" in entry()


def test_the_browser_may_bring_the_answer_although_it_was_not_pasted(guarded: Guarded, terminal: Any) -> None:
    program = terminal("login", "mail", "--paste")
    program.expect(r"(http://127\S+/as/authorize\S+)")
    url = program.match[1]
    program.expect("Paste its address here:")
    assert "toolcrib has the answer" in httpx.get(url, follow_redirects=True, timeout=30).text
    program.expect("mail: logged in")
    program.expect(pexpect.EOF)


def test_without_a_browser_the_address_is_pasted(
    guarded: Guarded, terminal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "/nonexistent/browser %s")
    monkeypatch.setenv("PATH", str(tmp_path))
    program = terminal("login", "mail")
    program.expect(r"(http://127\S+/as/authorize\S+)")
    url = program.match[1]
    program.expect("Paste its address here:")
    program.sendline(_answer(url).replace("state=", "state=x"))
    program.expect("mail: not logged in: the answer belongs to another login")
    program.expect(pexpect.EOF)
    assert "" not in read_tokens()


def _answer(url: str) -> str:
    """Return the address that the authorization server sends the browser to."""
    return httpx.get(url, timeout=30).headers["location"]


CREDENTIALS = {"client_id": "MAIL_ID", "client_secret": "MAIL_SECRET"}


def test_client_credentials_need_no_user(guarded: Guarded, opened: Callable[[], Crib], asked: Asked) -> None:
    write_secret("MAIL_ID", "robot")
    write_secret("MAIL_SECRET", "r0b0t-secret/+")
    issuer = f"http://127.0.0.1:{guarded.port}"
    configure({"mail": {**guarded.section, **CREDENTIALS, "issuer": issuer}})
    lock("mail")
    assert doubled(opened(), asked) == 42
    assert guarded.grants() == ["client_credentials"]
    assert "r0b0t" not in tokens_path().read_text()
    guarded.control(without="tokens")
    assert doubled(opened(), asked) == 42
    assert guarded.grants() == ["client_credentials"] * 2
    assert "its client credentials are the owner's; to share them, set mcp.servers.mail.shared" in doubled(opened(), asked, "12")


def test_client_credentials_are_sent_to_no_other_server_than_their_issuer(guarded: Guarded, toolcrib: Any) -> None:
    write_secret("MAIL_ID", "robot")
    write_secret("MAIL_SECRET", "r0b0t-secret/+")
    configure({"mail": {**guarded.section, **CREDENTIALS, "issuer": "https://login.example.org"}})
    done = toolcrib("login", "mail")
    assert done.returncode == 1
    assert "login.example.org" in done.stderr
    assert guarded.grants() == []


@pytest.mark.parametrize(
    ("settings", "args", "said"),
    [
        ({"refuses": True}, (), "refused: access_denied (the user said no)"),
        ({"state": "another"}, (), "the answer belongs to another login (its state is wrong); start again"),
        ({"down": True}, (), "Token exchange failed (503)"),
        ({"without": "metadata"}, (), "http://127.0.0.1:PORT has no metadata for OAuth."),
        ({"without": "issuer"}, (), "the authorization server http://127.0.0.1:PORT has no metadata, or its metadata is invalid"),
        ({"without": "registration"}, (), "Registration failed: 403: access_denied (by hand only)"),
        ({"without": "device"}, ("--device",), "its authorization server does not offer codes for other devices"),
        ({"device": "access_denied", "pending": 0}, ("--device",), "refused: access_denied"),
        ({"device": "late", "pending": 99}, ("--device",), "the code has expired; start again"),
    ],
)
def test_a_login_that_fails_says_why(settings: Any, args: Any, said: str, guarded: Guarded, toolcrib: Any) -> None:
    guarded.control(**settings)
    done = toolcrib("login", "mail", *args)
    assert done.returncode == 1
    assert f"mail: not logged in: {said.replace('PORT', str(guarded.port))}" in done.stderr
    assert "Traceback" not in done.stderr
    assert "" not in read_tokens()


def test_a_server_that_is_down_or_takes_no_login_says_so(toolcrib: Any, start: Any) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        configure(
            {
                "down": {"url": f"http://127.0.0.1:{port}/mcp"},
                "program": {"command": ["x"]},
                "key": {"url": "https://mcp.example.org", "headers": {"authorization": "Bearer ${KEY}"}},
            }
        )
        down = toolcrib("login", "down")
    assert down.returncode == 1
    assert f"down: not logged in: http://127.0.0.1:{port} does not answer: " in down.stderr
    assert "the MCP server program is a program: it takes no login" in toolcrib("login", "program").stderr
    assert "mcp.servers.key.headers has Authorization; remove it, then log in" in toolcrib("login", "key").stderr


def test_a_removed_server_leaves_no_login(guarded: Guarded, toolcrib: Any) -> None:
    toolcrib("login", "mail")
    toolcrib("login", "mail", "--for", "telegram:12")
    assert set(read_tokens()) == {"", "telegram:12"}
    toolcrib("remove", "mail")
    assert read_tokens() == {}


def test_a_file_that_others_can_read_or_that_is_broken_is_not_used(guarded: Guarded, toolcrib: Any) -> None:
    toolcrib("login", "mail")
    tokens_path().chmod(0o644)
    assert re.search(r"others may read or write \S+mcp-tokens.json.*chmod 600", toolcrib("test", "mail").stderr)
    tokens_path().write_text("{")
    tokens_path().chmod(0o600)
    assert "mcp-tokens.json: expected the file that toolcrib wrote." in toolcrib("test", "mail").stderr
