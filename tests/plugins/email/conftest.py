"""Real mail servers, users who write and read mail on them, and a gateway whose configuration enables the platform.

The servers check no author, so the users here act as the checking server: their mail has the header that it would have added.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import re
import smtplib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default as parsing
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.gateway.gateway import Gateway
from agent.gateway.platform_runner import ChatLine
from agent.process import Crib
from agent.store.memory import MemoryStore
from tests.agent.gateway.conftest import Parrot
from tests.infra.mail import DOMAIN, PASSWORD
from tests.infra.served import NO_TLS, free_port

_LIMIT = 60.0
_NUMBERS = itertools.count(1)
_IDS = itertools.count(1)
LINK = re.compile(r"http://127\.0\.0\.1:\d+/decide/[0-9a-f]+\.[0-9a-f]+")
CHOICE = re.compile(r'name="choice" value="([^"]*)"')


class Post:
    """The servers of tests/infra/mail.py."""

    def __init__(self) -> None:
        argv, root = [sys.executable, "-m", "tests.infra.mail"], Path(__file__).parents[3]
        self._process = subprocess.Popen(argv, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing":
                pytest.skip(rest)
            pytest.fail(f"the mail servers did not start: {rest or word}")
        *ports, folder = rest.split(" ", 6)
        self.imap, self.smtp, self.lmtp, self.imaps, self.smtps, self.starttls = map(int, ports)
        self.folder = Path(folder)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def control(self, command: str) -> None:
        """Send ``kill``, ``stop`` or ``start``."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer().startswith("ok")

    def accounts(self) -> dict[str, str]:
        """Return unused addresses, by name."""
        number = next(_NUMBERS)
        return {name: f"{name}{number}@{DOMAIN}" for name in ("bot", "ann", "bob", "eve")}

    def settings(self, address: str, **more: str) -> dict[str, str]:
        given = {"imap_url": f"imap://127.0.0.1:{self.imap}", "smtp_url": f"smtp://127.0.0.1:{self.smtp}"}
        return {"address": address, "authserv_id": DOMAIN, "per_second": "1000", "per_hour": "1000", **given, **more}

    def hand_in(self, sender: str, to: str, raw: bytes) -> None:
        """Submit a mail, and return when it is in a mailbox."""
        with smtplib.SMTP("127.0.0.1", self.smtp, timeout=_LIMIT) as client:
            client.sendmail(sender, [to], raw)
        self.wait_for_queue()

    def put(self, sender: str, to: str, raw: bytes) -> None:
        """Put a mail into a mailbox directly, because the server for incoming mail refuses some odd mail."""
        with smtplib.LMTP("127.0.0.1", self.lmtp) as client:
            client.sendmail(sender, [to], raw)

    def wait_for_queue(self) -> None:
        """Wait until no mail is on its way."""
        give_up = time.monotonic() + _LIMIT
        while any(files for _, _, files in os.walk(self.folder / "spool" / "queue")):  # the walk tolerates files that are moved
            assert time.monotonic() < give_up, "mail stays in the queue"
            time.sleep(0.005)

    def mail_of(self, address: str) -> list[EmailMessage]:
        """Return the mail in a mailbox, in order."""
        box = self.folder / "mail" / address.partition("@")[0]
        found = [path for name in ("new", "cur") for path in (box / name).glob("*") if path.is_file()]
        found.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
        read: list[EmailMessage] = []
        for path in found:
            with contextlib.suppress(FileNotFoundError):  # it is moved from new to cur when it is read
                read.append(BytesParser(policy=parsing).parsebytes(path.read_bytes()))  # type: ignore[arg-type]  # as that policy makes
        return read

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def vouched(address: str) -> str:
    """Return the header that a user's own server adds to genuine mail of an address."""
    domain = address.partition("@")[2]
    return f"Authentication-Results: {DOMAIN}; dkim=pass header.d={domain}; dmarc=pass (p=none) header.from={domain}\r\n"


class Person:
    """A user with a mailbox, who writes to the bot."""

    def __init__(self, post: Post, address: str, bot: str) -> None:
        self.post = post
        self.address = address
        self.bot = bot

    def writes(
        self,
        text: str,
        *,
        to: str = "",
        subject: str = "",
        answers: Any = None,
        head: str | None = None,
        files: dict[str, bytes] | None = None,
        put: bool = False,
        **fields: str,
    ) -> str:
        """Send a mail, and return its id. ``answers`` is a mail, or an id; ``head`` are the fields that the user's own server
        adds.
        """
        mail = EmailMessage(policy=parsing.clone(max_line_length=900))  # else the library corrupts ids that it folds
        message_id = f"{next(_IDS)}.{time.time_ns()}@{DOMAIN}"
        given = {"From": self.address, "To": self.bot, "Subject": subject, "Message-ID": f"<{message_id}>"}
        if isinstance(answers, str):
            given["References"] = f"<{answers}>"
        elif answers is not None:
            given["In-Reply-To"] = answers["Message-ID"]
            given["References"] = f"{answers['References'] or ''} {answers['Message-ID']}".strip()
            given["Subject"] = answers["Subject"]
        for name, value in {**given, **{name.replace("_", "-"): value for name, value in fields.items()}}.items():
            if value:
                mail[name] = value
        mail.set_content(text, cte="8bit")
        for name, data in (files or {}).items():
            mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
        above = vouched(self.address) if head is None else head
        hand = self.post.put if put else self.post.hand_in
        hand(self.address, to or self.bot, above.encode() + mail.as_bytes())
        return message_id

    def mail(self) -> list[EmailMessage]:
        """Return the bot's mail to this user."""
        return [one for one in self.post.mail_of(self.address) if one["From"] == self.bot]

    def texts(self) -> list[str]:
        return [text_of(one) for one in self.mail()]

    async def until(self, holds: Callable[[], Any], seconds: float = _LIMIT) -> Any:
        """Return the result when the condition holds."""
        give_up = asyncio.get_running_loop().time() + seconds
        while not (found := holds()):
            assert asyncio.get_running_loop().time() < give_up, self.texts()
            await asyncio.sleep(0.02)
        return found


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    return "" if body is None else str(body.get_content()).strip()


def link_in(mail: EmailMessage) -> str:
    found = LINK.search(text_of(mail))
    return found[0] if found is not None else ""


async def open_link(link: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=NO_TLS) as client:
        return await client.get(link)


async def decide(link: str, choice: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=NO_TLS) as client:
        return await client.post(link, data={"choice": choice})


def link_settings() -> dict[str, str]:
    port = free_port()
    return {"link_url": f"http://127.0.0.1:{port}/decide", "link_listen": f"127.0.0.1:{port}"}


class MailHouse:
    """Opens gateways with one store and one mailbox. ``asked`` are the models' messages."""

    def __init__(self, folder: Path, post: Post) -> None:
        self.folder = folder
        self.post = post
        self.store = MemoryStore()
        addresses = post.accounts()
        self.bot = addresses["bot"]
        self.ann, self.bob, self.eve = (Person(post, addresses[name], self.bot) for name in ("ann", "bob", "eve"))
        self.asked: list[str] = []
        self.ran: set[str] = set()
        self.may = asyncio.Event()
        self.models: dict[str, Parrot] = {}
        self.cribs: list[Crib] = []
        self.configure()

    def configure(self, **settings: str) -> None:
        mail = {
            "roles": {"owner": [self.ann.address]},
            "allowed_users": [self.bob.address],
            "allow_local": True,
            "settings": self.post.settings(self.bot, **{**link_settings(), **settings}),
        }
        config = {"plugins": {"enabled": ["email"]}, "platforms": {"email": mail}}
        (self.folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML too

    def gateway(self) -> Gateway:
        crib = assemble(config=load_config(self.folder / "config.yaml"), project_dir=self.folder, store=self.store)
        self.cribs.append(crib)
        return Gateway(crib, names=["email"], prepare=self.prepare)

    def prepare(self, session: Session) -> None:
        session.link.use(self.models.setdefault(session.id, Parrot(self)))

    async def question(self, person: Person, words: str = "") -> EmailMessage:
        """Return the question that a user got."""
        found = await person.until(lambda: [one for one in person.mail() if link_in(one) and words in text_of(one)])
        return found[-1]  # type: ignore[no-any-return]  # a mail


def line_of(gateway: Gateway) -> ChatLine:
    assert gateway.lines[0].problem == ""
    return gateway.lines[0]


@pytest.fixture(scope="session")
def mail_servers() -> Iterator[Post]:
    """Mail servers; a test that ends them must start them again."""
    if importlib.util.find_spec("aioimaplib") is None or importlib.util.find_spec("aiosmtplib") is None:
        pytest.skip("needs aioimaplib and aiosmtplib")
    servers = Post()
    yield servers
    servers.close()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mail_servers: Post) -> Iterator[MailHouse]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("EMAIL_PASSWORD", PASSWORD)
    project = tmp_path / "project"
    project.mkdir()
    made = MailHouse(project, mail_servers)
    yield made
    for crib in made.cribs:
        crib.close()
