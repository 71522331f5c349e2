"""Targets that a schema could reach: a server and a file in their own process, which record each access."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib import ExecutedCall, Tool, ToolCallContext, ToolDescriptor, ToolResult
from toolcrib.testing import call_tool

Schema = dict[str, Any]
URL = "http://127.0.0.1:PORT/x.json"
REF: Schema = {"$ref": URL}
D4 = "http://json-schema.org/draft-04/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D19 = "https://json-schema.org/draft/2019-09/schema"
D20 = "https://json-schema.org/draft/2020-12/schema"

_PROGRAM = r"""
import os, socket, sys, threading
pipe, seen = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
answer = b"HTTP/1.0 200 OK\r\nContent-Type: application/schema+json\r\nContent-Length: 2\r\n\r\n{}"

def give_file():
    while True:
        writer = os.open(pipe, os.O_WRONLY)  # waits until the file is opened for reading
        os.mkfifo(pipe + ".next")
        os.replace(pipe + ".next", pipe)  # so that the next writer does not meet this reader again
        os.write(seen, b"file\n")
        os.write(writer, b"{}")
        os.close(writer)

listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=give_file, daemon=True).start()
print(listening.getsockname()[1], flush=True)
while True:
    peer, _ = listening.accept()
    os.write(seen, b"connection\n")
    try:
        peer.recv(4096)
        peer.sendall(answer)
    except OSError:
        pass
    peer.close()
"""
"""The code runs in its own process: the library may hold the interpreter while it fetches, and would wait for itself."""


class Outside:
    """A server on ``port`` and a file, ``pipe``. Each answers with a schema that accepts everything, and accesses are in
    ``seen``.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.pipe = folder / "schema.json"
        self._log = folder / "seen"

    @property
    def seen(self) -> list[str]:
        return self._log.read_text().split()

    def forget(self) -> None:
        os.truncate(self._log, 0)

    def spelled(self, value: Any) -> Any:
        """Return a copy of the value with PORT, FILE and FOLDER replaced in its strings."""
        text = json.dumps(value).replace("PORT", str(self.port))
        return json.loads(text.replace("FILE", str(self.pipe)).replace("FOLDER", str(self.pipe.parent)))


@contextmanager
def reachable(folder: Path) -> Iterator[Outside]:
    """Run the server and the file in ``folder`` until the end of the block."""
    os.mkfifo(folder / "schema.json")
    (folder / "seen").touch()
    command = [sys.executable, "-c", _PROGRAM, str(folder / "schema.json"), str(folder / "seen")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Outside(folder, int(process.stdout.readline()))
        finally:
            process.kill()


class Shaped(Tool):
    """A tool with a given schema, which returns its arguments."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor("shaped", "shaped", "A tool.", parameters={"type": "object", **self._parameters})

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolResult:
        return ToolResult.success("shaped", args)


def called(schema: Mapping[str, Any], args: Any) -> ExecutedCall:
    """Register a tool with that schema, and call it."""
    return call_tool(Shaped(schema), args)


def deep(levels: int, inner: Schema) -> Schema:
    """Return a schema of nested objects, with ``inner`` at the end."""
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner
