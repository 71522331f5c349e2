"""Rules about paths, the same for a file tool as for the shell."""

from __future__ import annotations

import pytest

from tools.judge.findings import UNKNOWN_PATH
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Value
from tools.judge.paths import PATH_RULES, PathRule, judge_change, judge_read, path_rules, resolve_value, root_of, spelled
from tools.judge.writes import touched

HOME = "/home/dev"


@pytest.mark.parametrize("rule", PATH_RULES, ids=lambda rule: rule.key)
def test_every_path_rule_finds_its_example_and_leaves_its_counter_example(rule: PathRule) -> None:
    """Equal effects have equal verdicts: the shell's writing commands and file tools share these rows."""
    mode = sorted(rule.modes)[-1]
    assert rule in path_rules(rule.example, mode, HOME) or rule.key == "system.file"
    assert rule.key in {found.key for found in path_rules(rule.example, mode, HOME)}
    assert not path_rules(rule.counter, mode, HOME) or rule.key.startswith("device")
    assert rule not in path_rules(rule.counter, mode, HOME)


@pytest.mark.parametrize(
    "path", ["/home/dev/project/a.py", "/tmp/x", "/home/dev/project/.env", "/home/dev/notes.txt", "/var/tmp/x", "/dev/null"]
)
def test_ordinary_places_are_free(path: str) -> None:
    assert not judge_change(path, "write_file", home=HOME)


@pytest.mark.parametrize(
    ("path", "mode", "key"),
    [
        ("/home/dev/.bashrc", "write", "persist.start-file"),
        ("/srv/dev/.bashrc", "write", "persist.start-file"),
        ("/home/dev/.config/fish/config.fish", "write", "persist.start-file"),
        ("/etc/profile.d/x.sh", "write", "persist.scheduled"),
        ("/home/dev/Library/LaunchAgents/x.plist", "write", "persist.scheduled"),
        ("/home/dev/project/.git/hooks/pre-commit", "permission", "persist.git-hooks"),
        ("/home/dev/project/.git/config", "write", "persist.git-hooks"),
        ("/home/dev/.ssh/config", "write", "persist.ssh"),
        ("/home/dev/.ssh/id_rsa", "delete", "secret.keys"),
        ("/home/dev/.bash_history", "delete", "system.log"),
        ("/var/log/auth.log", "write", "system.log"),
        ("/run/docker.sock", "permission", "container.socket"),
        ("/etc/made-up", "folder", "system.file"),
        ("/private/etc/hosts", "write", "system.file"),
    ],
)
def test_places_that_matter(path: str, mode: str, key: str) -> None:
    home = "/srv/dev" if path.startswith("/srv/dev") else HOME
    assert [rule.key for rule in path_rules(path, mode, home)] == [key]


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("/home/dev/project/.git/index.lock", "delete"),
        ("/home/dev/project/.git/hooks/pre-commit.sample", "delete"),
        ("/home/dev/.ssh/known_hosts", "write"),
        ("/srv/app/a", "write"),
        ("/home/dev/.bashrc", "permission"),
        ("/dev/shm/pts", "write"),
    ],
)
def test_neighbours_that_do_not(path: str, mode: str) -> None:
    assert not path_rules(path, mode, HOME)


def test_a_general_rule_gives_way_to_a_special_one() -> None:
    assert [found.key for found in judge_change("/etc/cron.d/x", "write")] == ["persist.scheduled"]


def test_own_folders_are_closed_to_writing_and_to_reading_what_is_secret() -> None:
    own = ("/home/dev/.config/toolcrib",)
    assert judge_change("/home/dev/.config/toolcrib/skills/a.md", "w", own)[0].level == "block"
    assert judge_read("/home/dev/.config/toolcrib/secrets.env", "r", own)[0].level == "block"
    assert not judge_read("/home/dev/.config/toolcrib/skills/a.md", "r", own)
    assert judge_read("/home/dev/.config", "search", own), "a search above would show them"
    assert not judge_read("/home/dev", "search", own, ["/home/dev/.config"]), "they are left out"
    assert judge_read("/home/dev", "search", [*own, "/home/dev/state"], own), "not all of them are"
    assert judge_read(own[0], "search", own, own), "the folder itself stays closed"


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (Value("a/b"), ("/w/a/b",)),
        (Value("~/a"), ("/home/dev/a",)),
        (Value("~bob/a"), (UNKNOWN_PATH,)),
        (Value("/a/./b/../c/"), ("/a/c",)),
        (Value("a/[x]*", pattern=True), ("/w/a",)),
        (Value("/*", pattern=True), ("/",)),
        (Value("a*/../..", pattern=True), (UNKNOWN_PATH,)),
        (Value("a*"), ("/w/a*",)),
        (Value(f"{HOLE}/x"), (UNKNOWN_PATH,)),
        (Value(""), (UNKNOWN_PATH,)),
    ],
)
def test_where_a_word_points_to(value: Value, paths: tuple[str, ...]) -> None:
    assert resolve_value(value, ("/w",), HOME) == paths


def test_an_unknown_folder_leaves_only_absolute_paths() -> None:
    assert spelled(Value("a"), (), HOME) == []
    assert spelled(Value("/a"), (), HOME) == ["/a"]
    assert not root_of(Value("*", pattern=True), (), HOME)


def test_a_home_elsewhere_is_a_root_too() -> None:
    assert root_of(Value("/data/people/dev"), ("/w",), "/data/people/dev")
    assert root_of(Value("~"), ("/w",), "/data/people/dev")
    assert not root_of(Value("/data/people/dev"), ("/w",), HOME)


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("cp a b dir", ["dir", "dir/a", "dir/b"]),
        ("cp -t dir a", ["dir", "dir/a"]),
        ("mv a b", ["b", "b/a", "a"]),
        ("ln -s /usr/bin/x", []),
        ("install -d a b", ["a", "b"]),
        ("dd if=a of=b", ["b"]),
        ("sed -i s/a/b/ x y", ["x", "y"]),
        ("sed s/a/b/ x", []),
        ("chmod 644 a", ["a"]),
        ("chmod --reference=x a", ["a"]),
        ("curl -sSLo x u", ["x"]),
        ("curl --output=x u", ["x"]),
        ("tar xf a.tar -C /d", ["/d"]),
        ("tar cf a.tar -C /d x", []),
        ("gzip a", ["a"]),
        ("gzip -c a", []),
        ("rsync a host:b", []),
        ("tee -a x /dev/null", ["x"]),
        ("perl -pi -e s/a/b/ x", ["x"]),
        ("perl -e 1 x", []),
        ("vim -R x", []),
        ("vim x", ["x"]),
        ("made-up x", []),
    ],
)
def test_what_a_command_changes(words: str, changed: list[str]) -> None:
    values = [Value(word) for word in words.split()]
    act = Act(values[0].text, values)
    assert [touch.path.text for touch in touched(act, (act.name,), None)] == changed
