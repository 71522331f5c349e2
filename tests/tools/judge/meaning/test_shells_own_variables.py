"""Variables that the shell sets, and that a script may also set: ``$_``, OLDPWD, PWD."""

from __future__ import annotations

import pytest

from tools.judge.meaning import HOLE, Seen, ShellNow, interpret

NOW = ShellNow(cwd="/p", home="/home/dev", variables={"OLDPWD": "/before", "_": "stale"})


class Folders:
    """A snapshot of folders only."""

    def inspect_path(self, path: str) -> Seen:
        return Seen("dir")


def shown(text: str, now: ShellNow = NOW) -> list[str]:
    """Return each command with its folder, and the targets of its writes."""
    found: list[str] = []
    for act in interpret(text, now, Folders()).acts:
        words = [*(value.text for value in act.argv), *(target.op + target.path.text for target in act.redirects)]
        found.append(f"{'|'.join(act.cwds)}: {' '.join(words)}".replace(HOLE, "?"))
    return found


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("true a /etc; rm -r $_", "/p: rm -r /etc"),
        ("true rm; $_ -r /etc", "/p: rm -r /etc"),
        ("true rm; ${_} -r /etc", "/p: rm -r /etc"),
        ("true /etc && echo x >> $_", "/p: echo x >>/etc"),
        ("f() { true b; }; f rm; $_ -r /etc", "/p: rm -r /etc"),
        ("true rm; eval '$_ -r /etc'", "/p: rm -r /etc"),
        ("v=rm; true $v; : $_; : $_; $_ -r /etc", "/p: rm -r /etc"),
        ("[ -d /etc ]; rm $_", "/p: rm ]"),
        ("$_ -r /etc", "/p: ? -r /etc"),
        ("true *.txt; rm $_", "/p: rm ?.txt"),
        ("mkdir -p d && cd $_ && make", "/p/d: make"),
        ("cd -; rm x", "/before: rm x"),
        ("OLDPWD=/etc; cd -; rm x", "/etc: rm x"),
        ("OLDPWD=/etc cd -; rm x", "/etc: rm x"),
        ("OLDPWD=/etc; rm ~-/x", "/p: rm /etc/x"),
        ("cd /a; cd -; rm x", "/p: rm x"),
        ("cd /a; rm ~-/x", "/a: rm /p/x"),
        ("PWD=/etc; rm ~+/x", "/p: rm /etc/x"),
        ("PWD=/etc; rm $PWD/x", "/p: rm /etc/x"),
        ("rm ~+/x", "/p: rm /p/x"),
        ("PWD=/etc; cd /a; rm $PWD/x ~+/y", "/a: rm /a/x /a/y"),
    ],
)
def test_what_they_hold_is_followed(text: str, command: str) -> None:
    assert command in shown(text)


def test_one_that_an_earlier_call_set_counts() -> None:
    now = ShellNow(cwd="/p", home="/home/dev", variables={"PWD": "/etc", "OLDPWD": "/home/dev"})
    assert "/home/dev: rm x" in shown("cd -; rm x", now)
    assert "/p: rm /etc/x" in shown("rm $PWD/x", now)
