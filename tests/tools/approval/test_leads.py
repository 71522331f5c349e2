"""Grants and links: a grant covers a path with the target that it had when the answer was given, and no other target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.contract.store import Grant
from tools.approval.deadlines import Deadlines
from tools.approval.explain import Judge
from tools.approval.grants import MemoryGrants, covers, from_allowlist, new_grant, to_allowlist
from tools.environments.local import LocalEnvironment
from tools.judge.setting import Setting

Floors = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project, photos beside it, and a link of the project to them."""
    for name in ("work/build/sub", "work/packages/one/dist", "photos/sub", "photos/dist"):
        (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home/work/pictures").symlink_to(tmp_path / "home/photos")
    return (tmp_path / "home").resolve()


@pytest.fixture
def floor(floors: Floors, home: Path) -> Any:
    return at(floors, home, home / "work")


def at(floors: Floors, home: Path, folder: Path, **options: Any) -> Any:
    setting = Setting(home=str(home))
    return floors(LocalEnvironment(str(folder)), setting=setting, project_root=str(folder), **options)


def relink(path: Path, target: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        path.rename(path.with_name(f"{path.name}.old"))
    path.symlink_to(target)


def test_a_permanent_grant_ends_where_a_folder_became_a_link(floor: Any, home: Path) -> None:
    """003-27"""
    floor.grant("rm -rf build/sub", "always")
    assert floor.do("rm -rf build/sub", session="s2") == "ran"
    relink(home / "work/build", home / "photos")
    assert floor.asks("rm -rf build/sub")
    assert (home / "photos/sub").is_dir()


def test_a_permanent_grant_holds_for_the_place_that_the_link_had(floor: Any, home: Path) -> None:
    """003-27: the path as written and its target are stored, and compared at each use"""
    floor.grant("rm -rf pictures/none", "always")
    (grant,) = asyncio.run(floor.store.grants.all())
    assert grant.links == ((f"{home}/work/pictures/none", f"{home}/photos/none"),)
    assert floor.do("rm -rf pictures/none") == "ran"
    assert from_allowlist(to_allowlist(grant)).links == grant.links
    relink(home / "work/pictures", home)
    assert floor.asks("rm -rf pictures/none")


@pytest.mark.parametrize("argv", [("rm", "-rf", "pictures/none"), ("git", "-C", "pictures", "clean", "-fd")])
def test_an_old_permanent_grant_goes_on_only_where_its_paths_lead_to_themselves(
    floors: Floors, home: Path, argv: tuple[str, ...]
) -> None:
    old = [Grant("a", "always", "command", f"{home}/work", argv=argv)]
    old.append(Grant("b", "always", "command", f"{home}/work", argv=("rm", "-rf", "build/none")))
    floor = at(floors, home, home / "work", grants=MemoryGrants(old))
    assert floor.asks(" ".join(argv))
    assert floor.do("rm -rf build/none") == "ran"


def test_a_session_grant_never_leaves_the_project_through_links(floor: Any, home: Path) -> None:
    """003-26"""
    floor.grant("rm -rf build/x")
    floor.grant("git clean -nq; git clean -fd")
    assert floor.do("rm -rf build/y packages/*/dist") == "ran"
    for command in (
        "rm -rf pictures/x",
        "rm -rf */dist",
        "rm -rf packages/../pic*/dist/x",
        "rm -rf p*/",
        "mv pictures q; rm -rf q/sub",
        "cp -a pictures q; rm -rf q/sub",
        "ln -s ../photos r; rm -rf r/sub",
        "git -C pictures clean -fd",
        "git --git-dir=pictures/.git clean -fd",
    ):
        assert floor.asks(command), command


def test_find_that_follows_links_is_covered_by_nothing(floor: Any) -> None:
    floor.grant("find build -name x -delete")
    assert floor.do("find packages -name x -delete") == "ran"
    assert floor.asks("find -L packages -name x -delete")
    assert floor.asks("find packages -follow -name x -delete")


def test_a_path_grant_covers_what_lies_where_its_path_led(floor: Any, home: Path) -> None:
    (home / "work/out").symlink_to("build")
    floor.grant("rm -rf out/sub", "path")
    assert floor.do("rm -rf out/sub/x") == "ran"
    relink(home / "work/out", home / "work/packages")
    assert floor.asks("rm -rf out/sub/x")


def test_where_a_link_leads_is_said(floor: Any, home: Path) -> None:
    (home / "work/out").symlink_to("build")
    assert floor.asks("rm -rf out/sub")
    covers = floor.last.result.suspension.parameters["covers"]
    assert f"{home}/work/out/sub (which leads to {home}/work/build/sub) only" in covers["path"]


def test_what_leads_out_of_the_project_is_offered_for_this_call_or_for_good(floor: Any) -> None:
    assert floor.asks("rm -rf pictures/sub")
    assert floor.last.result.suspension.parameters["scopes"] == ["once", "always"]


def test_a_project_behind_a_link_has_grants_as_any_other(floors: Floors, home: Path) -> None:
    (home / "short").symlink_to(home / "work")
    floor = at(floors, home, home / "work")
    floor.gate.policy = floor.gate.policy.__class__(floor.store.grants, Setting(home=str(home)), f"{home}/short")
    command = f"rm -rf {home}/short/build/x"
    floor.grant(command)
    assert floor.do(f"rm -rf {home}/short/build/y") == "ran"
    relink(home / "short", home)
    assert floor.asks(f"rm -rf {home}/short/build/y")


def test_a_path_that_cannot_be_followed_is_covered_by_nothing(floor: Any, home: Path) -> None:
    floor.grant("rm -rf build/x")
    (home / "work/loop").symlink_to("loop")
    assert floor.asks("rm -rf loop/x")
    assert "session" not in floor.last.result.suspension.parameters["scopes"]


def test_many_words_are_not_followed_and_not_covered(floor: Any) -> None:
    floor.grant("rm -rf build/x")
    assert floor.asks("rm -rf " + " ".join(f"build/{number}" for number in range(100)))


# -- ends of grants ------------------------------------------------------------------------------------------------


class Clocks:
    """A wall clock that can be set, and a monotonic clock."""

    def __init__(self) -> None:
        self.wall, self.ticks = 1_800_000_000.0, 50.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds

    def deadlines(self) -> Deadlines:
        return Deadlines(lambda: self.wall, lambda: self.ticks)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr("time.time", lambda: clocks.wall)
    return clocks


def begun(floors: Floors, home: Path, clocks: Clocks) -> Any:
    floor = at(floors, home, home / "work", deadlines=clocks.deadlines())
    floor.grant("rm -rf build/x", "until", minutes=10)
    assert floor.do("rm -rf build/y") == "ran"
    return floor


def test_a_clock_that_is_set_back_gives_a_grant_no_more_time(floors: Floors, home: Path, clocks: Clocks) -> None:
    floor = begun(floors, home, clocks)
    clocks.pass_by(550)
    assert floor.do("rm -rf build/y") == "ran"
    clocks.wall -= 500
    clocks.pass_by(60)
    assert floor.asks("rm -rf build/y")


def test_a_machine_that_slept_gives_no_more_time_either(floors: Floors, home: Path, clocks: Clocks) -> None:
    floor = begun(floors, home, clocks)
    clocks.wall += 601
    assert floor.asks("rm -rf build/y")


def test_a_grant_that_was_seen_to_be_over_is_over_in_every_process(floors: Floors, home: Path, clocks: Clocks) -> None:
    floor = begun(floors, home, clocks)
    clocks.pass_by(601)
    assert floor.asks("rm -rf build/y")
    clocks.wall -= 601
    later = at(floors, home, home / "work", deadlines=Clocks().deadlines())
    assert later.asks("rm -rf build/y")
    assert asyncio.run(later.store.grants.all()) == []


def test_a_clock_before_the_answer_counts_as_set_back(floors: Floors, home: Path, clocks: Clocks) -> None:
    begun(floors, home, clocks)
    clocks.wall -= 86_400
    later = at(floors, home, home / "work", deadlines=clocks.deadlines())
    assert later.asks("rm -rf build/y")


def test_explaining_follows_the_same_links(home: Path) -> None:
    grant = new_grant("always", "", f"{home}/work", argv=("rm", "-rf", "build/sub"))
    judge = Judge(Setting(home=str(home)))
    (finding,) = judge.examine("rm -rf build/sub", f"{home}/work").findings
    assert covers(grant, finding, session_id="", cwd=f"{home}/work")
    relink(home / "work/build", home / "photos")
    (finding,) = judge.examine("rm -rf build/sub", f"{home}/work").findings
    assert not covers(grant, finding, session_id="", cwd=f"{home}/work")
