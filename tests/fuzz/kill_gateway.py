"""Kill a gateway at random moments while people chat with it, and check that nothing is lost, and nothing is shown twice.

    python -m tests.fuzz.kill_gateway [--kills 200] [--users 50] [--seed N]

A real `toolcrib gateway run webhook` over SQLite, a model server and a service on the other side of the webhook, which shows the
same key once and sends what was not acknowledged again. Users write messages, ask for commands that need approval, and press its
button, while the gateway is killed (SIGKILL, its process group) so many ms after it began to listen, or after the model was
asked, or after a button was pressed, as the seed says; some messages are sent while it is down. Then:

- each message that was acknowledged got exactly one answer, and each that was not could be sent again;
- each command that was agreed to had its effect once, and none that was refused;
- every question could be answered after every restart, and shows how it was settled at the end;
- the store is sound (`toolcrib doctor`).

Prints a line for each kill, then the sum. Exits with 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from plugins.webhook.signing import HEADER, signature

SECRET = "between us"
_MARK = re.compile(r"<(\w+)>")
_MOST_SECONDS = 120.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections end as processes are killed."""


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on a free port of this machine until the end."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Answers(BaseHTTPRequestHandler):
    """A base with what both servers need."""

    protocol_version = "HTTP/1.1"

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def reply(self, data: Any, kind: str = "application/json") -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return


@dataclass
class Town:
    """What the people of the chats see, and what the model was asked."""

    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages by their keys, in their newest form: the service shows a key once."""
    asked: int = 0
    pressed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, message: Mapping[str, Any]) -> str:
        """Show a message, or change one; return its id."""
        with self.lock:
            known = message["edits"] or message["key"]
            before = self.shown.get(known)
            self.shown[known] = dict(message) | {"at": time.monotonic() if before is None else before["at"]}
            return str(known)

    def with_text(self, text: str) -> list[str]:
        """Return the keys of the messages whose text has this."""
        with self.lock:
            return [key for key, one in self.shown.items() if text in one["text"]]

    def question(self, mark: str) -> tuple[str, dict[str, Any]] | None:
        """Return the question about a command with this mark."""
        with self.lock:
            found = [(key, one) for key, one in self.shown.items() if key.startswith("ticket:") and mark in one["text"]]
        return found[0] if found else None


def model_of(town: Town) -> type[BaseHTTPRequestHandler]:
    """Return a model that answers each message with its mark, and runs what it is told to."""

    class Model(Answers):
        def do_POST(self) -> None:
            messages = self.body()["messages"]
            town.asked += 1
            said = next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")
            mark = (_MARK.findall(said) or ["none"])[-1]
            command = said.partition("run: ")[2]
            if command and messages[-1]["role"] == "user":
                call = {"name": "terminal", "arguments": json.dumps({"command": command})}
                delta: Any = {"tool_calls": [{"index": 0, "id": f"call-{mark}", "type": "function", "function": call}]}
                pieces = [delta]
            else:
                pieces = [{"content": word} for word in ("answer ", "to ", f"[{mark}]")]
            time.sleep(0.03)
            events = [{"choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces]
            end = "tool_calls" if "tool_calls" in pieces[0] else "stop"
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
            text = "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"
            with contextlib.suppress(OSError):
                self.reply(text.encode(), "text/event-stream")

        def do_GET(self) -> None:
            self.reply({"data": [{"id": "toy"}]})

    return Model


def receiver_of(town: Town) -> type[BaseHTTPRequestHandler]:
    """Return the service's side that shows messages."""

    class Receiver(Answers):
        def do_POST(self) -> None:
            number = town.show(self.body())
            with contextlib.suppress(OSError):
                self.reply({"id": number})

    return Receiver


class Gateway:
    """The process that is killed."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.log = (folder / "gateway.log").open("ab")

    def start(self) -> None:
        """Start, and return once it listens."""
        argv = [sys.executable, "-c", "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))", "gateway", "run"]
        self._process = subprocess.Popen(
            argv, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )
        ends = time.monotonic() + _MOST_SECONDS
        while not self.listens():
            if self._process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"the gateway did not start: see {self._folder / 'gateway.log'}")
            time.sleep(0.02)

    def listens(self) -> bool:
        """Return whether somebody answers."""
        try:
            httpx.get(f"http://127.0.0.1:{self.port}/", timeout=2)
        except httpx.HTTPError:
            return False
        return True

    def kill(self) -> None:
        """Kill it with all that it started."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> int:
        """End it in order."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)


class People:
    """Users who write and press, each in a chat of their own, as a service that repeats what was not acknowledged."""

    def __init__(self, town: Town, port: int, folder: Path, users: int, seed: int) -> None:
        self._town = town
        self._port = port
        self._folder = folder
        self._chance = random.Random(seed)  # noqa: S311 - a test's dice
        self.ending = threading.Event()
        self._ended_at = 0.0
        self.said: list[str] = []
        """Marks of the messages that were acknowledged."""
        self.commands: dict[str, bool] = {}
        """Marks of acknowledged commands, and whether they were agreed to."""
        self.faults: list[str] = []
        self._users = [threading.Thread(target=self._live, args=(f"u{number}",), daemon=True) for number in range(users)]

    def start(self) -> None:
        for one in self._users:
            one.start()

    def join(self) -> None:
        """Have them end what they began; nobody gives up before it is killed no more."""
        self._ended_at = time.monotonic()
        self.ending.set()
        for one in self._users:
            one.join(_MOST_SECONDS * 2)

    def _gives_up(self) -> bool:
        return self.ending.is_set() and time.monotonic() - self._ended_at > _MOST_SECONDS

    def _live(self, user: str) -> None:
        chance, number = random.Random(f"{user} {self._chance.random()}"), 0  # noqa: S311 - a test's dice
        while not self.ending.is_set():
            number += 1
            mark = f"{user}m{number}"
            if chance.random() < 0.25:
                self._command(user, mark, agrees=chance.random() < 0.7)
            else:
                self._post("messages", {"chat": user, "user": user, "message_id": mark, "text": f"<{mark}> hello"})
                self.said.append(mark)
            self.ending.wait(chance.uniform(0.05, 1.0))

    def _command(self, user: str, mark: str, *, agrees: bool) -> None:
        (self._folder / mark).mkdir()
        command = f"rm -rf {self._folder / mark} && echo {mark} >> {self._folder / 'effects' / mark}"
        text = f"<{mark}> run: {command}"
        self._post("messages", {"chat": user, "user": user, "message_id": mark, "text": text})
        self.said.append(mark)
        self.commands[mark] = agrees
        while (found := self._town.question(f"/{mark} ")) is None:
            if self._gives_up():
                self.faults.append(f"{mark}: it was never asked about")
                return
            time.sleep(0.05)
        key, _ = found
        press = {"chat": user, "user": user, "message_id": key, "choice": "y" if agrees else "n", "press_id": f"p{mark}"}
        self._town.pressed += 1
        notice = self._post("presses", press).get("notice")
        if notice and "settled before" not in notice:
            self.faults.append(f"{mark}: the press was answered {notice!r}")

    def _post(self, what: str, data: Any) -> Any:
        """Say it until it is acknowledged."""
        body = json.dumps(data).encode()
        while not self._gives_up():
            try:
                url = f"http://127.0.0.1:{self._port}/v1/{what}"
                answer = httpx.post(url, content=body, headers={HEADER: signature(SECRET, body)}, timeout=20)
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                told = answer.json()
                if told.get("state") == "refused":
                    self.faults.append(f"{data['message_id']}: refused")
                return told
            if answer.status_code != 503:
                self.faults.append(f"{what}: answered {answer.status_code}: {answer.text[:200]}")
                return {}
            time.sleep(0.2)
        self.faults.append(f"{what}: never acknowledged: {data}")
        return {}


@dataclass
class Outcome:
    """Sum of a run: kills, what there was of each kind, and what was wrong."""

    kills: int
    met: Counter[str]
    faults: list[str]


def run(kills: int, users: int, seed: int, folder: Path) -> Outcome:
    """Kill a gateway so many times, in an empty folder, and check what came of it."""
    town, chance = Town(), random.Random(seed)  # noqa: S311 - a test's dice
    with serving(model_of(town)) as model, serving(receiver_of(town)) as receiver:
        port = _free_port()
        _configure(folder, model, receiver, port)
        gateway, people = Gateway(folder, port), People(town, port, folder / "work", users, seed)
        gateway.start()
        people.start()
        for number in range(kills):
            when = _wait(chance, town)
            gateway.kill()
            print(f"kill {number + 1}: {when}; {len(people.said)} said, {town.asked} asked, {len(town.shown)} shown", flush=True)
            if chance.random() < 0.3:  # people go on writing while it is down
                time.sleep(chance.uniform(0, 1.5))
            gateway.start()
        people.join()
        faults = people.faults + _checked(town, people, folder / "work")
        if gateway.end() not in (0, 143):
            faults.append("the gateway did not end in order")
        faults += _doctor(folder)
    counts = Counter(said=len(people.said), commands=len(people.commands), agreed=sum(people.commands.values()))
    return Outcome(kills, counts + Counter(shown=len(town.shown), asked=town.asked), faults)


def _wait(chance: random.Random, town: Town) -> str:
    """Wait for the moment of the next kill, and say which it is."""
    kind, more = chance.choice(["after the start", "after a request", "after a press"]), chance.uniform(0, 0.15)
    if kind == "after the start":
        more = chance.uniform(0, 2.0)
    else:
        ends, name = time.monotonic() + 5, "asked" if kind == "after a request" else "pressed"
        before = getattr(town, name)
        while getattr(town, name) == before and time.monotonic() < ends:
            time.sleep(0.002)
    time.sleep(more)
    return f"{kind} by {more * 1000:.0f} ms"


def _checked(town: Town, people: People, work: Path) -> list[str]:
    """Return what is wrong, once everything had its time."""
    ends = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < ends and any(not town.with_text(f"[{mark}]") for mark in people.said):
        time.sleep(0.2)
    faults = []
    for mark in people.said:
        answers = town.with_text(f"[{mark}]")
        if len(answers) != 1:
            faults.append(f"{mark}: {len(answers)} answers: {answers}")
    effects = Counter(word for file in (work / "effects").iterdir() for word in file.read_text().split())
    for mark, agreed in people.commands.items():
        question = town.question(f"/{mark} ")
        if effects[mark] > 1 or (effects[mark] and not agreed):
            faults.append(f"{mark}: {effects[mark]} effects, agreed: {agreed}")
        if agreed and not effects[mark]:
            told = town.with_text(f"[{mark}]")
            print(f"  {mark}: agreed, and no effect; the model was told that it may not have run ({told})", flush=True)
        if question is None or question[1]["buttons"] or not re.search("agreed|refused|nobody", question[1]["text"]):
            faults.append(f"{mark}: its question is still shown as open")
    return faults


def _doctor(folder: Path) -> list[str]:
    argv = [sys.executable, "-c", "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))", "doctor"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    lines = [line for line in done.stdout.splitlines() if "store" in line and ("wrong" in line or "damaged" in line)]
    return [f"doctor: {line}" for line in lines]


def _configure(folder: Path, model: int, receiver: int, port: int) -> None:
    (folder / "work" / "effects").mkdir(parents=True)
    (folder / "config.yaml").write_text(
        f"""
model: {{provider: chat, base_url: 'http://127.0.0.1:{model}/v1', name: toy}}
plugins: {{enabled: [webhook]}}
platforms:
  webhook:
    allowed_users: ['*']
    roles: {{owner: ['*']}}
    settings: {{url: 'http://127.0.0.1:{receiver}/', port: '{port}', edit_seconds: '0.05'}}
"""
    )
    os.environ.update(TOOLCRIB_CONFIG=str(folder / "config.yaml"), TOOLCRIB_STATE=str(folder / "state"), WEBHOOK_SECRET=SECRET)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def main() -> int:
    """Kill as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tc-gateway-") as folder:
        begun = time.monotonic()
        outcome = run(args.kills, args.users, args.seed, Path(folder))
    for fault in outcome.faults:
        print(f"FAULT {fault}")
    met = ", ".join(f"{count} {name}" for name, count in outcome.met.items())
    print(f"{outcome.kills} kills in {time.monotonic() - begun:.0f} s ({met}): {len(outcome.faults)} faults")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
