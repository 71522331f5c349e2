"""Pages that are generated from the code's own descriptions."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import toolcrib
from agent import api as run
from agent import events
from agent.cli.app import built_in
from agent.config import settings
from agent.conversation import limits, manager
from agent.policy import confirmation
from agent.providers.rows import PROVIDERS
from agent.reference import Page, pages
from agent.reference.errors import TO_DO
from agent.reference.finding import named, sections, with_words
from toolcrib import ToolcribError, chat, platforms, registry, testing
from toolcrib.contract import errors as _errors


@pytest.fixture(scope="module")
def found() -> dict[str, Page]:
    return {page.path: page for page in pages()}


def test_each_page_has_a_path_and_a_title_of_its_own(found: dict[str, Page]) -> None:
    assert len(found) == len(list(pages()))
    assert all(page.text.startswith("# ") and page.title.strip() for page in found.values())


def test_each_setting_has_a_place_with_its_default_and_what_is_expected(found: dict[str, Page]) -> None:
    places = {one.title: one.text for one in sections(found.values()) if one.page.startswith("reference/settings/")}
    keys = [one.key for one in settings()]
    assert len(keys) > 200
    assert [key for key in keys if key not in places] == []
    assert "Default: `300`." in places["tools.timeout"]


def test_each_error_says_what_to_do(found: dict[str, Page]) -> None:
    modules = (_errors, limits, confirmation, chat)
    raised = {
        one for module in modules for one in vars(module).values() if inspect.isclass(one) and issubclass(one, ToolcribError)
    }
    errors = {one.__name__ for one in raised}
    assert errors >= {"AnswerUnfit", "UnconfirmedConfig", "NotSent"}
    assert errors == set(TO_DO)
    places = {one.title for one in sections([found["reference/errors"]])}
    assert errors <= places
    (unfit,) = named("AnswerUnfit", list(sections([found["reference/errors"]])))
    assert "It is `RunError` and `ToolcribError`." in unfit.text
    assert "from `agent.conversation.limits`" in unfit.text


def test_each_name_that_programs_import_has_a_place_with_words(found: dict[str, Page]) -> None:
    pages = ("reference/python/", "reference/errors", "reference/events")
    places = {one.title: one.text for one in sections(found.values()) if one.page.startswith(pages)}
    modules = (toolcrib, chat, platforms, testing, run, manager)
    names = {name for module in modules for name in module.__all__}
    assert sorted(names - set(places)) == []
    assert sorted(name for name, text in places.items() if not text.partition("\n")[2].strip()) == []


def test_the_contract_shows_signatures_fields_and_their_defaults(found: dict[str, Page]) -> None:
    everything = list(sections(found.values()))
    (agent,) = named("Agent", everything)
    assert '    model: str = "",\n' in agent.text
    assert "- `aask`\n\n  ```python\n  await aask(\n" in agent.text
    assert "_noted" not in agent.text
    (chat_place,) = (one for one in named("Chat", everything) if one.page == "reference/python/for-chats")
    assert '| `thread` | `str` | `""` |' in chat_place.text
    assert "- `key: str`\n\n  The chat and thread" in chat_place.text
    (result,) = named("ToolResult", everything)
    assert "- `ToolResult.success(tool_name: str, data: Json) -> ToolResult`" in result.text
    assert "| `views` | `Mapping[str, str]` | `dict()` |" in result.text


def test_signatures_lead_to_their_types(found: dict[str, Page]) -> None:
    assert "[ToolCallContext](../python/for-calls.md#toolcallcontext)" in found["reference/hooks/tool_gate"].text
    assert "[ExecutedCall](python/for-models.md#executedcall)" in found["reference/events"].text
    for name in ("reference/hooks/tool_gate", "reference/events"):
        pages = re.findall(r"\((?:\.\./)?(python/[\w-]+)\.md", found[name].text)
        assert {f"reference/{page}" for page in pages} <= set(found)


def test_a_section_has_one_page(found: dict[str, Page]) -> None:
    assert "command_allowlist[]" in found["reference/settings/command_allowlist"].text
    assert [path for path in found if "[" in path] == []


def test_no_page_has_numbers_of_the_specification(found: dict[str, Page]) -> None:
    assert [page.path for page in found.values() if re.search(r"\(\d{3}-\d+", page.text)] == []


def test_each_event_has_a_place(found: dict[str, Page]) -> None:
    names = {one.__name__ for one in vars(events).values() if inspect.isclass(one) and dataclasses.is_dataclass(one)}
    names -= {"ExecutedCall", "Image", "ToolCall", "ToolDisplay"}
    assert names <= {one.title for one in sections([found["reference/events"]])}


def test_each_tool_provider_and_bundled_plugin_has_a_page(found: dict[str, Page]) -> None:
    wanted = {f"reference/tools/{name}" for name in registry.names()} | {f"reference/providers/{name}" for name in PROVIDERS}
    assert wanted <= set(found)
    assert "reference/platforms/matrix" in found


def test_a_rule_shows_its_examples_and_its_level(found: dict[str, Page]) -> None:
    (place,) = named("fs.recursive-delete", list(sections(found.values())))
    assert "rm -rf build" in place.text
    assert "`ask`" in place.text


def test_a_place_is_found_by_its_name_and_by_words(found: dict[str, Page]) -> None:
    everything = list(sections(found.values()))
    (key,) = named("model.base_url", everything)
    assert key.page == "reference/settings/model"
    (page,) = named("reference/tools/read_file", everything)
    assert page.is_first
    assert {one.page for one in named("terminal", everything) if one.is_first} >= {"reference/tools/terminal"}
    assert "reference/rules/index" in {one.page for one in named("rules", everything)}
    assert with_words(["lease", "taken"], everything)
    assert with_words(["no-such-word-anywhere"], everything) == []


def test_words_are_found_where_words_begin_and_decisions_of_the_past_come_last() -> None:
    texts = {
        "adr/1": "# Backup\n\nA backup.\n",
        "reference/rules/x": "# Backup\n\nA backup.\n",
        "guide": "# Work\n\nMake backups; arguments.\n",
        "other": "# Backup\n\nA backup.\n",
    }
    everything = list(sections(Page(path, text) for path, text in texts.items()))
    assert [one.page for one in with_words(["backup"], everything)] == ["other", "guide", "reference/rules/x", "adr/1"]
    assert [one.page for one in with_words(["arg"], everything)] == ["guide"]
    assert [one.page for one in with_words(["gument"], everything)] == ["guide"]  # no word starts with "gument"
    both = [Page("a", "# A\n\narguments\n"), Page("b", "# B\n\nrg\n")]
    assert [one.page for one in with_words(["rg"], list(sections(both)))] == ["b"]


def test_a_class_is_told_from_a_page_of_the_same_name(found: dict[str, Page]) -> None:
    everything = list(sections(found.values()))
    assert [one.page for one in named("Environment", everything)] == ["reference/python/for-backends"]
    assert "reference/rules/environment" in [one.page for one in named("environment", everything)]


def test_code_that_looks_like_a_heading_is_none() -> None:
    page = Page("x", "# X\n\n```sh\n# not a heading\n```\n\n## Y\n\nwords\n")
    assert [one.title for one in sections([page])] == ["X", "Y"]


def test_each_command_has_a_page_of_its_arguments() -> None:
    from agent.cli.command_pages import pages as of_commands

    made = {page.path: page.text for page in of_commands()}
    assert {f"reference/commands/{name}" for name in built_in()} <= set(made)
    assert "`--base-url URL`" in made["reference/commands/chat"]


def test_every_key_that_a_page_names_is_a_setting() -> None:
    """A reader who sets a renamed or invented key would get an error."""
    from agent.cli.command_pages import pages as of_commands
    from agent.reference.site import all_pages

    known = {tuple(one.key.replace("[]", "").split(".")) for one in settings()}
    known |= {key[:length] for key in known for length in range(1, len(key))}
    sections_of_it = {key[0] for key in known}
    # modules, an id of a check of doctor, and keys of rules
    others = {"toolsets.py", "tools.judge.patterns", "tools.registry", "store.damaged", "terminal.device", "terminal.type"}

    def is_known(name: str) -> bool:
        parts = name.removesuffix(".*").split(".")
        named = [key for key in known if len(key) <= len(parts) and all(a in ("*", b) for a, b in zip(key, parts, strict=False))]
        return any(len(key) == len(parts) or key[-1] == "settings" for key in named)

    wrong = [
        f"{page.path}: {name}"
        for page in all_pages(of_commands())
        if not page.path.startswith(("adr/", "changelog"))  # these pages describe the past
        for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_*]+)+)`", page.text)
        if name.split(".")[0] in sections_of_it and name not in others and not name.startswith("profiles.") and not is_known(name)
    ]
    assert wrong == []
