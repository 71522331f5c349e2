"""Keys, profiles, origins: which keys are allowed where, and the source of each value."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from agent.config import (
    BrokenConfig,
    Config,
    NotSet,
    PlatformConfig,
    UserConfig,
    all_keys,
    find_key,
    load_config,
    parse_config,
    parse_value,
    set_value,
    unset_value,
    value_at,
)
from toolcrib import ConfigError

KEY = "sk-" + "abcdefghij" * 3


def parsed(text: str) -> Config:
    return parse_config(textwrap.dedent(text).encode(), Path("config.yaml"))


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(BrokenConfig) as caught:
        parsed(text)
    return [(fault.key, fault.text) for fault in caught.value.faults]


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["terminal: {cwd: ~}", "store: {path: ~}", "profiles: {a: {terminal: {cwd: ~}}}"])
def test_a_tilde_alone_is_noticed_because_yaml_reads_it_as_null(text: str) -> None:
    config = parsed(text)
    (notice,) = config.notices
    assert notice.startswith("config.yaml:1: ")
    assert "~ alone means null" in notice
    assert '"~" in quotes' in notice
    assert (config.terminal.cwd, config.store.path) == (None, None)


@pytest.mark.parametrize("text", ["terminal: {cwd: null}", 'terminal: {cwd: "~"}', "terminal: {cwd: ~/x}", "terminal: ~"])
def test_other_forms_of_null_and_home_are_meant(text: str) -> None:
    assert parsed(text).notices == ()


def test_a_tilde_where_null_is_wrong_is_a_fault_with_the_same_advice() -> None:
    [(key, text)] = faults("sandbox: {write: [~, /x]}")
    assert key == "sandbox.write[0]"
    assert 'got nothing; if you mean your home folder, write "~" in quotes' in text


def test_a_typed_tilde_is_the_home_folder() -> None:
    assert parse_value("~", find_key("terminal.cwd")[1]) == "~"
    assert parse_value("null", find_key("terminal.cwd")[1]) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory: {enable: true}", "did you mean memory.enabled?"),
        ("model: {nmae: x}", "did you mean model.name?"),
        ("terminal: {timeot: 3}", "did you mean terminal.timeout?"),
        ("display: {enabled: true}", "expected one of markdown, "),
        ("terminal: {name: x}", "expected one of backend, "),
        ("undo: {path: x}", "expected one of enabled, days, max_mb, max_file_mb, required; or did you mean store.path?"),
        ("timeout: 3", "did you mean tools.timeout?"),
        ("profiles: {a: {undo: {path: x}}}", "or did you mean profiles.a.store.path?"),
    ],
)
def test_suggestions_come_from_the_same_section_first(text: str, words: str) -> None:
    [(_key, told)] = faults(text)
    assert words in told


# -- keys ------------------------------------------------------------------------------------------------------------


def test_the_model_its_runs_and_the_store_have_their_settings() -> None:
    config = parsed(
        """\
        model: {provider: chat, base_url: "http://127.0.0.1:8080/v1", api_key_env: MY_KEY, stream: no, max_output_tokens: 8192}
        run: {on_max_turns: error, max_tokens: 5000}
        retry: {attempts: 1, patience: 0}
        store: {path: ~/t.db, synchronous: FULL, enabled: false}
        display: {markdown: false, thinking: true, color: never}
        users: {"12345": {disabled_tools: [terminal]}}
        """
    )
    assert (config.model.provider, config.model.stream, config.model.max_output_tokens) == ("chat", False, 8192)
    assert (config.run.on_max_turns, config.run.max_tokens, config.retry.patience) == ("error", 5000, 0.0)
    assert config.store_path == Path.home() / "t.db"
    assert (config.store.synchronous, config.display.color) == ("FULL", "never")
    assert config.users == {"12345": UserConfig(disabled_tools=("terminal",))}


def test_the_store_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path) -> None:
    assert load_config(file).origin("store.path") == "default"
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "s"))
    config = load_config(file)
    assert config.store_path == tmp_path / "s" / "toolcrib.db"
    assert config.origin("store.path") == "environment TOOLCRIB_STATE"


def test_a_server_keeps_sessions_where_one_is_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    assert load_config(file).store_url is None
    assert load_config(file).store_secrets == {}
    monkeypatch.setenv("TOOLCRIB_STORE_URL", "postgresql://me:secret@there/crib")
    config = load_config(file)
    assert config.store_url == "postgresql://me:secret@there/crib"
    assert config.origin("store.url") == "environment TOOLCRIB_STORE_URL"
    assert "secret" not in repr(config)
    assert list(config.store_secrets.values()) == ["secret"]
    file.write_text("store: {url: 'postgresql://me@here/crib'}")
    config = load_config(file)
    assert config.store_url == "postgresql://me@here/crib"
    assert config.origin("store.url").startswith(str(file))


@pytest.mark.parametrize("url", ["postgresql://me:secret@there/crib", "postgresql://there/crib?password=secret", "mysql://there"])
def test_the_configuration_takes_no_password_of_a_server(file: Path, url: str) -> None:
    file.write_text(f"store: {{url: '{url}'}}")
    with pytest.raises(ConfigError, match=r"store\.url: expected postgresql:.* without a password") as refused:
        load_config(file)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: {provider: 3}", "the name of a provider"),
        ("store: {synchronous: full}", "did you mean FULL?"),
        ("display: {color: on}", "expected one of auto, always, never, got true or false"),
        ("model: {base_url: 'localhost:8080'}", "begins with http://"),
        ("model: {base_url: 'https://me:secret@example.org'}", "without user, password"),
        ("model: {base_url: 'https://example.org/v1?key=1'}", "or query"),
        ("model: {base_url: 'http://[::1'}", "an address"),
        ("model: {api_key_env: 0f9a8b7c6d5e4f3a2b1c}", "the name of an environment variable"),
        ("model: {max_output_tokens: 0}", "1 or more, or null"),
        ("retry: {patience: -1}", "0 or more"),
        ("run: {max_turns: 3}", "did you mean max_turns?"),
        ("store: {path: here.db}", "an absolute path"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_right(text: str, words: str) -> None:
    [(_key, told)] = faults(text)
    assert words in told


@pytest.mark.parametrize(
    "text",
    [
        f"model: {{name: {KEY}}}",
        f"model: {{api_key_env: {KEY}}}",
        f"terminal: {{pass_env: [{KEY}]}}",
        f"command_allowlist: [{{argv: [curl, 'Bearer {KEY}'], cwd: /, version: 1}}]",
        f"profiles: {{a: {{model: {{name: {KEY}}}}}}}",
        f"users: {{{KEY}: {{}}}}",
        f"{KEY}: 1",
        f"model: {{api_key: {KEY}}}",
    ],
)
def test_a_key_in_the_configuration_is_a_fault_that_does_not_repeat_it(text: str) -> None:
    with pytest.raises(BrokenConfig) as caught:
        parsed(text)
    assert KEY not in str(caught.value)
    assert "api_key_env" in str(caught.value)


def test_every_key_is_found_and_has_a_value() -> None:
    for key in all_keys():
        if "*" not in key and "[]" not in key:
            value_at(Config(), find_key(key)[0])
    assert find_key("users.me@a.org.disabled_tools")[0] == ("users", "me@a.org", "disabled_tools")
    assert find_key("users.'a.disabled_tools'.disabled_tools")[0] == ("users", "a.disabled_tools", "disabled_tools")
    assert find_key("plugins.trusted_projects./a.b/c")[0] == ("plugins", "trusted_projects", "/a.b/c")
    assert find_key("profiles.p.tools.timeout")[0] == ("profiles", "p", "tools", "timeout")
    assert value_at(Config(), find_key("platforms.cron.disabled_tools")[0]) == ()
    with pytest.raises(NotSet):
        value_at(Config(), find_key("profiles.p.tools.timeout")[0])


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("tols.timeout", "did you mean tools?"),
        ("tools.timeot", "did you mean tools.timeout?"),
        ("platforms.telegram.disabled_tool", "did you mean platforms.telegram.disabled_tools?"),
        ("profiles.p.tools.timeot", "did you mean profiles.p.tools.timeout?"),
        ("tools.timeout.x", "has no keys below it"),
        ("", "expected one of"),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_key(key)
    assert near in str(caught.value)


# -- profiles --------------------------------------------------------------------------------------------------------

BASE = """\
tools: {timeout: 12, disabled: [a]}
platforms:
  cron: {disabled_tools: [x], disabled_toolsets: [y]}
model: {name: big, base_url: "https://example.org/v1", api_key_env: BIG_KEY}
profiles:
  local:
    model: {name: small, base_url: "http://127.0.0.1:1/v1"}
    tools:
      disabled: [b]
    platforms: {cron: {disabled_tools: []}, acp: {disabled_tools: [z]}}
  resting:
  same_server:
    model: {name: other}
"""


def test_a_profile_is_laid_over_the_rest_key_by_key(file: Path) -> None:
    file.write_text(BASE)
    config = load_config(file, profile="local")
    assert (config.profile, config.tools.timeout, config.tools.disabled) == ("local", 12, ("b",))
    assert config.platforms == {
        "cron": PlatformConfig(disabled_toolsets=("y",)),
        "acp": PlatformConfig(disabled_tools=("z",)),
    }
    assert config.origin("tools.timeout") == f"{file}:1"
    assert config.origin("tools.disabled") == f"profile local {file}:9"
    assert config.origin("platforms.cron.disabled_toolsets") == f"{file}:3"
    assert config.origin("platforms.cron.disabled_tools") == f"profile local {file}:10"
    assert config.origin("max_turns") == "default"
    assert config.origin("tools") == f"{file}:1; profile local {file}:9"
    assert load_config(file, profile="resting") == load_config(file)
    with pytest.raises(ConfigError, match=r"did you mean tools\.timeout\?"):
        config.origin("tools.timeot")


def test_a_key_is_not_sent_to_another_server_than_it_was_given_for(file: Path) -> None:
    file.write_text(BASE)
    assert load_config(file).model.api_key_env == "BIG_KEY"
    assert load_config(file, profile="local").model.api_key_env == ""
    assert load_config(file, profile="same_server").model.api_key_env == "BIG_KEY"


def test_the_environment_chooses_a_profile_and_an_argument_goes_before_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(BASE)
    monkeypatch.setenv("TOOLCRIB_PROFILE", "local")
    assert load_config(file).model.name == "small"
    assert load_config(file, profile="").model.name == "big"
    monkeypatch.setenv("TOOLCRIB_PROFILE", "locl")
    with pytest.raises(BrokenConfig, match=r"unknown profile 'locl' \(from \$TOOLCRIB_PROFILE\); did you mean 'local'\?"):
        load_config(file)
    assert set_value(file, "max_turns", 3).max_turns == 3


def test_what_a_profile_may_not_have_and_its_faults_are_told_unchosen() -> None:
    found = faults(
        """\
        profiles:
          "no good": {}
        """
    )
    assert "letters, digits" in found[0][1]
    found = faults(
        """\
        profiles:
          a:
            profiles: {b: {}}
            command_allowlist: []
            plugins: {trusted_projects: {}}
            tools: {timeout: x}
            timeot: 1
            max_turn: 1
            run: {cwd: /}
        """
    )
    assert [key for key, _text in found] == [
        "profiles.a.profiles",
        "profiles.a.command_allowlist",
        "profiles.a.plugins.trusted_projects",
        "profiles.a.tools.timeout",
        "profiles.a.timeot",
        "profiles.a.max_turn",
        "profiles.a.run.cwd",
    ]
    assert "not allowed in a profile" in found[0][1]
    assert "did you mean profiles.a.max_turns?" in found[5][1]
    assert "did you mean profiles.a.terminal.cwd?" in found[6][1]


# -- removing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("# a\ntools:\n  timeout: 3  # b\n  # c\n  disabled: []\n", "tools.timeout", "# a\ntools:\n  # c\n  disabled: []\n"),
        ("tools:\n  disabled:\n    - a\n    - b\n# c\nmax_turns: 3\n", "tools.disabled", "# c\nmax_turns: 3\n"),
        ("tools: {timeout: 3, disabled: [a]}  # b\n", "tools.timeout", "tools: {disabled: [a]}              # b\n"),
        ("tools:\n  # kept\n  timeout: 3\n", "tools.timeout", "tools:\n  # kept\n"),
        ("max_turns: 3\ntools:\n  timeout: 3\n  disabled: [a,\n    b]\n", "tools", "max_turns: 3\n"),
        ("profiles:\n  a:\n    max_turns: 3\n  b: {}\n", "profiles.a.max_turns", "profiles:\n  a:\n  b: {}\n"),
        ("toolsets:\n  custom:\n    a: {}\n    b:\n      description: |\n        x\n\nmax_turns: 3\n", "toolsets.custom.b",
         "toolsets:\n  custom:\n    a: {}\nmax_turns: 3\n"),
    ],
)  # fmt: skip
def test_a_key_is_taken_out_and_comments_stay(file: Path, before: str, key: str, after: str) -> None:
    file.write_text(before)
    unset_value(file, key)
    assert file.read_text() == after


def test_null_stays_in_so_many_words(file: Path) -> None:
    file.write_text("toolsets:\n  enabled: null\nterminal: {cwd: ~}\ntools:\nplugins: ~\n")
    set_value(file, "tools.timeout", 4)
    set_value(file, "model.max_output_tokens", None)
    set_value(file, "plugins.enabled", ["a"])
    text = file.read_text()
    assert text.startswith("toolsets:\n  enabled: null\nterminal: {cwd: ~}\ntools:\n  timeout: 4\nplugins:\n")
    assert load_config(file).plugins.enabled == ("a",)
    assert "model:\n  max_output_tokens: null\n" in text


def test_what_is_not_there_cannot_be_taken_out(file: Path) -> None:
    file.write_text("tools: {timeout: 3}\nmax_turns: &a 3\nrun: {max_tokens: *a}\n")
    for key in ("tools.disabled", "terminal.cwd", "platforms.x.disabled_tools"):
        with pytest.raises(NotSet):
            unset_value(file, key)
    with pytest.raises(ConfigError):
        unset_value(file, "max_turns")
    assert "max_turns: &a 3" in file.read_text()
