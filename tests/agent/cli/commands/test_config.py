"""``toolcrib config``: showing, changing and checking the settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.config import Config, leaves

KEY = "sk-" + "abcdefghij" * 3


def test_show_tells_every_setting_and_where_it_comes_from(run: Any, config: Any) -> None:
    file = config("tools: {timeout: 12}\nprofiles: {p: {max_turns: 3}}\n")
    done = run("config")
    assert done.code == 0
    assert "tools.timeout: 12\n" in done.out
    for key, _value in leaves(Config()):
        assert f"{key}: " in done.out or key == "profiles"
    for words in (["show", "--origins", "tools"], ["--origins", "show", "tools"], ["show", "tools", "--origins"]):
        assert f"tools.timeout: 12              {file}:1\n" in run("config", *words).out
    done = run("config", "show", "--profile", "p", "--origins")
    assert f"profile p {file}:2" in done.out
    assert any(line.startswith("profiles.p.max_turns: 3") and f"{file}:2" in line for line in done.out.splitlines())


def test_show_as_json(run: Any, config: Any) -> None:
    file = config("tools: {timeout: 12}\n")
    assert json.loads(run("config", "show", "--json").out)["tools"]["timeout"] == 12
    assert json.loads(run("config", "show", "tools", "--json").out)["disabled"] == []
    both = json.loads(run("config", "show", "--json", "--origins").out)
    assert both["tools.timeout"] == {"value": 12, "origin": f"{file}:1"}
    assert both["max_turns"] == {"value": 10, "origin": "default"}


def test_get_is_plain_for_scripts(run: Any, config: Any) -> None:
    config("model: {name: a b}\ntools: {disabled: [x]}\n")
    for key, out in [("model.name", "a b"), ("tools.disabled", '["x"]'), ("terminal.cwd", "null"), ("display.markdown", "true")]:
        assert run("config", "get", key).out == f"{out}\n"
    assert run("config", "get", "run").out == 'run.on_max_turns: "final_answer"\nrun.max_tokens: null\nrun.max_cost: null\n'
    missing = run("config", "get", "plugins.allow_override.x")
    assert (missing.code, missing.out) == (1, "")
    assert "not set" in missing.err
    wrong = run("config", "get", "model.nam")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean model.name?" in wrong.err


def test_set_keeps_comments_and_checks_first(run: Any, config: Any) -> None:
    file = config("# mine\ntools:\n  timeout: 12  # long\n")
    done = run("config", "set", "tools.timeout", "45")
    assert done.out == f"tools.timeout: 45  {file}:3\n"
    assert file.read_text() == "# mine\ntools:\n  timeout: 45  # long\n"
    for words, told in [
        (["tools.timeout", "soon"], "expected a number of seconds"),
        (["tools.timeot", "3"], "did you mean tools.timeout?"),
        (["tools.disabled", "[a"], "not valid YAML"),
        (["tools.disabled", "terminal"], "write a list as [a, b]"),
        (["retry.attempts", "-1"], "1 or more"),
        (["model.name", KEY], "looks like an API key"),
        (["model.api_key", KEY], "did you mean model.api_key_env?"),
    ]:
        done = run("config", "set", *words)
        assert done.code == 2
        assert told in done.err
        assert KEY not in done.err
    assert file.read_text() == "# mine\ntools:\n  timeout: 45  # long\n"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("model.name", "4", '"4"'),
        ("model.name", "no", '"no"'),
        ("model.name", "a: [b", '"a: [b"'),
        ("model.name", "''", '""'),
        ("terminal.cwd", "~/.", '"~/."'),
        ("terminal.cwd", "null", "null"),
        ("toolsets.enabled", "[]", "[]"),
        ("display.color", "never", '"never"'),
        ("users.me@a.org.disabled_tools", "[terminal]", '["terminal"]'),
        ("profiles.p.tools.timeout", "3", "3"),
    ],
)
def test_a_value_arrives_as_it_was_meant(run: Any, key: str, value: str, shown: str) -> None:
    done = run("config", "set", key, value)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{key}: {shown}  ")


@pytest.mark.full
@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("plugins.trusted_projects./a.b", "0" * 64, f'plugins.trusted_projects./a.b: "{"0" * 64}"'),
        ("command_allowlist", "[make clean]", "command_allowlist"),
    ],
)
def test_a_person_at_a_terminal_gives_trust(run: Any, tmp_path: Path, key: str, value: str, shown: str) -> None:
    """Only a person can give trust: without a terminal the command refuses."""
    words = ["config", "set", key, value]
    command = Path(sys.executable).with_name("toolcrib")
    alone = subprocess.run([command, *words], stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=False)
    assert (alone.returncode, b"needs a user at a terminal" in alone.stderr) == (2, True)
    person = pexpect.spawn(str(command), words, cwd=str(tmp_path), timeout=60, encoding="utf-8")
    said = person.read()
    person.close()
    assert person.exitstatus == 0, said
    assert shown in said


def test_unset_gives_the_default_back(run: Any, config: Any) -> None:
    file = config("tools:\n  timeout: 12\n  # about disabled\n  disabled: []\n")
    assert run("config", "unset", "tools.timeout").out == "tools.timeout: 300  default\n"
    assert file.read_text() == "tools:\n  # about disabled\n  disabled: []\n"
    again = run("config", "unset", "tools.timeout")
    assert again.code == 1
    assert "is not set in" in again.err


def test_one_setting_of_a_plugin_has_a_key(run: Any, config: Any) -> None:
    file = config("plugins: {settings: {audit: {required: 'true'}}}\n")
    assert run("config", "get", "plugins.settings.audit.required").out == "true\n"
    assert run("config", "set", "plugins.settings.otel.endpoint", "http://127.0.0.1:4318").code == 0
    assert run("config", "get", "plugins.settings.otel.endpoint").out == "http://127.0.0.1:4318\n"
    assert run("config", "get", "plugins.settings.otel.other").code == 1
    assert run("config", "unset", "plugins.settings.otel.endpoint").code == 0
    assert "otel: {endpoint" not in file.read_text()


def test_the_chosen_file_is_changed(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    assert run("config", "--config", str(file), "path").out == f"{file}\n"
    run("config", "set", "max_turns", "3", "--config", str(file))
    assert file.read_text() == "max_turns: 3\n"


def test_a_project_that_lowers_what_was_set_is_told(run: Any, tmp_path: Path) -> None:
    (tmp_path / ".toolcrib").mkdir()
    own = tmp_path / ".toolcrib" / "config.yaml"
    own.write_text("max_turns: 2\nmodel: {name: theirs}\n")
    done = run("config", "set", "max_turns", "7")
    assert done.out == f"max_turns: 2  project {own}:1\n"
    assert "model.name: ignored" in done.err
    own.write_text("max_turns: [\n")
    done = run("config", "set", "max_turns", "8")
    assert done.code == 0
    assert f"fix or remove {own}" in done.err


def test_check_tells_all_faults(run: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such file" in run("config", "check").out
    file = config("tools: {timeout: 3}\n")
    assert run("config", "check").out == f"{file}: no errors\n"
    (file.parent / "secrets.env").write_text("A=1\n")
    (file.parent / "secrets.env").chmod(0o644)
    file.write_text("tols: 3\nprofiles: {p: {max_turns: x}}\n")
    done = run("config", "check")
    assert done.code == 1
    assert [line.split(": ")[0] for line in done.out.splitlines()[:2]] == [f"{file}:1", f"{file}:2"]
    assert "chmod 600" in done.out.splitlines()[2]
    (file.parent / "secrets.env").unlink()
    file.write_text("tools: {timeout: 3}\n")
    file.chmod(0o666)
    assert "chmod go-w" in run("config", "check").out
    file.chmod(0o600)
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib" / "config.yaml").write_text("tools: 3\n")
    assert run("config", "check").code == 1
    (tmp_path / ".toolcrib" / "config.yaml").unlink()
    monkeypatch.setenv("TOOLCRIB_PROFILE", "p")
    assert "unknown profile 'p' (from $TOOLCRIB_PROFILE)" in run("config", "check").out


ADDS_A_PLACE = (
    "from toolcrib import hookimpl\n@hookimpl\ndef register_environment(add):\n    add('moon', lambda **options: None)\n"
)


def test_check_tells_of_names_that_nobody_has(run: Any, config: Any) -> None:
    file = config(
        "terminal:\n  backend: dokcer\nmodel:\n  provider: gemin\n  fallback:\n    - {name: m, provider: chta}\n"
        "profiles:\n  far:\n    environments: {hosts: {gpu: {host: example.test}}}\n    terminal: {backend: gpu}\n"
        "  box:\n    terminal:\n      backend: bubblewrapp\n"
    )
    done = run("config", "check")
    assert done.code == 1
    backend, provider, fallback, profile = done.out.splitlines()
    assert backend.startswith(f"{file}:2: terminal.backend: there is no backend 'dokcer'; did you mean 'docker'? (known: ")
    assert provider.startswith(f"{file}:4: model.provider: unknown provider 'gemin'; known: chat, ")
    assert fallback.startswith(f"{file}:5: model.fallback: unknown provider 'chta'; ")
    assert profile.startswith(f"profile box {file}:13: terminal.backend: there is no backend 'bubblewrapp'; ")
    doctor = run("doctor").out
    for line in (backend, provider, fallback):
        assert f"✗ {line}" in doctor


def test_check_knows_the_places_of_enabled_plugins(run: Any, config: Any) -> None:
    file = config("terminal: {backend: moon}\nplugins:\n  enabled: [moon]\n")
    done = run("config", "check")
    assert done.code == 1
    assert f"{file}:1: terminal.backend: there is no backend 'moon'" in done.out
    assert f"{file}:3: plugins.enabled: 'moon': there is no such plugin" in done.out
    (file.parent / "plugins").mkdir()
    (file.parent / "plugins" / "moon.py").write_text(ADDS_A_PLACE)
    done = run("config", "check")
    assert (done.code, done.out, done.err) == (0, f"{file}: no errors\n", "")
    file.write_text("terminal: {backend: moon}\n")
    assert "there is no backend 'moon'" in run("config", "check").out


def test_check_loads_plugins_as_a_session_would_and_none_that_nobody_agreed_to(run: Any, config: Any) -> None:
    file = config("plugins: {enabled: [loud, bad]}\n")
    (file.parent / "plugins").mkdir()
    (file.parent / "plugins" / "loud.py").write_text("print('loaded')\n" + ADDS_A_PLACE)
    (file.parent / "plugins" / "bad.py").write_text("import no_such_module\n")
    done = run("config", "check")
    assert done.out.startswith(f"{file}:1: plugins.enabled: 'bad': ")
    assert ("no_such_module" in done.out, "loaded" in done.err) == (True, True)
    run("call", "read_file", '{"path": "/etc/hostname"}')
    file.write_text("terminal: {backend: moon}\nplugins: {enabled: [loud]}\n")
    done = run("config", "check")
    assert "unconfirmed changes that loosen or redirect" in done.out
    assert "plugins load only after errors are fixed and changes confirmed" in done.out
    assert "loaded" not in done.err


EVERYTHING = """\
tools: {timeout: soon, disabled: [terminl]}
tols: 3
model:
  provider: gemin
  protocol: hermess
terminal:
  backend: dokcer
  cwd: /no/such/folder
toolsets:
  enabled: [codin]
  custom:
    coding: {tools: [patch]}
    mine: {tools: [patch], incldues: [x]}
    ours: {tools: [ptch]}
platforms:
  telegrm: {disabled_tools: [patch]}
  cron: {enabled_toolsets: file}
approval:
  smart: {enabled: true, provider: nope}
  rules:
    - {key: a.b, level: ask, command: deployctl, why: x, example: [ls]}
    - {key: a.c, level: never, command: x, why: x, example: [x]}
    - {key: a.d, level: ask, command: deployctl, why: x, example: [rm]}
  tools:
    - {tool: x, decision: ask, why: y, args: {p: "re:("}}
environments:
  containers: {clean: {project: none}}
plugins:
  enabled: [nowhere]
command_allowlist:
  - sudo make me
profiles:
  far: {terminal: {backend: moon}, run: {max_tokens: none}}
"""


def test_a_wrong_value_blames_no_line_of_the_file(run: Any, config: Any) -> None:
    """The value is not in the file, because nothing was written."""
    file = config("max_turns: 7\n")
    for key in ("delegates.at_once", "profiles.x.delegates.at_once"):
        done = run("config", "set", key, "0")
        assert done.code == 2
        assert done.err == f"toolcrib: {file}: {key}: expected a whole number of 1 or more\nnothing was changed\n"
    assert file.read_text() == "max_turns: 7\n"


def test_a_project_is_told_what_it_may_lower(run: Any, tmp_path: Path) -> None:
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib" / "config.yaml").write_text("memory: {max_chars: 100}\n")
    assert re.search(r"memory: ignored: .* and lower these limits: .*max_turns.*tools\.timeout", run("config", "check").err)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "platforms: {console: {backend: dockr}}",
            "platforms.console.backend: there is no backend 'dockr'; did you mean 'docker'?",
        ),
        (
            "platforms: {console: {settings: {sokket: x}}}",
            "platforms.console.settings.sokket: unknown setting; did you mean socket?",
        ),
        ("cron: {zone: Mars/Olympus}", "cron.zone: there is no time zone 'Mars/Olympus'"),
        ("cron: {unattended: maybe}", "cron.unattended: expected one of deny, park (cron.rule_sets adds others)"),
        ("platforms: {console: {roles: {owner: root}}}", "platforms.console.roles.owner: expected a list, got text"),
    ],
)
def test_check_tells_what_a_gateway_would_stumble_on(run: Any, config: Any, text: str, says: str) -> None:
    file = config(f"plugins: {{enabled: [console]}}\n{text}\n")
    done = run("config", "check")
    told = [one for one in done.out.splitlines() if not one.startswith("plugins load only after")]
    assert (done.code, len(told), told[0].startswith(f"{file}:2: {says}")) == (1, 1, True), done.out


def test_check_tells_all_faults_at_once(run: Any, config: Any, tmp_path: Path) -> None:
    file = config(EVERYTHING)
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib" / "config.yaml").write_text("tools: {timeout: -1}\n")
    done = run("config", "check")
    assert done.code == 1
    for line, said in (
        (1, "tools.timeout: expected a number of seconds above 0, got text"),
        (1, "tools.disabled names the unknown tool 'terminl'; did you mean 'terminal'?"),
        (2, "tols: unknown key; did you mean tools?"),
        (4, "model.provider: unknown provider 'gemin'"),
        (5, "model.protocol: unknown text protocol 'hermess'"),
        (7, "terminal.backend: there is no backend 'dokcer'; did you mean 'docker'?"),
        (8, "terminal.cwd: expected an existing folder, got /no/such/folder"),
        (10, "toolsets.enabled: unknown toolset 'codin'; did you mean 'coding'?"),
        (12, "toolsets.custom: toolset 'coding' (config.yaml): the name is taken by a built-in; choose another"),
        (13, "toolsets.custom.mine.incldues: unknown key; did you mean toolsets.custom.mine.includes?"),
        (14, "toolsets.custom.ours.tools names the unknown tool 'ptch'; did you mean 'patch'?"),
        (16, "platforms: unknown platform 'telegrm'; known: "),
        (17, "platforms.cron.enabled_toolsets: expected a list of names, or null, got text"),
        (19, "approval.smart.provider: unknown provider 'nope'"),
        (21, "approval.rules[0] (a.b): example: the rule must match this command"),
        (23, "approval.rules[2] (a.d): example: the rule must match this command"),
        (22, "approval.rules[1].level: expected one of allow, ask, ask-once, block"),
        (25, "approval.tools[0] (x): args.p: expected a regular expression"),
        (27, "environments.containers.clean: the backend 'clean' is unavailable: set environments.containers.clean.image"),
        (29, "plugins.enabled: 'nowhere': there is no such plugin"),
        (31, "command_allowlist: 'sudo make me' does not apply: "),
        (33, "profiles.far.run.max_tokens: expected a whole number of 1 or more, or null, got text"),
        (33, "terminal.backend: there is no backend 'moon'"),
    ):
        wanted = said.replace("config.yaml", str(file))
        told = [one for one in done.out.splitlines() if f"{file}:{line}: " in one and wanted in one]
        assert told, f"not told: {file}:{line}: {said}\n{done.out}"
    lines = [int(found[1]) for found in re.finditer(rf"^{re.escape(str(file))}:(\d+):", done.out, re.MULTILINE)]
    assert lines == sorted(lines)
    assert f"{tmp_path}/.toolcrib/config.yaml:1: tools.timeout: expected a number of seconds above 0" in done.out


def test_what_doctor_finds_wrong_in_a_file_check_finds_too(run: Any, config: Any) -> None:
    form = ["tols: 3\n", "  cwd: /no/such/folder\n", "timeout: soon, ", ", incldues: [x]", ", run: {max_tokens: none}"]
    form.append("  cron: {enabled_toolsets: file}\n")
    rules = EVERYTHING.partition("  rules:\n")[2].partition("environments:")[0]
    text = EVERYTHING.replace(f"  rules:\n{rules}", "").replace("    coding: {tools: [patch]}\n", "")
    for part in form:
        text = text.replace(part, "")
    config(text)
    wrong = [line[2:] for line in run("doctor").out.splitlines() if line.startswith("✗ ")]
    checked = run("config", "check").out
    assert len(wrong) >= 8
    for line in wrong:
        parts = (line, line.partition(": ")[2], line.partition(" does not apply")[0])
        assert any(part and part in checked for part in parts), f"not told: {line}\n{checked}"


def test_a_file_that_is_named_and_not_there_is_no_good_one(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "nosuch.yaml"
    done = run("config", "check", "--config", str(file))
    assert (done.code, done.err) == (1, f"toolcrib: --config: {file} does not exist\n")


def test_set_refuses_a_rule_that_can_not_be_one(run: Any, config: Any) -> None:
    file = config("# mine\n")
    rule = "{command: make, operands: deploy, key: team.deploy, why: ships, level: ask, example: [make %s]}"
    for key in ("approval.rules", "profiles.p.approval.rules"):
        done = run("config", "set", key, f"[{rule % 'test'}]")
        assert (done.code, done.out) == (2, "")
        assert "the rule must match this command, but does not: 'make test'" in done.err
        assert file.read_text() == "# mine\n"
    assert run("config", "set", "approval", f"{{rules: [{rule % 'test'}]}}").code == 2
    assert file.read_text() == "# mine\n"
    assert run("config", "set", "approval.rules", f"[{rule % 'deploy'}]").err == ""
    assert run("tools").code == 0


def test_set_says_a_fault_that_only_the_new_rule_has(run: Any, config: Any) -> None:
    bad = "{command: make, key: a, why: ships, level: ask, example: [ls]}"
    config(f"approval: {{rules: [{bad}]}}\n")
    rule = "[{tool: terminal, decision: ask, why: w}]"
    assert run("config", "set", "approval.tools", rule).code == 0, "the other is not its fault"
    assert run("config", "set", "approval.rules", "[]").code == 0


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("tools.disabled", "[terminl]", "terminal"),
        ("approval.tools", "[{tool: write_fil, decision: deny, why: w}]", "write_file"),
        ("profiles.p.tools.disabled", "[terminl]", "terminal"),
    ],
)
def test_set_warns_of_names_that_nothing_has(key: str, value: str, meant: str, run: Any, config: Any) -> None:
    config("max_turns: 3\n")
    done = run("config", "set", key, value)
    assert done.code == 0
    assert f"did you mean '{meant}'?" in done.err
    assert done.err.count("toolcrib: warning: ") == 1
    assert run("config", "set", "max_turns", "4").err == ""
