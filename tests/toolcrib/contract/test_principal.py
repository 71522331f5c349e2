"""The principal that a call acts for, and the local person."""

from __future__ import annotations

import pytest

from toolcrib import Principal


@pytest.mark.parametrize("platform", ["cli", "api", "cron", "acp"])
def test_the_local_person_has_no_name_and_is_one_everywhere_here(platform: str) -> None:
    assert Principal(platform).is_local
    assert Principal(platform).key == ""


@pytest.mark.parametrize(
    "principal", [Principal("telegram"), Principal("telegram", "ann"), Principal("api", "ann"), Principal("")]
)
def test_nobody_else_is_the_local_person(principal: Principal) -> None:
    """A user whose platform gives no id is not the local person either."""
    assert not principal.is_local
    assert principal.key == f"{principal.platform}:{principal.user}"


def test_a_principal_survives_being_stored() -> None:
    principal = Principal("matrix", "@ann:example.org", ("admin",))
    assert Principal.from_json(principal.to_json()) == principal
    assert Principal.from_json({}).is_local
    with pytest.raises(TypeError, match="a principal is"):
        Principal.from_json({"user": 3})
