"""``env``, ``su`` and ``runuser``: the commands that they run, in every form of their options. No command runs here."""

from __future__ import annotations

import pytest

from tools.judge.detect import detect_dangerous_command
from tools.judge.meaning import Meaning, NoFiles, ShellNow, interpret
from tools.judge.meaning.logins import split_words

NOW = ShellNow(cwd="/home/dev/p", home="/home/dev", user="dev")


def meaning(text: str) -> Meaning:
    return interpret(text, NOW, NoFiles())


def argvs(text: str) -> list[str]:
    return [" ".join(value.text for value in act.argv) for act in meaning(text).acts if act.argv]


@pytest.mark.parametrize(
    "text",
    [
        r"env -S 'rm\_-rf\_/srv'",
        r"env -iS 'rm -rf' /srv",
        r"env -vS '-i A=b rm -rf /srv'",
        r"env --split 'rm -rf /srv'",
        r"env --spl='rm -rf /srv # no more'",
        "env --uns X rm -rf /srv",
        "env --ch / rm -rf /srv",
        "env --arg other rm -rf /srv",
        "env - PATH=/bin rm -rf /srv",
        "env --default-signal rm -rf /srv",
        "timeout --sig KILL 9 rm -rf /srv",
        "su --comm 'rm -rf /srv' root",
        "su -lc 'rm -rf /srv'",
        "su root -- -c 'rm -rf /srv'",
        "su -c 'printf x' --sess 'rm -rf /srv'",
        "runuser --com='rm -rf /srv' root",
        "runuser --us dev rm -- -rf /srv",
    ],
)
def test_the_command_inside_is_found(text: str) -> None:
    assert "rm -rf /srv" in argvs(text)


def test_only_the_last_command_counts() -> None:
    found = argvs("su -c 'rm -rf /srv' --command 'printf x' root")
    assert "printf x" in found
    assert "rm -rf /srv" not in found


@pytest.mark.parametrize("command", ["su --session-command='printf x' dev", "su - --comm=date dev", "runuser --us=dev date"])
def test_a_command_is_no_shell(command: str) -> None:
    assert detect_dangerous_command(command, "/home/dev/p") == []


@pytest.mark.parametrize("command", ["su", "su - dev", "runuser -l dev", "su -s /bin/zsh dev"])
def test_a_shell_is_asked_about(command: str) -> None:
    assert "shell.root" in {finding.key for finding in detect_dangerous_command(command, "/home/dev/p")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"a\_b", ["a", "b"]),
        (r'"a\_b"c d', ["a bc", "d"]),
        (r"'it\'s' \#", ["it's", "#"]),
        (r"a#b #c", ["a#b"]),
        (r"a\tb x\cy z", ["a\tb", "x"]),
        ("'' a", ["", "a"]),
        ("${HOME}x '${HOME}'", ["\ufffcx", "${HOME}"]),
    ],
)
def test_a_text_is_split_as_env_does(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_text_within_texts_comes_to_an_end() -> None:
    assert detect_dangerous_command("env " + "-S " * 200 + "date", "/home/dev/p")
