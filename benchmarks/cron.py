"""Scheduled jobs of `toolcrib gateway run`: the delay of a thousand jobs that are due within one minute, or at once, and the cost
of ten thousand that are not due.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._cron_model import LateModel
from benchmarks._gateway_process import gateway_of, settings_for
from benchmarks.core import CannotMeasureError, Figure

_JOBS, _MINUTE, _FEW, _FEW_SECONDS = 1_000, 60.0, 20, 5.0
_QUICK_JOBS, _QUICK_MINUTE, _QUICK_FEW = 10, 1.0, 3
_IDLE, _IDLE_SECONDS = 10_000, 40.0
_QUICK_IDLE, _QUICK_IDLE_SECONDS = 50, 1.0
_START_SECONDS = 4.0
"""Seconds that a gateway may take until it listens, before the first job is due."""
_SETTLES_SECONDS = 5.0
_PATIENCE = 60.0
"""Seconds after the last due time within which all jobs must start."""


class _Late(NamedTuple):
    asked: float
    claimed: float


def measure(*, quick: bool) -> list[Figure]:
    """Measure cron.late, cron.burst, cron.claim_at_once and cron.idle."""
    jobs, minute, few = (_QUICK_JOBS, _QUICK_MINUTE, _QUICK_FEW) if quick else (_JOBS, _MINUTE, _FEW)
    many, seconds = (_QUICK_IDLE, _QUICK_IDLE_SECONDS) if quick else (_IDLE, _IDLE_SECONDS)
    alone = _late(few, 1.0 if quick else _FEW_SECONDS)
    spread, together = _late(jobs, minute), _late(jobs, 0.0)
    idle, none = _idle(many, seconds)
    few_jobs = f"{few} jobs a quarter of a second apart"
    asked = f"{few_jobs}, each until its model is asked, p99; measured: {jobs:,}"
    claimed = f"{few_jobs}, each from its due time until it is claimed, p99; measured: {jobs:,} due at one moment"
    cores = f"processor time of one core; a gateway without jobs; measured: one with {many:,} jobs that are not due"
    return [
        Figure("cron.late", spread.asked, "ms", alone.asked, 1_000, "value", f"{asked} due within {minute:g} s"),
        Figure("cron.burst", together.asked, "ms", alone.asked, math.inf, "value", f"{asked} due at one moment"),
        Figure("cron.claim_at_once", together.claimed, "ms", alone.claimed, 1_000, "value", claimed),
        Figure("cron.idle", idle * 100, "%", none * 100, 0.1, "value", cores),
    ]


def _late(jobs: int, seconds: float) -> _Late:
    """Return the delays of jobs that are due within ``seconds``."""
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as made, LateModel() as model:
        folder = Path(made)
        _jobs(folder, model.url, "due", jobs, seconds, _START_SECONDS)
        with gateway_of(folder, model.url, "console", _console(folder), {}) as process:
            ends = time.monotonic() + _START_SECONDS + jobs / 200 + seconds + _PATIENCE
            while len(model.late) < jobs:
                if time.monotonic() > ends or process.poll() is not None:
                    log = (folder / "gateway.log").read_text(errors="replace").strip()[-500:]
                    raise CannotMeasureError(f"{len(model.late)} of {jobs} jobs have started: {log}")
                time.sleep(0.2)
        claimed = json.loads(_jobs(folder, model.url, "claimed"))
        return _Late(_p99(model.late), _p99(claimed))


def _idle(jobs: int, seconds: float) -> tuple[float, float]:
    """Return the shares of a core that a gateway uses with ``jobs`` idle jobs, and with none. Both run at the same time."""
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(LateModel())
        counted = [stack.enter_context(_counted(number, model.url)) for number in (jobs, 0)]
        time.sleep(min(_SETTLES_SECONDS, seconds) + jobs / 2_000)
        begun, before = time.monotonic(), [_processor_time(pid) for pid in counted]
        time.sleep(seconds)
        took = time.monotonic() - begun
        idle, none = ((_processor_time(pid) - one) / took for pid, one in zip(counted, before, strict=True))
    return idle, none


@contextlib.contextmanager
def _counted(jobs: int, model: str) -> Iterator[int]:
    """Run a gateway with ``jobs`` jobs that are not due, and yield its process id."""
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as made:
        _jobs(Path(made), model, "idle", jobs)
        with gateway_of(Path(made), model, "console", _console(Path(made)), {}) as process:
            yield process.pid


def _console(folder: Path) -> dict[str, Any]:
    """Return the settings of an unused platform, because a gateway needs at least one."""
    return {"settings": {"socket": str(folder / "gateway.socket")}}


def _jobs(folder: Path, model: str, *given: object) -> str:
    """Run _cron_child.py to add or read the jobs of a gateway in a folder."""
    argv = [sys.executable, "-m", "benchmarks._cron_child", *(str(one) for one in given)]
    env = settings_for(folder, model, "console", _console(folder))
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise CannotMeasureError(f"the jobs could not be kept: {done.stderr.strip()[-500:]}")
    return done.stdout


def _processor_time(pid: int) -> float:
    """Return the seconds that all threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * 0.99))] * 1_000
