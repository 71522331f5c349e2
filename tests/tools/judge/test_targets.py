"""Writes to files that only a list, a folder or a pattern names."""

from __future__ import annotations

import pytest

from tools.judge.detect import examine
from tools.judge.meaning.state import Seen
from tools.judge.own_code import Installed
from tools.judge.setting import Setting

FILES = {"/home/dev/project/list": "README.md\n/home/dev/.bashrc\n", "/home/dev/project/.git/HEAD": "ref: refs/heads/main\n"}
FOLDERS = ("/home/dev", "/home/dev/project", "/home/dev/project/.git")


class Files:
    def inspect_path(self, path: str) -> Seen:
        if path in FILES:
            return Seen("file", FILES[path])
        return Seen("dir" if path in FOLDERS else "missing")


def _keys(command: str) -> set[str]:
    closed = ("/opt/venv/lib/python3.12/site-packages", "/home/dev/project/.venv/lib/python3.12/site-packages")
    setting = Setting(protected=["/home/dev/.config/toolcrib"], home="/home/dev", installed=Installed(closed))
    examined = examine(command, "/home/dev/project", None, Files(), setting)
    return {finding.key for finding in examined.findings}


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("find ~ -name .bashrc | while read f; do echo x >> $f; done", "persist.start-file"),
        ("find ~ -name a.txt -o -type f | xargs sed -i s/a/b/", "persist.start-file"),
        ("find ~ ! \\( -name x \\) | xargs sed -i s/a/b/", "persist.start-file"),
        ("find ~ -newer -name -type f | xargs sed -i s/a/b/", "persist.start-file"),
        ("f=$(ls -d ~/.bash*); sort -o $f list", "persist.start-file"),
        ("cp note ~/.bashr?", "persist.start-file"),
        ("while read f; do cat; echo x >> $f; done < list", "persist.start-file"),
        ("awk '{ print 1 >> $1 }' list", "persist.start-file"),
        ("find /opt/venv -name '*.py' -exec sed -i s/a/b/ {} +", "self.installed"),
        ("find ~/.config -type f | while read f; do echo x >> $f; done", "self.above"),
        ("find /etc -name '*.conf' | xargs sed -i s/a/b/", "system.file"),
        ("cp note \"$(python3 -c 'print(input())')\"", "persist.start-file"),
        ('echo x >> "$(tools/place)"', "system.file"),
        ('echo x >> "$(tools/places | head -1)"', "persist.start-file"),
        ("for f in $(tools/places); do cp note $f; done", "persist.start-file"),
        ("to=$(ruby -e 'puts place'); tee $to < note", "persist.start-file"),
        ("git bundle create ~/.bashrc HEAD", "persist.start-file"),
        ("docker cp web:/x/. ~", "persist.unsure"),
        ("docker cp web:/x.sh . && sh x.sh", "opaque.changed"),
        ("f=$(locate a.conf); echo x >> $f", "system.file"),
    ],
)
def test_a_file_that_may_be_one_of_danger_is_asked_about(command: str, key: str) -> None:
    assert key in _keys(command)


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.py' -exec sed -i s/a/b/ {} +",  # the project contains an environment
        "find ~ -name '*.csv' | xargs sed -i s/a/b/",
        "find ~/notes -type f | xargs sed -i s/a/b/",
        "n=$(python3 -c 'print(input())'); echo x > out-$n.txt",
        "cp note build/$(tools/version)",
        'cp "$(tools/place)" copy.txt',
        'echo x > "$(date +%F).log"',
        "git bundle create all.bundle --all",
        "docker cp web:/app/dist .",
        "docker cp web:/x.tar ~",
        "git ls-files | xargs sed -i s/a/b/",
        "grep -rl foo src | while read f; do sed -i s/a/b/ $f; done",
        "for f in ~/Downloads/*.pdf; do cp $f out/; done",
        "awk '{ print > ($1 \".txt\") }' data.csv",
        "seq 90 | while read i; do echo $i > out.$i; done",
    ],
)
def test_ordinary_lists_are_free(command: str) -> None:
    assert _keys(command) == set()
