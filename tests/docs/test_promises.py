"""docs/security.md and the pages that explain it: each promise and each limit has its tests, and each named test exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.docs.snippets import ROOT

PROMISES = "security.md"
LIMITS = "explanation/limits.md"
WITHOUT_TEST = {"advice", "limit"}
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z`]|toolcrib)")


class Promise(NamedTuple):
    """A row of a table of promises."""

    sentences: Sequence[str]
    tests: Sequence[str]


def promises() -> Iterator[Promise]:
    """Yield the rows of all tables of promises."""
    for line in text_of(PROMISES).split("\n## Promises\n")[1].splitlines():
        if line.startswith("| ") and line != "| promise | test |":
            promise, tests = line.strip("| ").split(" | ")
            yield Promise(_SENTENCE.split(promise), re.findall(r"`tests/([^`]+)`", tests))


def limits() -> Iterator[str]:
    """Yield the sentences of the lists of limits."""
    for section in text_of(LIMITS).split("\n## ")[1:]:
        for item in f"\n{section.strip()}".split("\n- ")[1:]:
            yield from _SENTENCE.split(" ".join(item.split()))


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


@cache
def entries() -> Mapping[str, Sequence[tuple[str, Sequence[str] | str]]]:
    """Return what `promises.yaml` lists by page: the beginning of each sentence, and its tests or why it has none."""
    pages = yaml.safe_load((ROOT / "tests" / "tools" / "approval" / "promises.yaml").read_text("utf-8"))
    return {page: [pair for entry in listed for pair in entry.items()] for page, listed in pages.items()}


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("page", [PROMISES, LIMITS])
def test_each_sentence_is_listed_with_its_tests(page: str) -> None:
    """A sentence that is new or begins differently fails until its tests are listed."""
    written = limits() if page == LIMITS else (sentence for promise in promises() for sentence in promise.sentences)
    for sentence, (begins, proof) in zip_longest(written, entries()[page], fillvalue=("", ())):
        assert begins, f"no entry for {sentence!r}"
        assert isinstance(sentence, str), f"no sentence begins with {begins!r}"
        assert sentence.startswith(begins), f"{sentence!r} is not the one that begins with {begins!r}"
        if page == LIMITS and isinstance(proof, str):
            assert proof in WITHOUT_TEST, f"{begins!r}: {proof!r} is not one of {sorted(WITHOUT_TEST)}"
            continue
        assert isinstance(proof, list), f"{begins!r} has no test"
        assert proof, f"{begins!r} has no test"


def test_each_row_names_a_test_of_its_promise() -> None:
    listed = dict(entries()[PROMISES])
    for promise in promises():
        assert promise.tests, f"{promise.sentences} names no test"
        for sentence in promise.sentences:
            (proof,) = (tests for begins, tests in listed.items() if sentence.startswith(begins))
            assert set(promise.tests) <= set(proof), f"{sentence!r}: promises.yaml does not list {promise.tests}"


@pytest.mark.parametrize("page", sorted(set(entries()) - {PROMISES, LIMITS}))
def test_each_detail_that_is_listed_is_on_its_page(page: str) -> None:
    text = " ".join(text_of(page).split())
    for begins, proof in entries()[page]:
        assert begins in text, f"{page} does not say {begins!r}"
        assert isinstance(proof, list), f"{begins!r} has no test"
        assert proof, f"{begins!r} has no test"


def test_every_test_that_is_named_exists() -> None:
    known = (ROOT / "tests" / "tools" / "judge_sequences" / "known.txt").read_text("utf-8").splitlines()
    for page, listed in entries().items():
        for begins, proof in listed:
            for name in proof if isinstance(proof, list) else ():
                if name.startswith("known "):
                    assert page == LIMITS
                    assert name.removeprefix("known ") in known, f"{name} is caught: {LIMITS} can drop {begins!r}"
                    continue
                file, _, test = name.partition("::")
                assert test in names_in(ROOT / "tests" / file), f"{begins!r}: {name} does not exist"
