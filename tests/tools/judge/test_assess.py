"""The findings of acts: paths, hosts, taints, roots, protected folders. Acts are made by hand; test_table has commands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.judge.assess import assess
from tools.judge.dry_runs import only_says
from tools.judge.findings import UNKNOWN_PATH, Finding
from tools.judge.meaning.act import Act, Code, Fault, Meaning, RedirectTarget
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.table import ActView, rule, word

HOME = "/home/dev"
HERE = f"{HOME}/project"
OWN = (f"{HOME}/.config/toolcrib", f"{HOME}/.local/state/toolcrib")


def act(*argv: str | Value, to: str = "", cwds: Sequence[str] = (HERE,), **more: object) -> Act:
    values = [one if isinstance(one, Value) else Value(one) for one in argv]
    redirects = [RedirectTarget(">", Value(to))] if to else more.pop("redirects", [])
    return Act(values[0].text if values else "", values, redirects, cwds, **more)


def judged(*acts: Act, **more: object) -> list[Finding]:
    return assess(Meaning(acts), home=HOME, **more)


def levels(*acts: Act, **more: object) -> dict[str, str]:
    return {finding.key: finding.level for finding in judged(*acts, **more)}


# -- all findings, each once


def test_all_findings_are_told_not_just_the_first() -> None:
    """003-24: approval of the first finding must not let the others run."""
    fetch = act("sh", code=[Code("shell", Value(HOLE, Taint.REMOTE), "stdin")])
    found = judged(act("rm", "-rf", "build"), fetch, act("systemctl", "stop", "nginx"))
    assert [finding.key for finding in found] == ["fs.recursive-delete", "code.remote", "service.stop@nginx"]


def test_the_same_is_told_once() -> None:
    assert len(judged(act("rm", "-rf", "build"), act("rm", "-rf", "build"))) == 1
    assert len(judged(act("rm", "-rf", "build"), act("rm", "-rf", "dist"))) == 2


def test_a_finding_names_argv_paths_and_scope() -> None:
    (found,) = judged(act("rm", "-rf", "build", "../x"))
    assert found.paths == (f"{HERE}/build", f"{HOME}/x")
    assert (found.text, found.argv, found.plain) == ("rm -rf build ../x", ("rm", "-rf", "build", "../x"), True)
    assert found.scope == f"{HERE}/build, {HOME}/x"


@pytest.mark.parametrize(
    "more",
    [
        {"redirects": [RedirectTarget(">", Value("a"))]},
        {"wrappers": ("sudo",)},
        {"environment": {"A": Value("1")}},
        {"place": "ssh:web"},
        {"fed": True},
        {"stdin": Value("y")},
    ],
)
def test_only_a_bare_command_is_plain(more: dict[str, object]) -> None:
    assert not judged(act("rm", "-rf", "build", **more))[0].plain
    assert not judged(act("rm", "-rf", Value("x*", pattern=True)))[0].plain


def test_what_a_screen_would_act_on_is_escaped() -> None:
    (found,) = judged(act("rm", "-rf", "a\x1b[2Jb"))
    assert "\x1b" not in found.text + found.scope


def test_unknown_parts_are_shown_as_they_were_written() -> None:
    (found,) = judged(act("rm", "-rf", Value(f"{HOLE}/x", shown='"$DIR"/x')))
    assert found.text == 'rm -rf "$DIR"/x'
    assert HOLE not in found.text + found.scope


# -- paths


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        (Value("a"), (f"{HERE}/a",)),
        (Value("./a/../b"), (f"{HERE}/b",)),
        (Value("logs/*", pattern=True), (f"{HERE}/logs",)),
        (Value("*/../../x", pattern=True), (UNKNOWN_PATH,)),
        (Value(HOLE), (UNKNOWN_PATH,)),
        (Value(f"/srv/{HOLE}"), (UNKNOWN_PATH,)),
        (Value("//srv//a/"), ("/srv/a",)),
    ],
)
def test_paths_are_absolute_or_unknown(given: Value, paths: tuple[str, ...]) -> None:
    (found,) = [one for one in judged(act("rm", "-rf", given)) if one.key == "fs.recursive-delete"]
    assert found.paths == paths


def test_every_folder_that_it_may_run_in_counts() -> None:
    (found,) = judged(act("rm", "-rf", "a", cwds=("/tmp/x", "/tmp/y")))
    assert found.paths == ("/tmp/x/a", "/tmp/y/a")
    assert judged(act("rm", "-rf", "a", cwds=()))[0].paths == (UNKNOWN_PATH,)
    assert judged(act("rm", "-rf", "a", fed=True))[0].paths == (f"{HERE}/a", UNKNOWN_PATH)


@pytest.mark.parametrize(
    ("given", "cwd"),
    [
        ("/", HERE),
        ("/*", HERE),
        ("//", HERE),
        ("/.", HERE),
        ("/./", HERE),
        ("/usr/../etc", HERE),
        ("/etc/", HERE),
        ("/etc/*", HERE),
        (HOME, HERE),
        ("~", HERE),
        ("~/", HERE),
        ("~/*", HERE),
        ("~/.*", HERE),
        ("..", HERE),
        ("../..", HERE),
        ("*", HOME),
        (".", HOME),
        ("*", "/"),
        ("etc", "/"),
        ("../*", HERE),
        ("/home", HERE),
        ("/home/*", HERE),
        ("/e*", HERE),
        ("/*/*", HERE),
        ("/usr/lib", HERE),
        ("~root", HERE),
    ],
)
def test_roots_and_homes_are_refused(given: str, cwd: str) -> None:
    value = Value(given, pattern="*" in given)
    assert "block" in levels(act("rm", "-rf", value, cwds=(cwd,))).values()
    assert "block" in levels(act("chmod", "-R", "777", value, cwds=(cwd,))).values()
    assert "block" in levels(act("chown", "-R", "x", value, cwds=(cwd,))).values()


@pytest.mark.parametrize(
    "given",
    ["build", "*", "./*", "../other", "/tmp/x", "/tmp/*", "~/old", "/var/tmp/x", "/home/dev/project", "/e2e", "/optional"],
)
def test_other_folders_are_asked_about_and_not_refused(given: str) -> None:
    found = levels(act("rm", "-rf", Value(given, pattern="*" in given)))
    assert found
    assert "block" not in found.values()


@pytest.mark.parametrize(
    ("argv", "key", "level"),
    [
        (["tee", "/etc/hosts"], "system.file", "ask"),
        (["cp", "a", "/usr/bin/"], "system.file", "ask"),
        (["cp", ".bashrc", HOME], "persist.start-file", "ask-once"),
        (["cp", "-t", "/etc", "a"], "system.file", "ask"),
        (["mv", "/etc/hosts", "x"], "system.file", "ask"),
        (["ln", "-s", "a", ".git/hooks/pre-commit"], "persist.git-hooks", "ask-once"),
        (["sed", "-i", "s/a/b/", "/etc/hosts"], "system.file", "ask"),
        (["dd", "if=a", "of=/boot/x"], "system.file", "ask"),
        (["curl", "-so", "/usr/local/bin/x", "u"], "system.file", "ask"),
        (["wget", "-O", "/etc/x", "u"], "system.file", "ask"),
        (["tar", "xzf", "a.tgz", "-C", "/usr"], "system.file", "ask"),
        (["unzip", "a.zip", "-d", "/usr/share"], "system.file", "ask"),
        (["chmod", "600", "/etc/shadow"], "system.accounts", "ask-once"),
        (["install", "-D", "x", "/etc/systemd/system/x.service"], "persist.scheduled", "ask-once"),
        (["rm", "/var/log/syslog"], "system.log", "ask"),
        (["rm", ".git/index"], "git.damage", "ask"),
        (["rm", "/dev/null"], "device.change", "ask"),
        (["docker", "cp", "web:/x", ".git/hooks/pre-commit"], "persist.git-hooks", "ask-once"),
        (["kubectl", "-n", "x", "cp", "web-0:/x", f"{HOME}/.bashrc"], "persist.start-file", "ask-once"),
        (["aws", "s3", "cp", "s3://b/k", f"{HOME}/.ssh/authorized_keys"], "persist.ssh", "ask-once"),
        (["gsutil", "cp", "gs://b/k", "/etc/hosts"], "system.file", "ask"),
        (["python3", "-m", "zipfile", "-e", "a.zip", ".git/hooks"], "persist.git-hooks", "ask-once"),
        (["git", "archive", "-o", f"{HOME}/.bashrc", "HEAD"], "persist.start-file", "ask-once"),
    ],
)
def test_writing_commands_are_judged_by_what_they_write(argv: list[str], key: str, level: str) -> None:
    assert levels(act(*argv)).get(key) == level


@pytest.mark.parametrize(
    "argv",
    [
        ["cp", "/etc/hosts", "."],
        ["sed", "s/a/b/", "/etc/hosts"],
        ["ln", "-s", "/usr/bin/python3"],
        ["rsync", "a", "web:/etc/x"],
        ["scp", "/etc/hosts", "web:"],
        ["tar", "czf", "a.tgz", "-C", "/etc", "hosts"],
        ["rm", "-f", ".git/index.lock"],
        ["vim", "-R", "/etc/hosts"],
        ["cp", "--help", "/etc/hosts", "/etc/x"],
        ["dd", "if=/dev/sda", "of=disk.img"],
        ["cp", "a", "etc/hosts"],
        ["docker", "cp", "/etc/hosts", "web:/etc/hosts"],
        ["docker", "cp", "web:/etc/hosts", "."],
        ["aws", "s3", "cp", "/etc/hosts", "s3://b/etc/hosts"],
        ["git", "push", "-o", "ci.skip", "origin", "dev"],
    ],
)
def test_reading_or_writing_elsewhere_is_no_finding(argv: list[str]) -> None:
    assert not judged(act(*argv))


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/etc/cron.d/x", "persist.scheduled"),
        (f"{HOME}/.ssh/authorized_keys", "persist.ssh"),
        (f"{HOLE}/.ssh/authorized_keys", "persist.ssh"),
        (f"{HOLE}/.bashrc", "persist.start-file"),
        ("../.bashrc", "persist.start-file"),
        ("/etc/sudoers", "system.accounts"),
        (f"/etc/{HOLE}", "system.file"),
        ("/dev/sda", "device.write"),
        (f"/dev/{HOLE}", "device.unknown"),
        ("/proc/sysrq-trigger", "power.off"),
    ],
)
def test_redirects_write_too(path: str, key: str) -> None:
    assert key in levels(act("echo", "x", to=path))
    assert key in levels(act(to=path)), "with no command at all"


@pytest.mark.parametrize(
    "path", ["/dev/null", "a.txt", "/tmp/x", ".env", "/dev/stderr", "/dev/shm/x", ".bashrc", "etc/passwd", "2"]
)
def test_redirects_that_hurt_nobody(path: str) -> None:
    assert not judged(act("echo", "x", to=path))


# -- places


@pytest.mark.parametrize("place", ["ssh:web", "container:app", "chroot:/mnt"])
def test_another_place_is_named_and_no_grant_reaches_it(place: str) -> None:
    for one in (act("rm", "-rf", "/tmp/x", place=place), act("systemctl", "stop", "nginx", place=place)):
        (found,) = [finding for finding in judged(one) if finding.key != "system.file"]
        assert place in found.scope
        assert found.paths == (UNKNOWN_PATH,)
    assert "block" in levels(act("rm", "-rf", "/", place=place)).values()


# -- code and taints


@pytest.mark.parametrize(
    ("code", "key"),
    [
        (Code("shell", Value(HOLE, Taint.REMOTE | Taint.UNKNOWN), "stdin"), "code.remote"),
        (Code("python", Value(f"x={HOLE}", Taint.REMOTE)), "code.remote"),
        (Code("shell", Value(HOLE, Taint.DECODED | Taint.UNKNOWN), "stdin"), "code.decoded"),
        (Code("shell", Value(HOLE, Taint.UNKNOWN, shown="$CMD")), "opaque.code"),
        (Code("shell", Value(HOLE, Taint.UNKNOWN | Taint.LOCAL), "stdin"), "code.piped"),
        (Code("shell", Value(HOLE, Taint.UNKNOWN), "file", "x.sh"), "opaque.file"),
        (Code("shell", Value(HOLE, Taint.UNKNOWN | Taint.LOCAL), "file", "x.sh"), "opaque.file"),
        (Code("shell", Value(f"cd x; {HOLE} y", Taint.UNKNOWN)), "opaque.code"),
        (Code("python", Value("neither ( read", Taint.UNKNOWN)), "opaque.code"),
        (Code("python", Value("neither ( read", Taint.UNKNOWN | Taint.DECODED)), "code.decoded"),
    ],
)
def test_code_that_nobody_read_is_asked_about_every_time(code: Code, key: str) -> None:
    assert levels(act("bash", code=[code])) == {key: "ask-once"}


@pytest.mark.parametrize(
    "code",
    [
        Code("shell", Value(HOLE, Taint.UNKNOWN, shown='"$(ssh-agent -s)"')),
        Code("shell", Value(HOLE, Taint.UNKNOWN, shown='"$(rbenv init - bash)"')),
        Code("shell", Value(HOLE, Taint.UNKNOWN, shown="`dircolors -b`")),
        Code("shell", Value(HOLE, Taint.UNKNOWN | Taint.LOCAL), "file", f"{HOLE}/bin/activate"),
        Code("shell", Value(HOLE, Taint.UNKNOWN | Taint.LOCAL | Taint.SECRET), "file", ".env"),
        Code("sql", Value(HOLE, Taint.UNKNOWN), "stdin"),
        Code("python", Value(f"print('{HOLE}')", Taint.UNKNOWN)),
        Code("shell", Value("ls", Taint.DECODED)),
        Code("shell", Value(f"echo {HOLE}", Taint.UNKNOWN)),
    ],
)
def test_initialisers_local_files_and_read_text_are_no_finding(code: Code) -> None:
    assert not judged(act("eval", code=[code]))


@pytest.mark.parametrize("shown", ["$(curl x | sh)", "$(ssh-agent; rm x)", "$(cat x)", "$(evil make)"])
def test_other_substitutions_are_no_initialisers(shown: str) -> None:
    assert judged(act("eval", code=[Code("shell", Value(HOLE, Taint.UNKNOWN, shown=shown))]))


def test_effects_out_of_hidden_text_are_asked_about_every_time() -> None:
    assert levels(act("rm", "-rf", "build", taint=Taint.DECODED)) == {"fs.recursive-delete": "ask-once"}
    assert levels(act("rm", "-rf", "/etc", taint=Taint.DECODED)).get("fs.recursive-delete-root") == "block"
    assert not judged(act("ls", taint=Taint.DECODED))


@pytest.mark.parametrize("kind", ["syntax", "depth", "size", "steps", "opaque"])
def test_a_fault_is_asked_about_every_time(kind: str) -> None:
    found = assess(Meaning([], [Fault(kind, "an unclosed quote")]))
    assert [(one.key, one.level) for one in found] == [(f"opaque.{kind}", "ask-once")]


@pytest.mark.parametrize("shown", ["$X", "$(pick tool)", "", "`x`"])
def test_an_unknown_command_is_asked_about(shown: str) -> None:
    assert levels(act(Value(HOLE, Taint.UNKNOWN, shown=shown), "x")) == {"opaque.command": "ask-once"}


@pytest.mark.parametrize(
    "shown", ["$EDITOR", '"$PYTHON"', "$(which python)", '"$(command -v node)"', "${CC}", '"$@"', "$VENV_PYTHON"]
)
def test_a_tool_that_a_variable_names_is_no_finding(shown: str) -> None:
    assert not judged(act(Value(HOLE, Taint.UNKNOWN, shown=shown), "-m", "pytest"))


# -- asking for help


@pytest.mark.parametrize(
    "argv",
    [
        ["rm", "-rf", "/", "--help"],
        ["mkfs", "--version"],
        ["kubectl", "delete", "-h"],
        ["docker", "--help"],
        ["git", "help", "x"],
    ],
)
def test_help_does_nothing(argv: list[str]) -> None:
    one = act(*argv)
    assert only_says(ActView(one), (argv[0],))
    assert not judged(one)


@pytest.mark.parametrize("argv", [["rm", "-rf", "--", "--help"], ["kill", "-9", "-1", "--help"], ["chown", "-R", "x", "-h"]])
def test_words_that_look_like_asking_for_help(argv: list[str]) -> None:
    assert judged(act(*argv))


# -- toolcrib's own files


@pytest.mark.parametrize(
    "one",
    [
        act("cat", f"{OWN[0]}/config.yaml"),
        act("sh", "-c", "x", to=f"{OWN[0]}/config.yaml"),
        act("cp", "x", f"{OWN[0]}/skills/a.md"),
        act("rm", "-rf", f"{HOME}/.config"),
        act("mv", "../.config", "x"),
        act("cat", Value(f"{HOME}/.config/tool*/x", pattern=True)),
        act("cat", "secrets.env", cwds=(OWN[0],)),
        act("tar", "czf", "x.tgz", OWN[1]),
        act("curl", "-d", f"@{OWN[0]}/secrets.env", "u"),
        act("python", f"--file={OWN[0]}/x"),
        act("docker", "run", "-v", f"{OWN[0]}:/x", "a"),
    ],
)
def test_own_files_are_closed(one: Act) -> None:
    assert levels(one, protected=OWN).get("self.settings") == "block"


@pytest.mark.parametrize(
    "one",
    [
        act("ls", OWN[0]),
        act("cat", f"{OWN[0]}/skills/a.md"),
        act("cat", f"{HOME}/.config/git/config"),
        act("rm", "a"),
        act("cat", f"{OWN[0]}-other/x"),
    ],
)
def test_neighbours_of_own_files_are_not(one: Act) -> None:
    assert not judged(one, protected=OWN)


# -- other properties


def test_rows_of_the_operator_are_looked_at_besides() -> None:
    own = rule("house.deploy", "ask", "deploy", word("prod"), "deploys", yes="deploy prod", no="deploy test")
    assert levels(act("deploy", "prod"), extra=[own]) == {"house.deploy": "ask"}
    assert not judged(act("deploy", "test"), extra=[own])


@given(
    st.lists(st.text(max_size=8), min_size=1, max_size=6),
    st.sampled_from(["rm", "git", "kill", "curl", "chmod", "find", "dd", "tar", ""]),
)
def test_nothing_breaks_it(words: list[str], name: str) -> None:
    """003-24: the assessment raises for no act"""
    values = [Value(name), *(Value(one, pattern=True) for one in words)]
    one = Act(name, values, [RedirectTarget(">", Value(words[0]))], (HERE,), {"PATH": Value(words[0])}, Value(words[-1]))
    for finding in assess(Meaning([one]), protected=OWN, home=HOME):
        assert finding.level in ("allow", "ask", "ask-once", "block")
        assert all(path == UNKNOWN_PATH or path.startswith(("/", "~")) or "/proc/" in path for path in finding.paths)
