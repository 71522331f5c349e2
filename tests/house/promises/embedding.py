"""A program of version 1 that embeds toolcrib. Its argument is the address of a model's server."""

import asyncio
import sys
import time

from agent.config import load_config
from agent.conversation.limits import MaxTurnsReached, RunLimits
from agent.conversation.manager import SessionManager
from agent.events import TextDelta, ToolFinished, ToolStarted, TurnFinished
from agent.models import ModelChoice
from agent.run import RunResult, assemble
from model_tools import get_tool_definitions, handle_function_call
from toolcrib import Agent, Answer, Principal

URL = sys.argv[1]
happened: list[str] = []


def watch(event):
    match event:
        case TextDelta(text=text, id=_):
            happened.append(f"text {text}")
        case ToolStarted(call=call, emoji=_):
            happened.append(f"started {call.name} {call.args}")
        case ToolFinished(executed=executed):
            happened.append(f"finished {executed.status.value} {executed.result.data['output'].strip()}")
        case TurnFinished(number=number, finish=finish):
            happened.append(f"turn {number} {finish}")


def asker(ticket, ctx):
    happened.append(f"asked {ticket.action} {[finding['level'] for finding in ticket.parameters['findings']]} {ctx.tool_name}")
    return Answer(ticket.id, payload={"approved": True, "scope": "once"}, by="program", at=time.time())


with Agent(model="m", base_url=URL, on_event=watch, asker=asker, limits=RunLimits(max_turns=5)) as agent:
    reply = agent.ask("Push it.")
    assert isinstance(reply, RunResult), reply
    print(reply.text, reply.turns, reply.stopped, reply.usage, reply.images, reply.data, reply.tickets)
    shaped = agent.ask("Where?", schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    print(shaped.data["city"], bool(agent.session.id))
print("\n".join(happened))


async def parked():
    async with Agent(model="m", base_url=URL, parks=True) as agent:
        reply = await agent.aask("Push it again.")
        assert reply.stopped == "parked", reply
        await agent.answer(reply.tickets[0], {"approved": False, "reason": "not today"}, by="program")
        print((await agent.resume_run()).text)


asyncio.run(parked())

with assemble() as crib:
    session = crib.open_session(platform="api")
    executed = session.call("terminal", {"command": "echo hello"})
    print(executed.status.value, executed.result.data["output"].strip(), executed.call.name)


async def many():
    with assemble(config=load_config()) as crib:
        manager = SessionManager(crib, choice=ModelChoice(model="m", base_url=URL), watch=lambda session, event: None)
        async with manager:
            print(type(manager).__name__)


asyncio.run(many())
print(len(get_tool_definitions(enabled_toolsets=["terminal"])) > 0, handle_function_call("nothing", {}, "task"))
print(Principal("cli", "").platform, MaxTurnsReached.__name__)
