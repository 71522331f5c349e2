"""Commands of git, databases, containers, clusters, clouds and package managers that are not in the table's examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.judge.assess import assess
from tools.judge.findings import Finding
from tools.judge.meaning import interpret
from tools.judge.meaning.state import NoFiles, ShellNow

HERE = Path(__file__).parent
NOW = ShellNow(cwd="/home/dev/project", home="/home/dev", user="dev")


def found(command: str) -> list[Finding]:
    return assess(interpret(command, NOW, NoFiles()), home="/home/dev")


def keys(command: str) -> set[str]:
    return {finding.key for finding in found(command)}


def lines(name: str) -> list[str]:
    return (HERE / name).read_text("utf-8").splitlines()


def test_commands_that_destroy_are_found() -> None:
    """003-23, 003-24: the commands are only strings, and are never run."""
    missed = [command for command in lines("developer_dangerous.txt") if not found(command)]
    assert not missed


def test_ordinary_work_runs_unasked() -> None:
    """003-24"""
    flagged = [(command, keys(command)) for command in lines("developer_benign.txt") if found(command)]
    assert not flagged


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("git -C x push -f origin HEAD:refs/heads/main", "git.push-force@origin/main"),
        ("git push origin +main", "git.push-force@origin/main"),
        ("git push -f", "git.push-force"),
        ("git push -o ci.skip origin :old", "git.push-delete@origin/old"),
        ("git branch -D topic", "git.branch-delete@topic"),
        ("kubectl -n prod delete deployment web", "k8s.delete@deployment/web"),
        ("kubectl delete --grace-period 0 deployment/web", "k8s.delete@deployment/web"),
        ("kubectl delete -f k8s/", "k8s.delete@file/k8s/"),
        ("docker volume rm pgdata", "container.remove-volumes@pgdata"),
        ("docker compose down -v", "container.remove-volumes"),
        ("docker run -v /etc:/x alpine", "container.host@/etc:/x"),
        ("psql -c 'drop table if exists users'", "sql.drop@users"),
        ("helm -n prod uninstall web", "k8s.uninstall@web"),
        ("aws --region eu-west-1 ec2 terminate-instances --instance-ids i", "cloud.aws@ec2/terminate-instances"),
    ],
)
def test_a_grant_covers_no_more_than_the_thing_named(command: str, key: str) -> None:
    """003-26"""
    assert key in keys(command)


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("-v /:/x", True),
        ("-itv /:/x", True),
        ("-v/:/x", True),
        ("--volume=/home/dev/../../:/x", True),
        ("-v ../../..:/x", True),
        ("-v .:/x", False),
        ("-v data:/x", False),
        ("-v /home/dev:/x", True),
        ("-v ~/.ssh:/x:ro", True),
        ("-v /home/dev/project/src:/x", False),
        ("-v /etc/passwd:/etc/passwd:ro", False),
        ("-v /etc/passwd:/etc/passwd", True),
        ("-v /run/user/1000/podman/podman.sock:/s", True),
        ("--mount type=bind,source=/,target=/x,readonly", True),
        ("--mount type=tmpfs,target=/x", False),
        ("--privileged=false", False),
        ("--privileged=true", True),
        ("--cap-add=NET_ADMIN", False),
        ("--cap-add CAP_SYS_ADMIN", True),
        ("--name x --pid=host", True),
        ("--pid=container:web", False),
        ("--device /dev/dri", False),
        ("--device /dev/sda", True),
        ("-e A=--privileged", False),
    ],
)
def test_what_a_container_is_given_of_the_host(options: str, given: bool) -> None:
    for program in ("docker run", "docker --context x container run", "podman create", "docker compose run"):
        levels = {finding.level for finding in found(f"{program} {options} image sh -c --privileged")}
        assert levels == ({"ask-once"} if given else set()), program


def test_a_computed_list_is_more_than_one_thing() -> None:
    assert keys("docker rm -f $(docker ps -aq)") == keys("docker ps -aq | xargs docker rm -f") == {"container.remove"}
    assert keys("docker rm -f web") == keys('docker rm -f "$CONTAINER"') == set()
