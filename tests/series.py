"""Long series of tests: the whole run tries a sample of each, and `scripts/soak` all of it.

A sample has at least one case of each test, but for tests that are left out by name. A test's name decides which, so that it is
the same in each run.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest


class Series(NamedTuple):
    """Tests whose files begin with one of ``paths``, relative to the root.

    A sample has one of ``every`` cases of each test, and nothing of the tests ``left`` out. ``kinds``: of each kind of cases too,
    whose names begin with the kind and a slash or colon.
    """

    name: str
    paths: tuple[str, ...]
    every: int = 1
    left: frozenset[str] = frozenset()
    kinds: bool = False


SERIES = (
    Series("environments", ("tests/tools/environments/conformance/",), 4),
    Series(
        "sequences",
        ("tests/tools/judge_sequences/test_sequences.py", "tests/tools/judge_sequences/test_elsewhere.py"),
        10,
        kinds=True,
    ),
    Series("stores", ("tests/agent/store/test_conformance_",), 2),
    Series(
        "kills",
        (
            *(
                "tests/e2e/test_killed_conversations.py",
                "tests/agent/conversation/test_crash.py",
                "tests/agent/delegates/test_killed.py",
            ),
            *(
                "tests/agent/gateway/test_killed_messages.py",
                "tests/plugins/matrix/test_kill.py",
                "tests/agent/cli/test_full_disk.py",
            ),
        ),
        3,
    ),
    Series(
        "benchmarks",
        ("tests/benchmarks/test_benchmarks.py",),
        left=frozenset(
            {
                "test_the_gateway_is_measured",
                "test_platforms_are_measured_beside_a_bare_bot",
                "test_jobs_are_measured_in_a_gateway",
                "test_what_a_cache_sees_is_measured",
                "test_the_screen_is_measured",
                "test_readers_are_measured",
                "test_many_sessions_are_measured",
                "test_the_store_is_measured_beside_another_process",
                "test_start_prints_one_object_a_figure",
                "test_the_loop_is_measured_with_a_store_and_a_server",
                "test_processes_and_terminals_are_measured_on_all_backends",
            }
        ),
    ),
    Series(
        "newcomer",
        ("tests/e2e/test_newcomer.py",),
        left=frozenset(
            {"test_every_step_works_from_a_fresh_clone", "test_every_step_works_from_a_fresh_clone_with_the_packages_here"}
        ),
    ),
    Series(
        "site",
        ("tests/agent/cli/commands/test_docs.py",),
        left=frozenset({"test_the_site_has_no_fault_and_its_search_knows_every_key"}),
    ),
    Series(
        "completion",
        ("tests/agent/cli/commands/test_completion.py",),
        left=frozenset({"test_words_and_names_are_completed_in_more_lines"}),
    ),
    Series("file-limits", ("tests/agent/cli/test_file_limits.py",), 3),
    Series("llama-checks", ("tests/scripts/test_soak_llama.py",), 4),
    Series(
        "mutate",
        ("tests/scripts/test_mutate.py",),
        left=frozenset(
            {"test_the_checkout_stays_as_it_is_and_a_report_can_be_tried_again", "test_a_seed_draws_the_same_mutants"}
        ),
    ),
)


def sample(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items of a whole run, and the items that only `scripts/soak` runs."""
    folder = f"{Path(__file__).parents[1]}/"
    series = {f"{folder}{path}": one for one in SERIES for path in one.paths}
    starts = tuple(series)
    cases: dict[tuple[Series, pytest.Item | pytest.Collector | None, str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        path = str(item.path)
        if path.startswith(starts):
            one = next(one for start, one in series.items() if path.startswith(start))
            kind = re.split("[/:]", item.name.partition("[")[2])[0] if one.kinds else ""
            cases[one, item.parent, getattr(item, "originalname", item.name), kind].append(item)
    left = set[pytest.Item]()
    for (one, _, name, _), all_cases in cases.items():
        step = min(len(all_cases), one.every)
        first = zlib.crc32(name.encode()) % step
        left |= {item for number, item in enumerate(all_cases) if name in one.left or number % step != first}
    return [item for item in items if item not in left], [item for item in items if item in left]
