"""The configuration: every fault is reported with its place, a broken file loosens nothing, and changes keep comments."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config import (
    AllowlistEntry,
    BrokenConfig,
    Config,
    CustomToolset,
    PlatformConfig,
    append_allowlist,
    config_path,
    edit_config,
    example_text,
    load_config,
    locked,
    parse_config,
    remove_allowlist,
    set_value,
    state_dir,
)
from agent.config._keys import all_keys
from toolcrib import ConfigError


def broken(file: Path, text: str) -> list[tuple[int, str, str]]:
    """Return (line, key, text) of each fault."""
    file.write_text(textwrap.dedent(text))
    with pytest.raises(BrokenConfig) as caught:
        load_config(file)
    assert all(f"{file}" in str(fault) for fault in caught.value.faults)
    return [(fault.line, fault.key, fault.text) for fault in caught.value.faults]


# -- the path --------------------------------------------------------------------------------------------------------


def test_paths_follow_xdg_then_our_own_variables_then_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_path() == tmp_path / "c/toolcrib/config.yaml"
    assert state_dir() == tmp_path / ".local/state/toolcrib"
    monkeypatch.setenv("TOOLCRIB_CONFIG", "~/mine.yaml")
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "s"))
    assert (config_path(), state_dir()) == (tmp_path / "mine.yaml", tmp_path / "s")
    assert (config_path("/x.yaml"), state_dir("/y")) == (Path("/x.yaml"), Path("/y"))


def test_no_file_means_defaults(file: Path) -> None:
    config = load_config(file)
    assert config == Config()
    assert (config.path, config.folder) == (file, file.parent)
    assert (config.tools.timeout, config.tools.max_result_chars, config.max_turns) == (300, 40_000, 10)
    assert config.approval.gate_timeout == 10
    assert config.toolsets.enabled is None


# -- reading ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_value_is_read(file: Path) -> None:
    file.write_text(
        textwrap.dedent(
            """\
            toolsets:
              enabled: [terminal, file]
              custom: {look: {description: Look, tools: [read_file], includes: [web]}}
            tools: {timeout: 12, disabled: [terminal]}
            platforms:
              telegram: {enabled_toolsets: [web], disabled_tools: [x]}
              cron:
            plugins: {allow_override: {web_search: mine}}
            terminal: {cwd: ~/work, timeout: 1.5, pass_env: [LANG]}
            command_allowlist:
              - {argv: [git, push], cwd: /srv, version: 1}
              - recursive delete
            max_turns: 3
            """
        )
    )
    config = load_config(file)
    assert config.toolsets.enabled == ("terminal", "file")
    assert config.toolsets.custom == {"look": CustomToolset("Look", ("read_file",), ("web",))}
    assert config.platforms == {
        "telegram": PlatformConfig(enabled_toolsets=("web",), disabled_tools=("x",)),
        "cron": PlatformConfig(),
    }
    assert (config.tools.timeout, type(config.tools.timeout)) == (12.0, float)
    assert (config.terminal.cwd, config.terminal.timeout, config.terminal.pass_env) == ("~/work", 1.5, ("LANG",))
    assert config.command_allowlist == (AllowlistEntry(("git", "push"), "/srv", 1), AllowlistEntry.of_text("recursive delete"))
    assert [entry.shown for entry in config.command_allowlist] == ["git push", "recursive delete"]


def test_an_empty_list_of_toolsets_is_not_the_preset(file: Path) -> None:
    file.write_text("toolsets: {enabled: []}")
    assert load_config(file).toolsets.enabled == ()
    [(line, key, text)] = broken(file, "toolsets:\n  enabled:\n")
    assert (line, key) == (2, "toolsets.enabled")
    assert "or null" in text


def test_all_faults_are_told_together_each_with_its_line_and_key(file: Path) -> None:
    faults = broken(
        file,
        """\
        tols: 3
        tools:
          timeout: soon
          timeout: 4
          disabled: no
        timeout: 3
        toolsets: {custom: {a: {tools: [no, 3]}}}
        plugins: [x]
        max_turns: 0
        command_allowlist: [{argv: []}, 4]
        <<: {}
        on: 1
        """,
    )
    assert [(line, key) for line, key, _text in faults] == [
        (1, "tols"),
        (3, "tools.timeout"),
        (4, "tools.timeout"),
        (5, "tools.disabled"),
        (6, "timeout"),
        (7, "toolsets.custom.a.tools[0]"),
        (7, "toolsets.custom.a.tools[1]"),
        (8, "plugins"),
        (9, "max_turns"),
        (10, "command_allowlist[0].argv"),
        (10, "command_allowlist[0]"),
        (10, "command_allowlist[1]"),
        (11, "<<"),
        (12, ""),
    ]
    texts = [text for _line, _key, text in faults]
    assert texts[0] == "unknown key; did you mean tools?"
    assert texts[1] == "expected a number of seconds above 0, got text"
    assert texts[2] == "given twice; first given on line 3"
    assert "expected a list of names, got true or false" in texts[3]
    assert texts[4] == "unknown key; did you mean tools.timeout?"
    assert texts[5] == "expected text, got true or false; put it in quotes"
    assert texts[10] == "cwd and version missing"


def test_quotes_are_named_only_if_the_quoted_value_is_allowed(file: Path) -> None:
    text = "display: {bell: true}\nsandbox: {network: on}\nmodel: {name: 5}\n"
    bell, network, name = (text for _line, _key, text in broken(file, text))
    assert bell == "expected one of auto, always, never, got true or false"
    assert network == "expected one of none, hosts, on, got true or false; put it in quotes"
    assert name == "expected text, got a whole number; put it in quotes"


@pytest.mark.parametrize(
    "value", [".nan", ".inf", "-1", "0", "1e400", "9" * 400, "yes", "'5'", "null", "!!float x", "!!python/name:os.system"]
)
def test_a_time_limit_is_a_finite_number_above_zero(file: Path, value: str) -> None:
    [(line, key, _text)] = broken(file, f"tools:\n  timeout: {value}\n")
    assert (line, key) == (2, "tools.timeout")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"a: [1\nb: 2\n", 2, "invalid YAML"),
        (b"max_turns: 3\nx: \xff\n", 2, "not UTF-8"),
        (b"max_turns: 3\nx: \x07\n", 2, "U+0007"),
        (b"a: *b\n", 1, "undefined alias"),
        (b"max_turns: 3\n---\nmax_turns: 4\n", 2, "invalid YAML"),
        (b"[" * 1_200, 0, "nested too deeply"),
        (b"#" * 1_000_001, 0, "larger than"),
        (b"- a\n", 1, "expected keys"),
        (b"plugins: {trusted_projects: {relative: abc}}", 1, "digest"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_line(file: Path, text: bytes, line: int, words: str) -> None:
    file.write_bytes(text)
    with pytest.raises(BrokenConfig) as caught:
        load_config(file)
    assert caught.value.faults[0].line == line
    assert words in str(caught.value)


def test_aliases_that_contain_themselves_end(file: Path) -> None:
    assert broken(file, "toolsets: &a {enabled: *a, custom: {x: *a}}\n")


def test_folders_pipes_and_dangling_links_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in (".", "pipe", "link"):
        with pytest.raises(ConfigError):
            load_config(tmp_path / name)


def test_a_file_that_may_not_be_read_is_told(file: Path) -> None:
    file.write_text("max_turns: 3\n")
    file.chmod(0)
    drop = "if os.getuid() == 0: os.setegid(65534); os.seteuid(65534)"  # root may read anything
    program = f"import os, yaml\nfrom agent.config import load_config\n{drop}\nload_config({str(file)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "cannot be read: Permission denied" in done.stderr


@given(st.binary(max_size=200))
def test_no_bytes_at_all_cause_anything_but_a_config_error(data: bytes) -> None:
    try:
        parse_config(data, Path("config.yaml"))
    except BrokenConfig as error:
        assert str(error).startswith("config.yaml")  # noqa: PT017 - most inputs raise, some do not


@given(
    st.recursive(
        st.sampled_from(["toolsets", "tools", "timeout", "enabled", "null", "3", ".nan", "true", "''", "x"]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
            st.lists(st.tuples(st.sampled_from([key.split(".")[0] for key in all_keys()]), inner), max_size=4).map(
                lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
            ),
        ),
        max_leaves=12,
    )
)
def test_any_yaml_is_a_config_or_a_config_error(text: str) -> None:
    try:
        parse_config(text.encode(), Path("config.yaml"))
    except BrokenConfig as error:
        assert error.faults  # noqa: PT017 - most inputs raise, some do not


# -- the example -----------------------------------------------------------------------------------------------------


def test_the_example_explains_every_key_at_its_default(root: Path, file: Path) -> None:
    text = (root / "config.example.yaml").read_text("utf-8")
    assert text == example_text(), (
        'write it again: python -c "from agent.config import example_text; print(example_text(), end=str())"'
    )
    assert parse_config(text.encode(), file) == Config()
    live = re.sub(r"(?m)^( *)#(\w)", r"\1\2", text)
    assert live != text
    assert parse_config(live.encode(), file) == Config()
    for key in all_keys():
        assert re.search(rf"(?m)^[# ]*(- )?{re.escape(key.split('.')[-1].removesuffix('[]'))}:", text), key


def test_toolsets_that_the_example_names_are_there(root: Path) -> None:
    from agent.api import assemble

    text = (root / "config.example.yaml").read_text("utf-8")
    named = re.findall(r"(?m)^ *# .*(?:includes|_toolsets): \[([^]]+)\]", text)
    names = {name.strip() for names in named for name in names.split(",")}
    assert len(names) > 2
    with assemble() as crib:
        assert names <= set(crib.catalog.names())


# -- writing ---------------------------------------------------------------------------------------------------------

MINE = """\
# my settings
tools:
    timeout: 30   # long enough
    disabled:
      - terminal   # never

# what I allowed
plugins: {enabled: ["a"]}   # flow
# the end
"""


def test_a_change_keeps_comments_and_form(file: Path) -> None:
    file.write_text(MINE)
    config = set_value(file, "tools.timeout", 45)
    assert config.tools.timeout == 45 == load_config(file).tools.timeout
    text = file.read_text()
    for part in (
        "# my settings",
        "# long enough",
        "- terminal   # never",
        '{enabled: ["a"]}   # flow',
        "# what I allowed",
        "# the end",
    ):
        assert part in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_copy_of_the_example_can_be_changed_key_by_key(file: Path) -> None:
    file.write_text(example_text())
    set_value(file, "tools.timeout", 5)
    set_value(file, ("plugins", "trusted_projects", "/a.b"), "0" * 64)
    set_value(file, ("toolsets", "enabled"), ["no", "1e3", "file"])
    append_allowlist(file, AllowlistEntry(("git",), "/", 1))
    config = load_config(file)
    assert (config.tools.timeout, config.plugins.trusted_projects) == (5, {"/a.b": "0" * 64})
    assert config.toolsets.enabled == ("no", "1e3", "file")
    assert file.read_text().endswith("version: 1\n")
    explained = [line for line in example_text().splitlines() if line.strip().startswith("#")]
    assert [line for line in explained if line not in file.read_text()] == []


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "{max_turns: 4}", "max_turns: 4\n...\n", "---\nmax_turns: 4\n", "\ufeffmax_turns: 4\n"]
)
def test_the_first_key_of_its_section_can_be_set(file: Path, text: str) -> None:
    file.write_text(text)
    config = set_value(file, "terminal.timeout", 9)
    assert (config.terminal.timeout, config.max_turns) == (9, 4 if "max" in text else 10)
    assert ("# only" in text) == ("# only" in file.read_text())


@pytest.mark.parametrize(("key", "value"), [("tols.timeout", 3), ("tools.timeout", "x"), ("max_turns.deep", 1), ("max_turns", 0)])
def test_a_change_that_would_break_the_file_is_refused(file: Path, key: str, value: object) -> None:
    file.write_text("max_turns: 3\n")
    with pytest.raises(ConfigError):
        set_value(file, key, value)
    assert file.read_text() == "max_turns: 3\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["config.yaml", "config.yaml.lock"]


def test_a_broken_file_is_not_changed(file: Path) -> None:
    file.write_text("tols: 3\n")
    with pytest.raises(BrokenConfig):
        set_value(file, "tools.timeout", 3)
    assert file.read_text() == "tols: 3\n"


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles.yaml", tmp_path / "config.yaml"
    target.write_text("max_turns: 3\n")
    link.symlink_to(target)
    set_value(link, "max_turns", 4)
    assert link.is_symlink()
    assert load_config(target).max_turns == 4


@settings(max_examples=25)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=5).filter(
        lambda words: bool(words[0])
    )
)
def test_every_word_of_an_allowed_command_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    file = tmp_path_factory.mktemp("allow") / "config.yaml"
    file.write_text("# mine\nmax_turns: 3\n")
    entry = AllowlistEntry(tuple(words), "/srv", 1)
    other = AllowlistEntry(("git",), "/", 1)
    append_allowlist(file, other)
    append_allowlist(file, entry)
    append_allowlist(file, entry)
    assert load_config(file).command_allowlist == tuple(dict.fromkeys([other, entry]))
    assert remove_allowlist(file, other).command_allowlist == (() if entry == other else (entry,))


def test_writers_wait_for_each_other(file: Path) -> None:
    def append(number: int) -> None:
        for index in range(2):
            append_allowlist(file, AllowlistEntry((f"cmd{number}-{index}",), "/", 1))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load_config(file).command_allowlist) == 12


def test_a_lock_that_is_never_released_is_told(file: Path) -> None:
    with locked(file), pytest.raises(ConfigError, match=r"another process has locked"), locked(file, seconds=0.05):
        pass


def test_a_full_disk_leaves_the_old_file(file: Path) -> None:
    file.write_text("max_turns: 3\n")
    program = f"""\
import resource, signal
from agent.config import set_value
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
set_value({str(file)!r}, "max_turns", 4)
"""
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "the file is unchanged" in done.stderr
    assert file.read_text() == "max_turns: 3\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["config.yaml", "config.yaml.lock"]


def test_a_change_that_raises_leaves_the_file(file: Path) -> None:
    file.write_text("max_turns: 3\n")

    def fail(document: object) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError):
        edit_config(file, fail)
    assert file.read_text() == "max_turns: 3\n"


def test_yaml_is_imported_only_where_a_file_is_read_or_written() -> None:
    look = "assert not {'yaml', 'ruamel.yaml'} & set(sys.modules)"
    program = f"import sys; from agent.config import load_config; load_config('/nowhere.yaml'); {look}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_empty_home_is_not_the_root_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "TOOLCRIB_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(ConfigError, match=r"\$HOME is empty.*set HOME, or set TOOLCRIB_CONFIG to an absolute path"):
        config_path()
