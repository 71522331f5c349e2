"""A new hook needs only its declaration, and the line that calls it. The test uses a copy of the project."""

from __future__ import annotations

from typing import Any

AROUND_A_RUN = '''    @hookspec
    def on_sky(self, identity: RunIdentity, color: str) -> Awaitable[None] | None:
        """The sky was seen. ``color`` is its name.

        More about it.
        """

'''
AT_SETUP = '''    @hookspec
    def register_bell(self, add: Callable[[str, Any], None]) -> None:
        """``add("name", sound)``: a bell."""

'''
PLUGIN = """
from toolcrib import hookimpl

@hookimpl
def on_sky(color):
    print("the sky is", color)

@hookimpl
def register_bell(add):
    add("small", "ding", volume=3)
"""
USE = """
import asyncio
from pathlib import Path
from agent.api import assemble
from agent.config import load_config
from dataclasses import replace
from toolcrib.testing import ScriptedSession

folder = Path("home/plugins")
folder.mkdir(parents=True)
(folder / "sky.py").write_text(PLUGIN)
(folder / "cloud.py").write_text(PLUGIN.replace("color", "colour"))
config = load_config(Path("home/config.yaml"))
config = replace(config, plugins=replace(config.plugins, enabled=("sky", "cloud")))

async def main():
    with assemble(config=config, project_dir=Path("home")) as crib:
        print(*(f"{info.name}: {info.error or info.loaded}" for info in crib.plugins if info.enabled), sep="\\n")
        print("bells", getattr(crib, "bells", "are not used"))
        session = await crib.open()
        session.link.use(ScriptedSession("done"))
        print((await session.ask("go")).text)
        await session.close()

asyncio.run(main())
from agent.reference.hooks import pages
found = {page.path: page.text for page in pages()}
assert "| [`on_sky(identity, color)`](on_sky.md) | The sky was seen. `color` is its name. |" in found["reference/hooks/index"]
assert "def on_sky(identity: RunIdentity, color: str)" in found["reference/hooks/on_sky"]
print("described")
"""


def test_a_hook_around_a_run_is_its_declaration_and_its_call(project_copy: Any) -> None:
    """The hook's name and arguments are checked, plugins are called, and the manual has a page about it."""
    project_copy.insert("toolcrib/contract/hooks.py", "    @hookspec\n    def on_decision(", AROUND_A_RUN)
    project_copy.insert("toolcrib/contract/hooks.py", "    @hookspec\n    def register_platform(", AT_SETUP)
    project_copy.insert(
        "agent/conversation/asking.py",
        '    await session.call_hook("post_llm_call"',
        '    await session.call_hook("on_sky", color="blue")\n',
    )
    printed = project_copy.run(f"PLUGIN = {PLUGIN!r}\n{USE}").splitlines()
    assert "sky: True" in printed
    assert any(
        "cloud: on_sky takes any of identity, color, by name; it has no 'colour'; did you mean 'color'?" in line
        for line in printed
    )
    assert printed[-4:] == ["bells are not used", "the sky is blue", "done", "described"]


def test_a_setup_hook_is_its_declaration_and_what_adds(project_copy: Any) -> None:
    project_copy.insert("toolcrib/contract/hooks.py", "    @hookspec\n    def on_decision(", AROUND_A_RUN)
    project_copy.insert("toolcrib/contract/hooks.py", "    @hookspec\n    def register_platform(", AT_SETUP)
    adder = '"register_bell": lambda name, sound, *, volume: setattr(self, "bells", (name, sound, volume)), '
    project_copy.insert("agent/process.py", '"register_tool_source": self', adder)
    printed = project_copy.run(f"PLUGIN = {PLUGIN!r}\n{USE}").splitlines()
    assert "bells ('small', 'ding', 3)" in printed
