"""The report over the tldr pages, on a corpus of a few lines. No line is executed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import judge_tldr

LINES = (
    "common/rm\trm -rf path/to/folder",
    "common/ls\tls -l",
    "linux/reboot\treboot",
    "common/open\techo 'never closed",
    "common/mv\tmv a b",
)


@pytest.fixture
def labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "approval").mkdir()
    (tmp_path / "approval" / "tldr.tsv").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    monkeypatch.setenv("TOOLCRIB_CORPORA", str(tmp_path))
    path = tmp_path / "labels.json"
    monkeypatch.setattr(judge_tldr, "LABELS", path)
    return path


def test_every_flagged_page_is_listed_by_rule(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge_tldr.main([]) == 0
    shown = capsys.readouterr().out
    assert "flagged: 3 of 5 lines" in shown
    assert "power.off: 1: reboot" in shown
    assert "fs.recursive-delete: 1: rm" in shown
    assert "not parsed: 1 lines; bash -n reads 0 of them" in shown


def test_a_draw_is_the_same_for_the_same_seed(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    for _ in range(2):
        assert judge_tldr.main(["--sample", "2", "--seed", "3"]) == 0
        drawn.append(capsys.readouterr().out.splitlines())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 2
    number, page, command, keys = drawn[0][0].split("\t")
    assert LINES[int(number) - 1] == f"{page}\t{command}"
    assert keys


def test_precision_counts_grey_apart_and_drops_what_is_not_flagged(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels.write_text(json.dumps({"seed": 1, "labels": {"1": "dangerous", "2": "benign", "3": "grey", "4": "benign"}}), "utf-8")
    assert judge_tldr.main(["--precision"]) == 1
    shown = capsys.readouterr().out
    assert "precision: 50.0 % (1 dangerous, 1 benign; 1 grey apart); 4 lines labelled, 1 of them no longer flagged" in shown


def test_a_missing_corpus_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TOOLCRIB_CORPORA", str(tmp_path))
    assert judge_tldr.main([]) == 2
    assert "TOOLCRIB_CORPORA" in capsys.readouterr().err
