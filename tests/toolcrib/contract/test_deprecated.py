"""Renamed methods also work under their old names, and warn."""

from __future__ import annotations

import inspect
import warnings

import pytest

from toolcrib.contract.deprecated import old_name


class Base:
    def fetch(self, name: str, *, again: bool = False) -> str:
        """Return the requested value."""
        return f"{name} {again}"

    get = old_name(fetch, "get")


class Derived(Base):
    def fetch(self, name: str, *, again: bool = False) -> str:
        return f"derived {name} {again}"


def test_an_old_name_calls_the_method_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"^Base\.get is an old name: call fetch$") as caught:
        assert Base().get("a", again=True) == "a True"
    assert caught[0].filename == __file__  # the caller's line, so that Python shows the warning once for each


def test_an_old_name_calls_what_a_subclass_has_in_its_place() -> None:
    with pytest.warns(DeprecationWarning, match="^Derived"):
        assert Derived().get("a") == "derived a False"


def test_an_old_name_has_the_signature_of_the_new_one() -> None:
    assert inspect.signature(Base.get) == inspect.signature(Base.fetch)


def test_the_new_name_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Base().fetch("a") == "a False"
