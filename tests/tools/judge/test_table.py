"""Every row of the rules table finds its own examples, and no row finds its counter-examples."""

from __future__ import annotations

import pytest

from tools.judge.assess import assess
from tools.judge.meaning import interpret
from tools.judge.meaning.act import Act, RedirectTarget
from tools.judge.meaning.state import NoFiles, ShellNow
from tools.judge.meaning.value import HOLE, Value
from tools.judge.rules import MODULES, all_rules, family, filed
from tools.judge.table import DRY, ActView, Rule, count, env, operand, opt, reads, sub, text, value, word

HOME = "/home/dev"
NOW = ShellNow(cwd=f"{HOME}/project", home=HOME, user="dev")


def keys(command: str) -> set[str]:
    return {finding.key for finding in assess(interpret(command, NOW, NoFiles()), home=HOME)}


def view(*argv: str, **more: object) -> ActView:
    return ActView(Act(argv[0], [Value(one) for one in argv], **more))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.key)
def test_a_row_finds_its_examples_and_leaves_its_counter_examples(rule: Rule) -> None:
    """003-24"""
    for command in rule.yes:
        found = keys(command)
        assert rule.key in {key.partition("@")[0].removesuffix("-root") for key in found}, (command, found)
    for command in rule.no:
        assert not keys(command), command


def test_a_row_is_complete() -> None:
    for rule in all_rules():
        assert rule.names, f"{rule.key} has no name"
        assert rule.why, rule.key
        assert "." in rule.key, rule.key
        assert rule.no, f"{rule.key} has no counter-example"
        assert rule.yes or rule.key == "net.reverse-shell", f"{rule.key} has no example"
        assert not rule.roots or rule.paths is not None, f"{rule.key}: roots need its paths"


def test_every_module_is_collected() -> None:
    assert len(set(MODULES)) == len(MODULES)
    assert {"fs.recursive-delete", "git.rewrite", "service.stop"} <= {rule.key for rule in all_rules()}
    assert all(rules for rules in filed().values())


@pytest.mark.parametrize(
    ("name", "kin"),
    [
        ("mkfs.ext4", "mkfs"),
        ("python3.12", "python"),
        ("kafka-topics.sh", "kafka-topics"),
        ("gcc-12", "gcc"),
        ("RM", "rm"),
        ("node_modules/.bin/rimraf", "rimraf"),
    ],
)
def test_families(name: str, kin: str) -> None:
    assert kin in family(name)


@pytest.mark.parametrize(
    ("name", "other"), [("kill.py", "kill"), ("./reboot", "reboot"), ("@sql", "sql"), ("mkfs-viewer", "mkfs")]
)
def test_look_alikes_are_no_family(name: str, other: str) -> None:
    assert other not in family(name)


def test_options_are_found_in_clusters_long_and_abbreviated() -> None:
    recursive = opt("-r -R --recursive")
    assert recursive(view("rm", "-vrf", "a"))
    assert recursive(view("rm", "--recursive", "a"))
    assert recursive(view("rm", "--recurs", "a"))
    assert not recursive(view("rm", "--", "-r"))
    assert not recursive(view("rm", "-f", "r"))
    assert not recursive(view("rm", "-", "a"))


def test_values_of_options() -> None:
    method = value("-X --request", "DELETE")
    for words in (["-X", "DELETE"], ["-XDELETE"], ["--request", "DELETE"], ["--request=DELETE"], ["-sX", "DELETE"]):
        assert method(view("curl", *words, "u"))
    assert not method(view("curl", "-X", "GET", "DELETE"))
    assert not method(view("curl", "--", "-X", "DELETE"))
    assert not method(view("curl", "-X"))


def test_subcommands_operands_words_and_texts() -> None:
    assert sub("remote add|set-url")(view("git", "-C", "x", "remote", "add", "o"))
    assert not sub("remote add")(view("git", "remote"))
    assert operand("/dev/.*", -1)(view("cp", "a", "/dev/sda"))
    assert not operand("/dev/.*", 0)(view("cp", "a", "/dev/sda"))
    assert not operand("x", 5)(view("cp", "x"))
    assert word("-delete")(view("find", ".", "-delete"))
    assert text("drop  ?table")(view("psql", "-c", "DROP TABLE x"))
    assert count(2)(view("cp", "a", "b"))
    assert not count(2)(view("cp", "-a", "b"))
    assert reads("flushall")(view("redis-cli", stdin=Value("FLUSHALL\n")))
    assert not reads("x")(view("redis-cli"))
    assert env("A B")(view("id", environment={"B": Value("1")}))
    assert (~count(1) | word("a"))(view("x", "a"))
    assert not (count(1) & word("b"))(view("x", "a"))


@pytest.mark.parametrize("said", ["--help", "--version", "--dry-run", "--dry-run=client", "--whatif"])
def test_dry_runs(said: str) -> None:
    assert DRY(view("kubectl", "delete", "x", said))


@pytest.mark.parametrize("said", ["--dry-run=none", "--dry", "-n"])
def test_no_dry_runs(said: str) -> None:
    assert not DRY(view("kubectl", "delete", "x", said))


def test_operands_skip_what_belongs_to_an_option() -> None:
    seen = view("git", "-C", "dir", "push", "--", "-x", HOLE)
    assert [one.text for one in seen.operands()] == ["push", "-x", HOLE]
    assert seen.operands() is seen.operands(), "taken apart once"
    assert seen.after(["a"])[0].text == "-x"
    other = view("deployctl", "-C", "dir", "push")
    assert [one.text for one in other.operands()] == ["dir", "push"]
    assert [one.text for one in other.operands(frozenset({"-C"}))] == ["push"]


def test_a_redirect_is_no_argument() -> None:
    assert view("ls", redirects=[RedirectTarget(">", Value("x"))]).joined == ""
