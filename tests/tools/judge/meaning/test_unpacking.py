"""Archives that are unpacked: the target folder, in every form of the options."""

from __future__ import annotations

import pytest

from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting


def keys(command: str) -> set[str]:
    return {one.key for one in examine(command, "/home/dev/p", None, NoFiles(), Setting(home="/home/dev")).findings}


@pytest.mark.parametrize(
    "command",
    [
        "tar xf t.tar -C ~",
        "tar -xvC/home/dev -ft.tar",
        "tar xfC t.tar /home/dev",
        "tar --extr --dir=/home/dev -f t.tar",
        "tar --get --direc /home/dev -f t.tar",
        "cd ~; tar -zxf t.tar",
        "tar -xPf t.tar",
        "tar xf t.tar --absolute-n",
    ],
)
def test_into_a_home_asks(command: str) -> None:
    assert "persist.unsure" in keys(command)


@pytest.mark.parametrize(
    "command",
    [
        "tar tf t.tar -C ~",
        "tar xf t.tar -O",
        "tar xf t.tar --to-std -C ~",
        "tar xf t.tar",
        "tar cf t.tar -C ~/src .",
        "tar xf t.tar -C d",
    ],
)
def test_elsewhere_is_free(command: str) -> None:
    assert "persist.unsure" not in keys(command)
