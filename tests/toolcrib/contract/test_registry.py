"""Registrations that the registry accepts, and its definitions (003-1 .. 003-10, 003-15)."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import RegistrationError, ToolCallContext, ToolDescriptor, ToolRegistry, ToolResult, Unavailable, registry
from tools.registry import registry as tools_registry

SCHEMA: dict[str, Any] = {
    "description": "Say it again.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def echo(args: dict[str, Any]) -> Any:
    return args["text"]


def names(definitions: Any) -> list[str]:
    return [definition["function"]["name"] for definition in definitions]


class Checks:
    """Check functions that count their runs."""

    def __init__(self, verdict: object = True) -> None:
        self.verdict, self.runs = verdict, 0

    def __call__(self) -> object:
        self.runs += 1
        if isinstance(self.verdict, BaseException):
            raise self.verdict
        return self.verdict


# -- registering -------------------------------------------------------------------------------------------------------


def test_the_two_names_are_one_registry() -> None:
    """003-1"""
    assert tools_registry is registry


def test_register_keeps_what_it_is_told(reg: ToolRegistry) -> None:
    """003-1: arguments are passed by position, as in the specification."""
    check = Checks()
    reg.register("echo", "demo", SCHEMA, echo, check, ["ECHO_KEY"], False, "For people.", "E")
    entry = reg.get("echo")
    assert entry is not None
    assert (entry.name, entry.toolset, entry.handler, entry.check_fn) == ("echo", "demo", echo, check)
    assert (entry.requires_env, entry.is_async, entry.description, entry.emoji) == (("ECHO_KEY",), False, "For people.", "E")
    assert entry.module == __name__
    assert (entry.kind, entry.parallel_safe, entry.timeout) == ("other", False, None)
    assert (entry.interactive, entry.repeatable, entry.max_result_chars) == (False, False, None)


def test_an_async_handler_is_seen_as_one(reg: ToolRegistry) -> None:
    """003-1"""

    async def later(args: dict[str, Any]) -> None: ...

    assert reg.register("later", "demo", SCHEMA, later).is_async
    assert reg.register("told", "demo", SCHEMA, echo, is_async=True).is_async


def test_the_schema_is_openai_s_function_format(reg: ToolRegistry) -> None:
    """003-2"""
    reg.register("echo", "demo", SCHEMA, echo, requires_env=["ECHO_KEY"], emoji="E")
    assert reg.get_definitions() == [{"type": "function", "function": {"name": "echo", **SCHEMA}}]
    assert json.loads(json.dumps(reg.get_definitions())) == reg.get_definitions()


def test_the_whole_wrapped_form_is_taken_too(reg: ToolRegistry) -> None:
    """003-2: the wrapped form is accepted too."""
    reg.register("echo", "demo", {"type": "function", "function": {"name": "echo", "strict": True, **SCHEMA}}, echo)
    assert reg.get_definitions()[0]["function"] == {"name": "echo", "strict": True, **SCHEMA}


def test_no_parameters_means_none(reg: ToolRegistry) -> None:
    reg.register("now", "demo", {"description": "The time."}, echo)
    assert reg.get_definitions()[0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_no_requires_env_is_empty(reg: ToolRegistry) -> None:
    assert reg.register("echo", "demo", SCHEMA, echo, requires_env=None).requires_env == ()


def test_requires_env_does_not_decide(reg: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """003-2"""
    monkeypatch.delenv("ECHO_KEY", raising=False)
    reg.register("echo", "demo", SCHEMA, echo, requires_env=["ECHO_KEY"])
    assert names(reg.get_definitions()) == ["echo"]


def test_a_later_toolset_wins_with_a_warning(reg: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """003-3"""
    reg.register("echo", "first", SCHEMA, echo)
    with caplog.at_level(logging.WARNING):
        reg.register("echo", "second", {**SCHEMA, "description": "Newer."}, echo)
    assert [entry.toolset for entry in reg.entries()] == ["second"]
    assert "'first'" in caplog.text
    assert "'second'" in caplog.text
    assert [problem.subject for problem in reg.problems] == ["tool echo"]
    assert reg.get_definitions()[0]["function"]["description"] == "Newer."


def test_the_same_toolset_may_register_again_silently(reg: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """003-3"""
    reg.register("echo", "demo", SCHEMA, echo)
    reg.register("echo", "demo", SCHEMA, echo)
    assert not caplog.records
    assert reg.names() == ["echo"]


@pytest.mark.parametrize(
    ("schema", "path", "why"),
    [
        ({"parameters": {"type": "object", "properties": {"n": {"type": "intger"}}}}, "$.parameters.properties.n.type", "intger"),
        ({"parameters": {"type": "object", "required": "n"}}, "$.parameters.required", "array"),
        ({"parameters": {"type": "string"}}, "$.parameters", '"type": "object"'),
        ({"parameters": None}, "$.parameters", '"type": "object"'),
        ({"type": "function", "function": 3}, "$.function", "int"),
        (
            {"type": "object", "properties": {"n": {"type": "integer"}}},
            "$.properties",
            "put {'properties': ...} under",
        ),
        (
            {"name": "x", "input_schema": {"type": "object"}},
            "$.input_schema",
            "put the value of 'input_schema'",
        ),
        ({"description": ["a"]}, "$.description", "['a']"),
        ("text", "schema must be a mapping", "str"),
    ],
)
def test_a_bad_schema_names_module_tool_and_path(reg: ToolRegistry, schema: Any, path: str, why: str) -> None:
    """003-2"""
    with pytest.raises(RegistrationError) as caught:
        reg.register("broken", "demo", schema, echo)
    for part in (__name__, "'broken'", path, why):
        assert part in str(caught.value)
    assert reg.names() == []


@pytest.mark.parametrize("name", ["", "a b", "ü", "a/b", "-x", "x" * 129, 3, None])
def test_a_bad_name_is_refused(reg: ToolRegistry, name: Any) -> None:
    with pytest.raises(RegistrationError, match="name has 1 to 128"):
        reg.register(name, "demo", SCHEMA, echo)


async def never_awaited(*given: Any) -> bool:
    return False


def yields(args: Any) -> Any:
    yield args


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "exec"}, "kind is one of read, edit, execute, other"),
        ({"timeout": 0}, "timeout must be seconds"),
        ({"check_fn": True}, "check_fn must be a function"),
        ({"effects": []}, "effects must be a function"),
        ({"toolset": ""}, "toolset: expected a name"),
        ({"check_fn": never_awaited}, "check_fn must be a plain function, not async"),
        ({"validate": never_awaited}, "validate must be a plain function, not async"),
        ({"dynamic_schema": never_awaited}, "dynamic_schema must be a plain function, not async"),
        ({"handler": yields}, "handler 'yields' is a generator: return one value"),
        ({"handler": "echo"}, "is not a function"),
        ({"handler": lambda: 1}, "must take the arguments as its first parameter"),
    ],
)
def test_bad_options_are_refused(reg: ToolRegistry, options: dict[str, Any], says: str) -> None:
    """A mistyped kind would pass the gates as harmless, and a coroutine that no caller awaits would be true."""
    with pytest.raises(RegistrationError, match=says):
        reg.register("broken", **{"toolset": "demo", "schema": SCHEMA, "handler": echo, **options})
    assert reg.get("broken") is None


def test_a_check_that_cannot_be_shared_is_refused(reg: ToolRegistry) -> None:
    class Unhashable(Checks):
        __hash__ = None  # type: ignore[assignment]  # as in a plain dataclass

    with pytest.raises(RegistrationError, match="hashable"):
        reg.register("broken", "demo", SCHEMA, echo, Unhashable())


def test_tools_from_before_the_checker_are_checked_when_it_comes(bare: ToolRegistry, attach: Any) -> None:
    """003-4: an invalid definition is removed and reported, and the others stay."""
    bare.register("good", "demo", SCHEMA, echo)
    bare.register("bad", "demo", {"parameters": {"type": "object", "properties": 3}}, echo)
    attach(bare)
    assert bare.names() == ["good"]
    assert [problem.subject for problem in bare.problems] == ["tool bad"]
    assert "$.parameters.properties" in bare.problems[0].reason


def test_a_guard_may_refuse(reg: ToolRegistry) -> None:
    reg.register("echo", "demo", SCHEMA, echo)

    def check(old: Any, new: Any) -> None:
        if old is not None:
            raise RegistrationError(f"{new.name} is taken")

    reg.guard(check)
    reg.register("other", "demo", SCHEMA, echo)
    with pytest.raises(RegistrationError, match="echo is taken"):
        reg.register("echo", "plugin", SCHEMA, echo)
    assert reg.toolsets() == {"demo": ["echo", "other"]}
    reg.guard(None)
    reg.register("echo", "plugin", SCHEMA, echo)


def test_a_tool_object_is_added(reg: ToolRegistry) -> None:
    """002-4; its id and its name may differ (002-34)"""

    class Greet:
        def descriptor(self) -> ToolDescriptor:
            return ToolDescriptor.new("greet_v1", "greet", "Greet.").with_parameters(SCHEMA["parameters"]).with_category("social")

        def validate_args(self, args: Any) -> None: ...

        async def execute(self, args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
            return ToolResult.success("greet", args["text"])

    entry = reg.add(Greet(), kind="read")
    assert (entry.id, entry.name, entry.toolset, entry.kind, entry.is_async) == ("greet_v1", "greet", "social", "read", True)
    assert entry.validate is not None
    assert names(reg.get_definitions()) == ["greet"]
    assert reg.add(Greet(), toolset="mine").toolset == "mine"


def test_a_tool_may_leave_its_handler_to_the_loop(reg: ToolRegistry) -> None:
    """003-18: the tool is still advertised."""
    entry = reg.register("todo", "planning", SCHEMA, None)
    assert entry.handler is None
    assert entry.invoke is None
    assert names(reg.get_definitions()) == ["todo"]


def test_unregister(reg: ToolRegistry) -> None:
    reg.register("echo", "demo", SCHEMA, echo)
    assert reg.unregister("echo")
    assert not reg.unregister("echo")
    assert reg.get_definitions() == []


def test_threads_may_register_at_once(reg: ToolRegistry) -> None:
    def work(number: int) -> None:
        for index in range(20):
            reg.register(f"t{number}_{index}", "demo", SCHEMA, echo)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reg.names()) == 80
    assert reg.generation == 80


# -- availability ------------------------------------------------------------------------------------------------------


def test_check_fn_decides(reg: ToolRegistry) -> None:
    """003-6, 003-7"""
    reg.register("always", "demo", SCHEMA, echo)
    reg.register("works", "demo", SCHEMA, echo, Checks(True))
    reg.register("hidden", "demo", SCHEMA, echo, Checks(False))
    assert names(reg.get_definitions()) == ["always", "works"]
    assert names(reg.get_definitions(["works", "hidden", "unknown"])) == ["works"]


def test_a_shared_check_runs_once_a_call(reg: ToolRegistry) -> None:
    """003-8"""
    shared, own = Checks(), Checks()
    for name in ("a", "b", "c"):
        reg.register(name, "demo", SCHEMA, echo, shared)
    reg.register("d", "demo", SCHEMA, echo, own)
    reg.get_definitions()
    assert (shared.runs, own.runs) == (1, 1)
    reg.get_definitions()
    assert (shared.runs, own.runs) == (2, 2)


def test_a_check_is_asked_again_each_time(reg: ToolRegistry) -> None:
    """003-8"""
    check = Checks(False)
    reg.register("echo", "demo", SCHEMA, echo, check)
    assert reg.get_definitions() == []
    check.verdict = True
    assert names(reg.get_definitions()) == ["echo"]


@pytest.mark.parametrize("error", [OSError("no socket"), SystemExit(3)])
def test_a_check_that_raises_means_unavailable(reg: ToolRegistry, error: BaseException) -> None:
    """003-9"""
    reg.register("echo", "demo", SCHEMA, echo, Checks(error))
    assert reg.get_definitions() == []
    assert reg.availability() == {"echo": f"its check failed: {type(error).__name__}: {error}"}


def test_a_check_that_raises_is_logged_once(reg: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    reg.register("without_socket", "demo", SCHEMA, echo, Checks(OSError("no socket")))
    assert reg.get_definitions() == reg.get_definitions() == []
    logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert logged == ["tool 'without_socket' is unavailable: its check_fn raised OSError: no socket"]


def test_a_slow_check_is_named_once(reg: ToolRegistry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session waits for the check, and no other output would name the slow plugin."""
    ticks = itertools.count(step=2.0)
    monkeypatch.setattr("toolcrib.contract.registry.time.monotonic", lambda: next(ticks))
    reg.register("echo", "demo", SCHEMA, echo, Checks())
    for _ in range(2):
        assert names(reg.get_definitions()) == ["echo"]
        assert caplog.text.count(f"tool 'echo': its check_fn ({__name__}) took 2.0 s, and every session waits for it") == 1
    assert [problem.subject for problem in reg.problems] == ["tool echo"]


def test_a_quick_check_is_no_problem(
    reg: ToolRegistry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(1000.0, step=0.1)
    monkeypatch.setattr("toolcrib.contract.registry.time.monotonic", lambda: next(ticks))
    reg.register("echo", "demo", SCHEMA, echo, Checks())
    assert names(reg.get_definitions()) == ["echo"]
    assert (caplog.text, reg.problems) == ("", [])


def test_reasons_are_kept_for_people(reg: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """003-7"""
    monkeypatch.delenv("ECHO_KEY", raising=False)
    reg.register("fine", "demo", SCHEMA, echo, Checks())
    reg.register("says", "demo", SCHEMA, echo, Checks(Unavailable("install ripgrep")))
    reg.register("env", "demo", SCHEMA, echo, Checks(False), ["ECHO_KEY"])
    reg.register("mute", "demo", SCHEMA, echo, Checks(None))
    assert reg.availability() == {
        "fine": None,
        "says": "install ripgrep",
        "env": "set ECHO_KEY",
        "mute": "its check reports that it can't work here",
    }
    assert repr(Unavailable("install ripgrep")) == "Unavailable('install ripgrep')"


def test_is_toolset_available(reg: ToolRegistry) -> None:
    """003-10"""
    check = Checks(False)
    reg.register("a", "demo", SCHEMA, echo, check)
    reg.register("b", "demo", SCHEMA, echo, check)
    assert not reg.is_toolset_available("demo")
    assert not reg.is_toolset_available("unknown")
    check.verdict = True
    assert reg.is_toolset_available("demo")


# -- definitions -------------------------------------------------------------------------------------------------------


def test_order_is_that_of_the_names_or_of_registration(reg: ToolRegistry) -> None:
    """003-7"""
    for name in ("zeta", "alpha", "mid"):
        reg.register(name, "demo", SCHEMA, echo)
    assert names(reg.get_definitions()) == names(reg.get_definitions({"mid", "alpha", "zeta"})) == ["zeta", "alpha", "mid"]
    assert names(reg.get_definitions(["mid", "alpha", "zeta"])) == ["mid", "alpha", "zeta"]


@given(st.permutations(["a", "b", "c", "d", "e"]), st.sets(st.sampled_from(["a", "b", "c", "d", "e", "x"])))
def test_order_for_any_choice(order: list[str], wanted: set[str]) -> None:
    """003-7"""
    reg = ToolRegistry()
    for name in order:
        reg.register(name, "demo", SCHEMA, echo)
    assert names(reg.get_definitions(wanted)) == [name for name in order if name in wanted]


def test_definitions_are_cached_until_something_changes(reg: ToolRegistry) -> None:
    reg.register("echo", "demo", SCHEMA, echo)
    first, again = reg.get_definitions(), reg.get_definitions()
    assert first is not again, "the list is the caller's own"
    assert first[0] is again[0]
    reg.register("echo", "demo", {**SCHEMA, "description": "Newer."}, echo)
    assert reg.get_definitions()[0]["function"]["description"] == "Newer."


def test_definitions_cannot_be_changed(reg: ToolRegistry) -> None:
    reg.register("echo", "demo", SCHEMA, echo)
    definition: Any = reg.get_definitions()[0]
    with pytest.raises(TypeError, match="read-only"):
        definition["function"]["parameters"]["properties"]["x"] = {}
    source = {"description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    reg.register("late", "demo", source, echo)
    source["parameters"]["properties"]["b"] = {}  # type: ignore[index]  # a dict of mixed values
    assert list(reg.get_definitions(["late"])[0]["function"]["parameters"]["properties"]) == ["a"]


def test_a_schema_may_depend_on_which_others_passed(reg: ToolRegistry) -> None:
    """003-15"""
    search = Checks()

    def mention(schema: dict[str, Any], available: frozenset[str]) -> dict[str, Any]:
        schema["parameters"]["properties"]["text"]["enum"] = sorted(available - {"run"})
        schema["name"] = "ignored"
        return schema

    reg.register("run", "demo", SCHEMA, echo, dynamic_schema=mention)
    reg.register("read", "demo", SCHEMA, echo)
    reg.register("search", "demo", SCHEMA, echo, search)

    def shown(wanted: list[str] | None = None) -> Any:
        function = reg.get_definitions(wanted)[0]["function"]
        return function["name"], function["parameters"]["properties"]["text"]["enum"]

    assert shown() == ("run", ["read", "search"])
    search.verdict = False
    assert shown() == ("run", ["read"])
    assert shown(["run"]) == ("run", [])
    entry = reg.get("run")
    assert entry is not None
    assert "enum" not in entry.schema["parameters"]["properties"]["text"], "the registered one is untouched"


@pytest.mark.parametrize(
    "broken",
    [
        lambda s, a: 1 / 0,
        lambda s, a: sys.exit(3),
        lambda s, a: {},
        lambda s, a: {"parameters": {"type": 3}},
        lambda s, a: None,
    ],
)
def test_a_broken_dynamic_schema_hides_only_its_tool(reg: ToolRegistry, caplog: pytest.LogCaptureFixture, broken: Any) -> None:
    """003-15"""
    reg.register("bad", "demo", SCHEMA, echo, dynamic_schema=broken)
    reg.register("echo", "demo", SCHEMA, echo)
    assert names(reg.get_definitions()) == ["echo"]
    assert "'bad': it is missing: its dynamic_schema" in caplog.text
    assert [(problem.subject, bool(problem.fix)) for problem in reg.problems] == [("tool bad", True)]


def test_closest(reg: ToolRegistry) -> None:
    for name in ("terminal", "read_file", "write_file"):
        reg.register(name, "demo", SCHEMA, echo)
    assert reg.closest("terminl") == "terminal"
    assert reg.closest("readfile") == "read_file"
    assert reg.closest("zzzz") is None


@pytest.mark.parametrize("name", ["echo", 'a"b', "a\\b", "a\nb", "ü"])
def test_without_a_dispatcher_dispatch_answers_json(bare: ToolRegistry, name: str) -> None:
    """003-21"""
    answer = json.loads(bare.dispatch(name, {}))
    assert answer == {"error": f"Error executing {name}: no dispatcher is attached; import model_tools first"}


def test_dispatch_goes_to_the_attached_one() -> None:
    """003-17"""
    seen: list[Any] = []

    def dispatch(name: str, args: Any, **kwargs: Any) -> str:
        seen.append((name, args, kwargs))
        return "{}"

    reg = ToolRegistry()
    reg.attach(dispatch, lambda parameters: None)
    assert reg.dispatch("echo", {"text": "x"}, task_id="t") == "{}"
    assert seen == [("echo", {"text": "x"}, {"task_id": "t"})]


# -- options of hermes modules -------------------------------------------------------------------------------------------------


def test_a_limit_of_hermes_is_ours(reg: ToolRegistry) -> None:
    assert reg.register("a", "x", {"description": "d"}, print, max_result_size_chars=500).max_result_chars == 500
    assert reg.register("b", "x", {"description": "d"}, print, max_result_size_chars=float("inf")).max_result_chars is None
    assert reg.register("c", "x", {"description": "d"}, print, max_result_chars=7).max_result_chars == 7


def test_overrides_are_asked_each_time_the_schema_is_shown(reg: ToolRegistry) -> None:
    said = iter(["first", "second"])
    reg.register("a", "x", {"description": "d"}, print, dynamic_schema_overrides=lambda: {"description": next(said)})
    assert reg.get_definitions({"a"})[0]["function"]["description"] == "first"
    reg.register("b", "x", {"description": "d"}, print, dynamic_schema_overrides=lambda: None)
    assert {one["function"]["description"] for one in reg.get_definitions({"a", "b"})} == {"second", "d"}


def test_a_tool_that_replaces_another_on_purpose_is_not_warned_of(reg: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    reg.register("a", "x", {"description": "d"}, print)
    reg.register("a", "y", {"description": "d"}, print, override=True)
    assert (reg.problems, caplog.text) == ([], "")
    reg.register("a", "z", {"description": "d"}, print, override=False)
    assert "the later one is used" in caplog.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_result_size_chars": 0}, "max_result_size_chars must be a whole number above 0"),
        ({"max_result_size_chars": True}, "got True"),
        ({"max_result_size_chars": "9"}, "got '9'"),
        ({"dynamic_schema_overrides": {"description": "x"}}, "dynamic_schema_overrides must be a plain function"),
    ],
)
def test_options_of_hermes_that_cannot_be_are_refused(reg: ToolRegistry, options: Any, why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        reg.register("a", "x", {"description": "d"}, print, **options)


def test_an_unknown_option_is_named(reg: ToolRegistry) -> None:
    with pytest.raises(TypeError, match="'paralel_safe'"):
        reg.register("a", "x", {"description": "d"}, print, paralel_safe=True)  # type: ignore[call-arg]  # that is the test
