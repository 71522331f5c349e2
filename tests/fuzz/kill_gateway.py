"""Kill a gateway at random moments while people chat with it, and check that nothing is lost, and nothing is shown twice.

    python -m tests.fuzz.kill_gateway [--kills 200] [--users 50] [--seed N]

Runs a real `toolcrib gateway run webhook` over SQLite, a model server, and a service on the other side of the webhook, which
shows the same key once and repeats unacknowledged requests. Users write messages, ask for commands that need approval, and press
its button, at once or later, while the gateway is killed (SIGKILL, its process group) at moments of four kinds in turns: within
2 s after it began to listen, between a message's acknowledgement and the model's request, within 150 ms after the model's reply,
and while a button is pressed. After every other kill it stays down for a while, and users continue to write. Then:

- each acknowledged message got exactly one answer, and each other message could be sent again;
- each approved command had its effect once, and each denied command had none;
- every question could be answered after every restart, and shows its outcome at the end;
- the store is sound (`toolcrib doctor`).

At the end users wait as long as anything happens, and one minute more. A message without an answer is then a fault. Work that is
still running after ten minutes, on a machine that is too busy, is reported separately.

Prints a line for each kill, then the sum. Exits with 1 if there was a fault, and with 2 if there was only unfinished work.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from plugins.webhook.signing import HEADER, signature
from tests.fuzz.kill_town import Town, model_of, receiver_of, serving
from tests.infra.served import free_port

SECRET = "a secret between us"
_MOST_SECONDS = 60.0
"""Limit in seconds for the next event while something is expected."""
_LONGEST_SECONDS = 600.0
MOMENTS = {
    "after the start": ("", 2.0),
    "between a message and the model": ("taken", 0.03),
    "after the model's reply": ("replied", 0.15),
    "while a button is pressed": ("pressed", 0.08),
}
"""The event that a kill waits for, and the greatest delay in seconds after it."""


class Gateway:
    """The process that is killed."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.log = (folder / "gateway.log").open("ab")

    def start(self) -> None:
        """Start the process, and return when it listens."""
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
        """Return whether the port answers."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True
        return False

    def kill(self) -> None:
        """Kill the process with its children."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> int:
        """End the process gracefully."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)


class People:
    """Users who write and press, each in a separate chat, like a service that repeats unacknowledged requests."""

    def __init__(self, town: Town, port: int, folder: Path, users: int, seed: int) -> None:
        self._town = town
        self._port = port
        self._folder = folder
        self._seed = seed
        self._client = httpx.Client(timeout=20, limits=httpx.Limits(max_connections=users))
        self.ending = threading.Event()
        self._ended_at = 0.0
        self.said: list[str] = []
        """Marks of the acknowledged messages."""
        self.commands: dict[str, bool] = {}
        """Marks of acknowledged commands, and whether they were approved."""
        self.faults: list[str] = []
        self.late: list[str] = []
        """Events that users stopped waiting for while other events still happened, because the machine is too busy."""
        self.lost = 0
        """Number of requests without a receiver: the gateway was down, or died in the meantime."""
        self._users = [threading.Thread(target=self._live, args=(f"u{number}",), daemon=True) for number in range(users)]

    def start(self) -> None:
        for one in self._users:
            one.start()

    def join(self) -> None:
        """Wait until the users have finished what they began; they are patient, as the gateway is not killed any more."""
        self._ended_at = time.monotonic()
        self.ending.set()
        for one in self._users:
            one.join()
        self._client.close()

    @property
    def is_over(self) -> bool:
        """True when nothing happens any more, or after a very long time; see ``is_still``."""
        return self.ending.is_set() and (self.is_still or time.monotonic() - self._ended_at > _LONGEST_SECONDS)

    @property
    def is_still(self) -> bool:
        """True if nothing has happened for so long that nothing more is expected."""
        return time.monotonic() - max(self._ended_at, self._town.moved_at) > _MOST_SECONDS

    def missed(self, what: str) -> None:
        """Record an event that a user waited for in vain."""
        (self.faults if self.is_still else self.late).append(what)

    def _live(self, user: str) -> None:
        chance, number = random.Random(f"{user} {self._seed}"), 0  # noqa: S311 - a test's dice
        while not self.ending.is_set():
            number += 1
            mark = f"{user}m{number}"
            if chance.random() < 0.25:
                self._command(user, mark, agrees=chance.random() < 0.7, after=chance.uniform(0, 4) * (chance.random() < 0.3))
            else:
                self._say(user, mark, "hello")
            # Some wait for the answer, as people do; others continue to write.
            if chance.random() < 0.8:
                self._wait(mark, self._town.answered)
            self.ending.wait(chance.uniform(0.05, 1.0))

    def _say(self, user: str, mark: str, text: str) -> None:
        self._post("messages", {"chat": user, "user": user, "message_id": mark, "text": f"<{mark}> {text}"})
        self.said.append(mark)
        self._town.count("taken")

    def _wait(self, mark: str, among: Container[str]) -> bool:
        while mark not in among:
            if self.is_over:
                return False
            time.sleep(0.02)
        return True

    def _command(self, user: str, mark: str, *, agrees: bool, after: float) -> None:
        (self._folder / mark).mkdir()
        self.commands[mark] = agrees
        self._say(user, mark, f"run: rm -rf {self._folder / mark} && echo {mark} >> {self._folder / 'effects' / mark}")
        if not self._wait(mark, self._town.questions):
            self.missed(f"{mark}: it was never asked about")
            return
        self.ending.wait(after)
        key, choice = self._town.questions[mark], "y" if agrees else "n"
        press = {"chat": user, "user": user, "message_id": key, "choice": choice, "press_id": f"p{mark}"}
        self._town.count("pressed")
        notice = self._post("presses", press).get("notice")
        if notice and "already decided" not in notice:
            self.faults.append(f"{mark}: the press was answered {notice!r}")

    def _post(self, what: str, data: Any) -> Any:
        """Send a request until it is acknowledged."""
        body = json.dumps(data).encode()
        while not self.is_over:
            try:
                url = f"http://127.0.0.1:{self._port}/v1/{what}"
                answer = self._client.post(url, content=body, headers={HEADER: signature(SECRET, body)})
            except httpx.HTTPError:
                self.lost += 1
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
        self.missed(f"{what}: never acknowledged: {data}")
        return {}


@dataclass
class Outcome:
    """Result of a run: kills, counts of each kind, and faults."""

    kills: int
    met: Counter[str]
    faults: list[str]
    late: list[str]


def run(kills: int, users: int, seed: int, folder: Path) -> Outcome:
    """Kill a gateway ``kills`` times, in an empty folder, and return the checked outcome."""
    town, chance = Town(), random.Random(seed)  # noqa: S311 - a test's dice
    with serving(model_of(town)) as model, serving(receiver_of(town)) as receiver:
        port = free_port()
        _configure(folder, model, receiver, port)
        gateway, people = Gateway(folder, port), People(town, port, folder / "work", users, seed)
        gateway.start()
        people.start()
        for number, moment in zip(range(kills), _moments(chance), strict=False):
            when = _wait_for(moment, chance, town)
            gateway.kill()
            so_far = f"{len(people.said)} said, {town.happened['asked']} asked, {len(town.shown)} shown, {people.lost} not taken"
            print(f"kill {number + 1}: {when}; {so_far}", flush=True)
            if number % 2:  # users continue to write while it is down
                time.sleep(chance.uniform(0, 1.5))
            gateway.start()
        people.join()
        faults = people.faults + _checked(town, people, folder / "work")
        if gateway.end() not in (0, 143):
            faults.append("the gateway did not end in order")
        faults += _doctor(folder)
    counts = Counter(said=len(people.said), commands=len(people.commands), agreed=sum(people.commands.values()))
    counts += Counter(shown=len(town.shown), asked=town.happened["asked"], lost=people.lost)
    return Outcome(kills, counts, faults, people.late)


def _moments(chance: random.Random) -> Iterator[str]:
    """Yield the kinds of moments without end, each as often as the others."""
    while True:
        yield from chance.sample(list(MOMENTS), len(MOMENTS))


def _wait_for(moment: str, chance: random.Random, town: Town) -> str:
    """Wait for the moment of the next kill, and return its kind."""
    name, most = MOMENTS[moment]
    if name and chance.random() < 0.5:  # else it comes while unfinished work continues
        time.sleep(chance.uniform(0, 2.0))
    before, ends = town.happened[name], time.monotonic() + 5
    while name and town.happened[name] == before and time.monotonic() < ends:
        time.sleep(0.002)
    more = chance.uniform(0, most)
    time.sleep(more)
    return f"{moment}, {more * 1000:.0f} ms"


def _checked(town: Town, people: People, work: Path) -> list[str]:
    """Return the faults, after everything had its time."""
    while not people.is_over and not town.answered.issuperset(people.said):
        time.sleep(0.2)
    is_still, faults = people.is_still, list[str]()
    for mark in people.said:
        answers = town.with_text(f"[{mark}]")
        if not answers and not is_still:
            people.missed(f"{mark}: no answer yet")
        elif len(answers) != 1:
            seen = [one["text"][-200:] for one in town.shown.values() if one["chat"] == mark.partition("m")[0]]
            faults.append(f"{mark}: {len(answers)} answers: {answers}; its chat shows at last {seen[-2:]}")
    effects = Counter(word for file in (work / "effects").iterdir() for word in file.read_text().split())
    for mark, agreed in people.commands.items():
        question = town.shown.get(town.questions.get(mark, ""))
        if effects[mark] > 1 or (effects[mark] and not agreed):
            faults.append(f"{mark}: {effects[mark]} effects, agreed: {agreed}")
        if agreed and not effects[mark]:
            told = town.with_text(f"[{mark}]")
            print(f"  {mark}: agreed, and no effect; the model was informed that it may not have run ({told})", flush=True)
        is_open = question is None or question["buttons"]
        if is_open and not is_still and not town.with_text(f"[{mark}]"):
            continue  # its message was already reported
        if question is None or is_open or not re.search("approved|denied|expired", question["text"]):
            faults.append(f"{mark}: its question is still shown as open")
    return faults


def _doctor(folder: Path) -> list[str]:
    argv = [sys.executable, "-c", "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))", "doctor"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    lines = [line for line in done.stdout.splitlines() if "store" in line and ("wrong" in line or "damaged" in line)]
    return [f"doctor: {line}" for line in lines]


def _configure(folder: Path, model: int, receiver: int, port: int) -> None:
    (folder / "work" / "effects").mkdir(parents=True)
    (folder / "tmp").mkdir()  # leftovers of a killed gateway's shells are deleted with the folder
    (folder / "config.yaml").write_text(
        f"""
model: {{provider: chat, base_url: 'http://127.0.0.1:{model}/v1', name: toy}}
plugins: {{enabled: [webhook]}}
sandbox: {{mode: none}}
snapshots: {{enabled: false}}
platforms:
  webhook:
    allowed_users: ['*']
    roles: {{owner: ['*']}}
    settings: {{url: 'http://127.0.0.1:{receiver}/', port: '{port}', edit_seconds: '0.05'}}
"""
    )
    places = {"TOOLCRIB_CONFIG": "config.yaml", "TOOLCRIB_STATE": "state", "TMPDIR": "tmp"}
    os.environ.update({name: str(folder / place) for name, place in places.items()}, WEBHOOK_SECRET=SECRET)


def main() -> int:
    """Run the kills of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="FOLDER", help="copy all files to this folder if there was a fault")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tc-gateway-") as folder:
        begun = time.monotonic()
        outcome = run(args.kills, args.users, args.seed, Path(folder))
        if outcome.faults and args.keep:
            shutil.copytree(folder, args.keep)
    for fault in outcome.faults:
        print(f"FAULT {fault}")
    met = ", ".join(f"{count} {name}" for name, count in outcome.met.items())
    for late in outcome.late:
        print(f"LATE {late}")
    print(f"{outcome.kills} kills in {time.monotonic() - begun:.0f} s ({met}): {len(outcome.faults)} faults")
    return 1 if outcome.faults else 2 if outcome.late else 0


if __name__ == "__main__":
    sys.exit(main())
