"""Verbs that delete, in clients of services and databases that no row describes."""

from __future__ import annotations

import pytest

from tools.judge.detect import detect_dangerous_command
from tools.judge.findings import UNKNOWN_PATH


def found(command: str) -> list[tuple[str, str]]:
    return [(one.key, one.level) for one in detect_dangerous_command(command, "/home/dev/project")]


@pytest.mark.parametrize(
    "command",
    [
        "acmectl delete web",
        "acmectl volumes delete data-1",
        "acmectl -v volumes delete data-1",
        "sudo acmectl cluster destroy prod",
        "acme-cli apps:destroy web",
        "acme-cli delete-instance i-1",
        "acme-cli batch-delete i-1 i-2",
        "acmecli queue purge jobs",
        "acmecli remove-all --force",
        "acme --project p instances terminate i-1",
        "acme --project=p instances terminate i-1",
        "acme instances rm i-1 --region eu-1",
        "acme --profile prod --region eu-1 buckets wipe b",
        "acme backups purge --all --namespace prod",
        "acme env destroy web --context prod",
        "acmedb drop users --yes",
        "acmedb tables drop users",
        'acmesql --host db.test2.org -e "DROP TABLE users"',
        'acme --database app --query "delete from users"',
        "xargs acmectl rm < ids.txt",
        "stackit server delete web",
        "acmectl volumes delete $(acmectl volumes list -q)",
    ],
)
def test_a_client_that_deletes_is_asked_about(command: str) -> None:
    assert {(key.partition("@")[0], level) for key, level in found(command)} >= {("remote.delete", "ask")}


@pytest.mark.parametrize(
    "command",
    [
        "acmectl volumes list",
        "acmectl get delete web",
        "acmectl describe volume drop",
        "acmectl help delete",
        "acmectl volumes delete --help",
        "acmectl volumes delete data-1 --dry-run",
        "acmectl apply web",
        "acme-cli apps:create web",
        "acme-cli logs web --region eu-1",
        "acme rm a.txt",
        "acme delete note-4",
        "acme --project p build",
        "acme --profile prod deploy web",
        "acme run --env prod -- rm a.txt",
        "acmedb dump users",
        'acmesql --host db.test2.org -e "SELECT dropped FROM users"',
        "npm rm left-pad",
        "docker rm web",
        "git rm a.txt",
        "brew rm jq",
        "ollama rm model",
        "./acmectl delete web",
        "echo acmectl delete web",
    ],
)
def test_what_deletes_nothing_remote_is_free(command: str) -> None:
    assert "remote.delete" not in {key.partition("@")[0] for key, _ in found(command)}


def test_a_grant_covers_the_very_command() -> None:
    assert found("acmectl --context a delete web") == [("remote.delete@acmectl --context a delete web", "ask")]


def test_no_grant_covers_unknown_words() -> None:
    (one,) = detect_dangerous_command("acmectl delete $NAME", "/home/dev/project")
    assert one.paths == (UNKNOWN_PATH,)
