"""A client that a session's command runs.

It tries all requests that could decide, even with the correct passphrase, and prints the answers.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path


def lines(found: dict[str, str]) -> list[bytes]:
    """Return the lines to send, with ids and the passphrase from a file that the test wrote."""
    ticket, message, words, folder = found["ticket"], found["message"], found["passphrase"], found["folder"]
    said = [
        "/approve",
        f"/approve {ticket}",
        f"/approve {ticket} session",
        "yes",
        "1",
        "y",
        words,
        f"rm -rf {folder}",
        found["code"],
    ]
    tries = [
        {"hello": "main"},
        {"unlock": words},
        {"press": [message, "y"]},
        {"press": [message, "s"]},
        *({"text": text} for text in said),
        *({"text": text, "reply_to": message} for text in said[:6]),
        {"hello": "second"},
        {"unlock": words},
        {"text": f"rm -rf {folder}"},
        {"text": "/approve"},
    ]
    return [json.dumps(one).encode() + b"\n" for one in tries]


def main(given: str, how: str = "") -> None:
    found = json.loads(Path(given).read_text())
    if how == "print":
        sys.stdout.buffer.write(b"".join(lines(found)))
        return
    link = socket.socket(socket.AF_UNIX)
    link.connect(found["socket"])
    if how == "handed-over" and os.fork():
        os._exit(0)  # the process that connected has ended; another one has the descriptor
    if how == "double-forked":
        link.close()
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
        link = socket.socket(socket.AF_UNIX)
        link.connect(found["socket"])
    if how == "patient":
        time.sleep(0.3)
    link.settimeout(5)
    link.sendall(b"".join(lines(found)))
    link.shutdown(socket.SHUT_WR)
    while data := link.recv(65536):
        sys.stdout.buffer.write(data)
    Path(found["told"]).write_text("done")


main(*sys.argv[1:])
