"""A platform's line works without a gateway; only the platform's host receives it."""

from __future__ import annotations

from agent.api import assemble
from agent.config import load_config
from agent.conversation.state import RunResult
from agent.events import Event, TurnFinished
from agent.gateway.admission import Admission
from agent.gateway.assembly import LineListener, assemble_line
from agent.gateway.host import GatewayHost
from agent.gateway.pairing import Pairings
from tests.agent.gateway.conftest import House, Parrot
from toolcrib.chat import Inbound
from tools.redact import Redactor


async def test_a_line_is_made_from_plain_parts(house: House) -> None:
    greeted, seen, ended = list[Inbound](), list[Event](), list[RunResult | Exception]()
    listener = LineListener(
        greet=lambda session_id, message: greeted.append(message),
        watch=lambda session_id, event: seen.append(event),
        done=lambda session_id, outcome: ended.append(outcome),
    )

    async def status() -> str:
        return "well"

    config, platform = load_config(house.config), house.platform
    with assemble(config=config, project_dir=house.folder, store=house.store) as crib:
        crib._add_platform("fake", house.factory)
        pairings = Pairings(house.store, "fake")
        admission = Admission("fake", config.platforms["fake"], pairings, house.store)
        platform.host = door = GatewayHost("fake", config, house.store, admission, pairings)
        parts = assemble_line(
            crib,
            platform,
            admission,
            listener,
            name="fake",
            config=config.platforms["fake"],
            prepare=lambda session: session.link.use(Parrot(house)),
            status=status,
            redactor=Redactor,
            redact=str,
        )
        door.serve(parts)
        await parts.outbox.start()
        parts.outbox.open()
        await parts.manager.start()
        await platform.says("/status")
        await platform.says("hello")
        await house.until(lambda: platform.texts() == ["well"] and len(ended) == 1)
        await parts.mailbox.close(5)
        await parts.manager.leave()
        await parts.outbox.close()
    assert [message.text for message in greeted] == ["hello"]
    assert [event.text for event in seen if isinstance(event, TurnFinished)] == ["re hello"]
    assert [outcome.text for outcome in ended if isinstance(outcome, RunResult)] == ["re hello"]
