"""Tests of the keys that a project's own file may set; such a file loosens nothing."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config import (
    BrokenConfig,
    Config,
    PlatformConfig,
    all_keys,
    find_key,
    leaves,
    load_config,
    value_at,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".toolcrib").mkdir(parents=True)
    return tmp_path / "project"


def says(project: Path, text: str) -> Path:
    file = project / ".toolcrib" / "config.yaml"
    file.write_text(textwrap.dedent(text))
    return file


def test_a_project_sets_display_lowers_limits_and_disables(file: Path, project: Path) -> None:
    file.write_text("tools: {timeout: 100, disabled: [a]}\n")
    own = says(
        project,
        """\
        display: {markdown: false, color: never}
        tools: {timeout: 50, max_result_chars: 1000, disabled: [b, a, b]}
        terminal: {timeout: 5}
        max_turns: 2
        run: {max_tokens: 100}
        model: {max_output_tokens: 10}
        toolsets: {disabled: [web]}
        platforms: {telegram: {disabled_tools: [c], disabled_toolsets: [d]}, a.b: {disabled_tools: [e]}}
        """,
    )
    config = load_config(file, project_dir=project)
    assert config.notices == ()
    assert (config.display.markdown, config.display.color, config.tools.timeout, config.terminal.timeout) == (
        False,
        "never",
        50,
        5,
    )
    assert (config.tools.max_result_chars, config.max_turns, config.run.max_tokens) == (1000, 2, 100)
    assert (config.model.max_output_tokens, config.tools.disabled, config.toolsets.disabled) == (10, ("a", "b"), ("web",))
    assert config.platforms["telegram"] == PlatformConfig(disabled_tools=("c",), disabled_toolsets=("d",))
    assert config.platforms["a.b"].disabled_tools == ("e",)
    assert config.origin("tools.timeout") == f"project {own}:2"
    assert config.origin("tools.disabled") == f"project {own}:2; {file}:1"
    assert load_config(file).tools.timeout == 100


def test_what_a_project_may_not_say_is_left_unused_and_told(file: Path, project: Path) -> None:
    file.write_text("tools: {timeout: 100, disabled: [a]}\nrun: {max_tokens: 7}\n")
    before = load_config(file)
    own = says(
        project,
        """\
        model: {base_url: "http://evil.example", provider: chat, api_key_env: X, name: m}
        plugins: {enabled: [evil]}
        tools: {timeout: 101, disabled: []}
        run: {max_tokens: null}
        terminal: {cwd: /, pass_env: [HOME]}
        platforms: {cli: {enabled_toolsets: [terminal]}}
        users: {me: {disabled_tools: [x]}}
        profiles: {local: {}}
        command_allowlist: [{argv: [rm], cwd: /, version: 1}]
        approval: {gate_timeout: 1}
        store: {path: /tmp/x}
        tols: 1
        """,
    )
    config = load_config(file, project_dir=project)
    assert config == before
    told = {notice.removeprefix(f"{own}:").split(": ")[1] for notice in config.notices}
    assert told == {
        "model.base_url", "model.provider", "model.api_key_env", "model.name", "plugins", "tools.timeout", "run.max_tokens",
        "terminal.cwd", "terminal.pass_env", "platforms.cli.enabled_toolsets", "users", "profiles", "command_allowlist",
        "approval", "store", "tols",
    }  # fmt: skip
    text = "\n".join(config.notices)
    assert f"{own}:3: tools.timeout: ignored: a project may only lower this limit, which is 100 ({file}:1)" in text
    assert "tols: ignored: unknown key 'tols'; did you mean tools?" in text


PROJECT_VALUES = st.recursive(
    st.sampled_from(["null", "true", "0", "5", "1e9", "x", "''", "auto"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(
            st.tuples(st.sampled_from(sorted({part for key in all_keys() for part in key.split(".")})), inner), max_size=3
        ).map(lambda pairs: "{" + ", ".join(f"'{key}': {value}" for key, value in pairs) + "}"),
    ),
    max_leaves=10,
)


@pytest.mark.full
@settings(max_examples=40)  # each example reads two configurations
@given(st.sampled_from([key.split(".")[0] for key in all_keys()]), PROJECT_VALUES)
def test_no_project_file_loosens_anything(tmp_path_factory: pytest.TempPathFactory, key: str, value: str) -> None:
    folder = tmp_path_factory.mktemp("loosen")
    (folder / ".toolcrib").mkdir()
    says(folder, f"{key}: {value}\n")
    before = load_config(folder / "none.yaml")
    try:
        after = load_config(folder / "none.yaml", project_dir=folder)
    except BrokenConfig:
        return
    earlier = dict(leaves(before))
    changed = {name for name, item in leaves(after) if earlier.get(name) != item}
    for name in changed:
        parts = find_key(name)[0]
        new, old = value_at(after, parts), value_at(before, parts)
        may = (parts[0] == "display" and parts[1] != "keys") or "disabled" in parts[-1] or "enabled_toolsets" in parts[-1]
        assert may or (isinstance(new, (int, float)) and (old is None or new < old)), name
        assert parts[-1] != "enabled_toolsets" or new is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tools: {disabled: terminal}", "expected a list of names"),
        ("tools: [", "invalid YAML"),
        ("tools: 3", "expected keys"),
        ("- a", "expected keys"),
        ("tools: {timeout: 1, timeout: 2}", "given twice"),
        ("x: &a [1]\ntools: {disabled: *a}", "an alias"),
        ("x: &a [*a]", "an alias"),
        ("#" * 64_001, "larger than 64,000"),
        ("[1]: 2", "expected a name as key"),
    ],
)
def test_a_broken_project_file_stops_and_says_how_to_go_on(file: Path, project: Path, text: str, words: str) -> None:
    own = says(project, text)
    with pytest.raises(BrokenConfig) as caught:
        load_config(file, project_dir=project)
    assert words in str(caught.value)
    assert f"fix or remove {own}" in str(caught.value)


def test_a_project_file_is_no_link_pipe_or_folder(file: Path, project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text("max_turns: 1\n")
    own = project / ".toolcrib" / "config.yaml"
    own.symlink_to(elsewhere)
    with pytest.raises(BrokenConfig, match="is a link"):
        load_config(file, project_dir=project)
    own.unlink()
    os.mkfifo(own)
    with pytest.raises(BrokenConfig, match="regular file"):
        load_config(file, project_dir=project)
    own.unlink()
    own.mkdir()
    with pytest.raises(BrokenConfig, match="regular file"):
        load_config(file, project_dir=project)
    own.rmdir()
    assert load_config(file, project_dir=project) == Config()
    (project / ".toolcrib").rmdir()
    (project / ".toolcrib").symlink_to(tmp_path)
    with pytest.raises(BrokenConfig, match="is a link"):
        load_config(file, project_dir=project)


def test_the_person_s_own_file_counts_once_wherever_it_lies(project: Path) -> None:
    own = says(project, "terminal: {cwd: /srv}\n")
    config = load_config(own, project_dir=project)
    assert (config.terminal.cwd, config.notices) == ("/srv", ())


def test_notices_are_few_and_cannot_act_on_a_terminal(file: Path, project: Path) -> None:
    says(project, '"a\\e[31m\\u202e": 1\n' + "".join(f"k{number}: 1\n" for number in range(100)))
    notices = load_config(file, project_dir=project).notices
    assert len(notices) == 21
    assert notices[-1].endswith("and 81 more like these")
    assert all(notice.isprintable() for notice in notices)


def test_a_project_allows_no_host(file: Path, project: Path) -> None:
    file.write_text("sandbox: {hosts: [mine.example]}\n")
    says(project, "sandbox: {network: 'on', hosts: [theirs.example]}\n")
    config = load_config(file, project_dir=project)
    assert (config.sandbox.network, config.sandbox.hosts) == ("hosts", ("mine.example",))
    (notice,) = config.notices
    assert "sandbox: ignored" in notice
