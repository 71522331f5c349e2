"""A person's confirmation of settings in config.yaml that loosen or redirect something."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import all_keys, load_config, set_value, state_dir
from agent.policy.confirmation import WATCHED, UnconfirmedConfig, agreed_by_setting, confirm, require_confirmed, unconfirmed
from toolcrib import ConfigError

STRICT = "tools: {disabled: [terminal]}\napproval:\n  mode: confirm-edits\n"


@pytest.fixture
def file() -> Path:
    path = load_config().path
    path.parent.mkdir(parents=True)
    return path


def _started_before() -> None:
    state_dir().mkdir(parents=True, exist_ok=True)
    (state_dir() / "toolcrib.db").touch()


def _lines() -> list[str]:
    return [line for change in unconfirmed(load_config()) for line in change.lines()]


def test_the_first_start_takes_the_file_as_it_is(file: Path) -> None:
    file.write_text(STRICT)
    require_confirmed(load_config())
    _started_before()
    require_confirmed(load_config())
    file.write_text(STRICT.replace("confirm-edits", "default"))
    with pytest.raises(UnconfirmedConfig) as caught:
        require_confirmed(load_config())
    assert str(caught.value) == (
        f"{file} has unconfirmed changes that loosen or redirect something:\n"
        '  - approval.mode: "confirm-edits"\n  + approval.mode: (the default)\n'
        "nothing runs until you confirm them at a terminal with `toolcrib config confirm`, or revert them"
    )
    file.write_text(STRICT)
    require_confirmed(load_config())


def test_the_configuration_may_lie_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path))
    (tmp_path / "plugins").mkdir()
    set_value(None, "plugins.enabled", ["mine"])
    require_confirmed(load_config())
    (tmp_path / "confirmed.json").unlink()
    (tmp_path / "toolcrib.db").touch()
    assert _lines() == ['+ plugins.enabled: ["mine"]']


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("approval: {tools: [{tool: terminal, decision: allow, why: x}]}", "+ approval.tools: "),
        ("approval: {smart: {enabled: true}}", "+ approval.smart.enabled: true"),
        ("plugins: {enabled: [mine]}", '+ plugins.enabled: ["mine"]'),
        ("model: {base_url: 'http://127.0.0.1:1/v1'}", '+ model.base_url: "http://127.0.0.1:1/v1"'),
        ("model: {api_key_env: OTHER_KEY}", '+ model.api_key_env: "OTHER_KEY"'),
        ("terminal: {pass_env: [SECRET]}", '+ terminal.pass_env: ["SECRET"]'),
        ("environments: {local: {network: true}}", "+ environments.local.network: true"),
        ("store: {path: /tmp/other.db}", '+ store.path: "/tmp/other.db"'),
        ("gateway: {host: 0.0.0.0}", '+ gateway.host: "0.0.0.0"'),
        ("platforms: {telegram: {enabled_toolsets: [all]}}", '+ platforms.telegram.enabled_toolsets: ["all"]'),
        ("profiles: {b: {approval: {develop_toolcrib: true}}}", "+ profiles.b.approval.develop_toolcrib: true"),
        ("profiles: {b: {tools: {disabled: [patch]}}}", '+ profiles.b.tools.disabled: ["patch"]'),
    ],
)
def test_what_loosens_or_redirects_must_be_agreed_to(file: Path, text: str, line: str) -> None:
    _started_before()
    file.write_text(text + "\n")
    (told,) = _lines()
    assert told.startswith(line)
    confirm(load_config())
    assert _lines() == []
    file.write_text(text + "\n# a comment\n")
    assert _lines() == []
    file.unlink()
    assert len(_lines()) == 2


def test_each_rule_has_a_line(file: Path) -> None:
    _started_before()
    rule = "{{tool: {}, decision: allow, why: x}}"
    file.write_text(f"approval: {{tools: [{rule.format('patch')}, {rule.format('todo')}]}}\n")
    lines = [f'+ approval.tools: {{"tool": "{name}", "decision": "allow", "why": "x"}}' for name in ("patch", "todo")]
    assert _lines() == lines
    confirm(load_config())
    file.write_text(f"approval: {{tools: [{rule.format('todo')}]}}\n")
    assert _lines() == ["-" + lines[0][1:]]


@pytest.mark.parametrize(
    ("loose", "tight"),
    [
        ("", "messages_per_hour: 20"),
        ("messages_per_hour: 20", "messages_per_hour: 5"),
        ("", "runs_at_once: 1"),
        ("", "tokens_per_day: 100"),
        ("cost_per_day: 2.5", "cost_per_day: 1"),
        ("allowed_users: [bob, eve]", "allowed_users: [bob]"),
        ("allowed_users: [bob]", ""),
        ("allowed_chats: [room, hall]", "allowed_chats: [hall]"),
    ],
)
def test_what_tightens_a_platform_needs_nobody_and_its_opposite_does(file: Path, loose: str, tight: str) -> None:
    _started_before()

    def written(setting: str) -> list[str]:
        file.write_text(f"platforms: {{fake: {{folders: {{a: /b}}, {setting}}}}}\n")
        return _lines()

    written(loose)
    confirm(load_config())
    assert written(tight) == []
    assert written(loose) != []


@pytest.mark.parametrize(
    ("loose", "tight"),
    [
        ("sandbox: {mode: none}", "sandbox: {mode: own}"),
        ("sandbox: {mode: own}", ""),
        ("sandbox: {caches: shared}", "sandbox: {caches: private}"),
        ("", "sandbox: {network: none}"),
        ("sandbox: {network: 'on'}", "sandbox: {network: hosts}"),
        ("", "sandbox: {outside: never}"),
        ("snapshots: {enabled: false}", ""),
        ("snapshots: {rebuildable: allow}", "snapshots: {rebuildable: ask}"),
    ],
)
def test_what_tightens_the_sandbox_needs_nobody_and_its_opposite_does(file: Path, loose: str, tight: str) -> None:
    _started_before()
    file.write_text(f"{loose}\n")
    confirm(load_config())
    file.write_text(f"{tight}\n")
    assert _lines() == []
    file.write_text(f"{loose}\n")
    assert _lines() != []


def test_what_tightens_needs_nobody_and_does_not_come_back_unseen(file: Path) -> None:
    _started_before()
    file.write_text("tools: {timeout: 9}\ndisplay: {thinking: true}\n")
    assert _lines() == []
    file.write_text(STRICT)
    assert _lines() == []
    file.write_text("tools: {disabled: [terminal, patch]}\napproval:\n  mode: plan\n  answer_timeout: 7\n")
    assert _lines() == []
    file.write_text(STRICT)
    assert _lines() == [
        '- approval.mode: "plan"',
        '+ approval.mode: "confirm-edits"',
        '- tools.disabled: "patch"',
    ]


def test_what_a_person_sets_is_agreed_to_and_nothing_else(file: Path) -> None:
    _started_before()
    file.write_text("model: {base_url: 'http://127.0.0.1:1/v1'}\n")
    set_value(None, ("plugins", "enabled"), ["mine"])
    agreed_by_setting(None, ("plugins", "enabled"))
    assert _lines() == ['+ model.base_url: "http://127.0.0.1:1/v1"']
    confirm(load_config())
    file.unlink()
    assert _lines() == [
        '- plugins.enabled: ["mine"]',
        "+ plugins.enabled: (the default)",
        '- model.base_url: "http://127.0.0.1:1/v1"',
        "+ model.base_url: (the default)",
    ]


def test_a_profile_in_force_is_agreed_to_with_the_file(file: Path) -> None:
    _started_before()
    file.write_text("profiles: {b: {plugins: {enabled: [mine]}}}\n")
    assert unconfirmed(load_config(profile="b")) == unconfirmed(load_config())
    confirm(load_config(profile="b"))
    assert _lines() == []


def test_what_was_agreed_to_must_be_readable(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(STRICT)
    confirm(load_config())
    (state_dir() / "confirmed.json").write_text("{")
    assert len(_lines()) == 0  # every setting tightens
    file.write_text("plugins: {enabled: [mine]}\n")
    confirm(load_config())
    (state_dir() / "confirmed.json").write_text('{"files": {"x": 1}}')
    assert _lines() == ['+ plugins.enabled: ["mine"]']
    assert "the configuration must be confirmed again" in caplog.text
    (state_dir() / "confirmed.json").unlink()
    (state_dir() / "confirmed.json").mkdir()
    with pytest.raises(ConfigError, match="is not a regular file; remove it"):
        unconfirmed(load_config())


def test_a_program_that_embeds_vouches_for_what_it_hands_over(file: Path, tmp_path: Path) -> None:
    _started_before()
    file.write_text(STRICT)
    file.write_text("terminal: {pass_env: [PAGER]}\n")
    with pytest.raises(UnconfirmedConfig):
        assemble(project_dir=tmp_path)
    with assemble(config=load_config(), project_dir=tmp_path) as crib:
        (tmp_path / "other").mkdir()
        crib.workspace(tmp_path / "other")
        file.write_text("terminal: {pass_env: [PAGER, EDITOR]}\n")
        (tmp_path / "third").mkdir()
        with pytest.raises(UnconfirmedConfig):
            crib.workspace(tmp_path / "third")


@pytest.fixture
def others_folder() -> Iterator[Path]:
    """A folder that belongs to root and that all users may read."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another account")
    folder = Path("/srv/toolcrib-test-confirming")
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_file_that_only_another_account_can_write_is_taken_as_it_is(others_folder: Path, root: Path, tmp_path: Path) -> None:
    config, state = others_folder / "config.yaml", others_folder / "state"
    config.write_text("approval: {tools: [{tool: patch, decision: allow, why: x}]}\n")
    state.mkdir()
    (state / "toolcrib.db").touch()
    os.chown(state, 12345, 12345)
    asks = (
        "import sys, os; sys.path[:0] = sys.argv[1].split(':')\n"
        "from agent.policy.confirmation import unconfirmed; from agent.config import load_config\n"
        "unconfirmed(load_config(), keep=False); os.setgid(12345); os.setuid(12345)\n"  # modules may be readable for root alone
        "print(len(unconfirmed(load_config())))"
    )

    def run_probe() -> str:
        env: dict[str, Any] = {
            "TOOLCRIB_CONFIG": str(config),
            "TOOLCRIB_STATE": str(state),
            "HOME": str(state),
            "PATH": "/usr/bin",
        }
        done = subprocess.run(
            [sys.executable, "-c", asks, ":".join([str(root), *filter(None, sys.path)])],
            env=env,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() or done.stderr

    assert run_probe() == "0"
    os.chown(config, 12345, 12345)
    assert run_probe() == "1"
    os.chown(config, 0, 0)
    config.chmod(0o666)
    assert run_probe() == "1"


def test_of_each_key_it_is_decided_whether_a_person_must_agree_to_it() -> None:
    """A new key belongs into WATCHED if it loosens or redirects anything, else here."""
    free = (
        "approval.gate_timeout", "approval.answer_timeout", "approval.park_timeout", "approval.reminders",
        "model.protocol", "model.name", "model.stream", "model.max_output_tokens", "model.thinking", "model.session_mode",
        "model.first_byte_timeout", "model.between_bytes_timeout", "model.reply_timeout", "model.prices", "model.context_window",
        "compression.enabled", "compression.threshold", "compression.model", "compression.summary_timeout",
        "run", "delegates", "retry", "tools.timeout", "tools.max_result_chars", "instructions", "terminal.cwd",
        "gateway.port", "gateway.sessions", "gateway.drain_seconds", "gateway.logs",
        "terminal.timeout", "terminal.log_mb", "store.synchronous", "sessions", "memory", "undo", "display", "max_turns",
        "cron.zone", "cron.missed", "cron.keep_days",
        "profiles",  # depends on the keys in them
        "command_allowlist",  # has its own confirmation
    )  # fmt: skip

    def is_below(key: str, names: tuple[str, ...]) -> bool:
        return any(key == name or key.startswith((f"{name}.", f"{name}[")) for name in names)

    undecided = [key for key in all_keys() if not is_below(key, WATCHED) and not is_below(key, free)]
    assert undecided == []
