"""Chat platforms: all names that a plugin for a chat platform imports.

    from toolcrib import hookimpl
    from toolcrib.chat import Chat, Inbound, Outbound, Traits

    class Bells:
        traits = Traits(max_chars=500)

        def __init__(self, name, host, **more):
            self.name, self.host = name, host

        async def connect(self):
            self.server = await Server.login(self.host.secret("BELLS_TOKEN"))
            return self.server.account

        async def start(self):
            self.task = asyncio.create_task(self.receive())

        async def receive(self):
            async for one in self.server:
                await self.host.receive(Inbound(Chat(one.room), one.sender, one.id, one.text))
                await one.acknowledge()

        async def send(self, out):
            return await self.server.post(out.chat.id, out.text, key=out.key)

        async def stop(self):
            self.task.cancel()

    class Plugin:
        @hookimpl
        def register_platform(self, add):
            add("bells", Bells)

The platform passes incoming messages to the gateway and shows the gateway's messages. The gateway decides who may speak and
which messages get an answer, and handles approvals, order, retries and limits. ``toolcrib.testing.PlatformSuite`` has the tests
that every platform must pass.
"""

from __future__ import annotations

from toolcrib.contract.chat import (
    Attachment,
    Button,
    Chat,
    Host,
    Inbound,
    NotSent,
    Outbound,
    OutFile,
    Platform,
    Press,
    ShowsCalls,
    ShowsTyping,
    TellsShortcomings,
    Traits,
    settings_of,
    without_controls,
)

__all__ = [
    "Attachment",
    "Button",
    "Chat",
    "Host",
    "Inbound",
    "NotSent",
    "OutFile",
    "Outbound",
    "Platform",
    "Press",
    "ShowsCalls",
    "ShowsTyping",
    "TellsShortcomings",
    "Traits",
    "settings_of",
    "without_controls",
]
