"""The gateway's figures for Prometheus. Labels are platform names and kinds, never a chat, a user or a text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from agent.gateway.figures import BOUNDS, Waits
from agent.gateway.platform_runner import ChatLine

__all__ = ["CONTENT_TYPE_LATEST", "LineCollector", "exposition"]
_BEGIN = "toolcrib_gateway"


class LineCollector(Collector):
    """Collects the current figures of the gateway's platforms, even of platforms that do not run."""

    def __init__(self, lines: Callable[[], Sequence[ChatLine]]) -> None:
        self._lines = lines

    def collect(self) -> Iterable[Metric]:
        """Yield every figure."""
        lines = list(self._lines())
        yield from self._gauges(lines)
        yield from self._counters(lines)
        first, whole = "Time from a message to the first text of its answer", "Time from a message to the end of its answer"
        yield _waits("first_text_seconds", first, [(line.name, line.figures.first_text) for line in lines])
        yield _waits("answer_seconds", whole, [(line.name, line.figures.answers) for line in lines])

    def _gauges(self, lines: Sequence[ChatLine]) -> Iterator[Metric]:
        told: dict[str, tuple[str, Callable[[ChatLine], float]]] = {
            "up": ("Whether the platform runs", lambda line: line.state == "running"),
            "runs_now": ("Runs in progress", lambda line: line.status().runs),
            "open_chats": ("Chats whose session is open", lambda line: line.status().open_sessions),
            "mailboxes_with_mail": ("Chats with messages that wait to be handled", lambda line: line.status().mailboxes),
            "posts_waiting": ("Messages that wait to be shown", lambda line: line.status().posts),
            "background_processes": ("Running background processes of open chats", lambda line: line.status().processes),
            "parked_questions": ("Questions that wait for an answer", lambda line: line.status().questions),
        }
        for name, (words, value) in told.items():
            family = GaugeMetricFamily(f"{_BEGIN}_{name}", words, labels=["platform"])
            for line in lines:
                family.add_metric([line.name], float(value(line)))
            yield family

    def _counters(self, lines: Sequence[ChatLine]) -> Iterator[Metric]:
        told = {
            "messages": ("Messages received", ("kept", "known", "refused")),
            "posts": ("Messages sent, by outcome", ("sent", "given_up")),
        }
        for name, (words, kinds) in told.items():
            family = CounterMetricFamily(f"{_BEGIN}_{name}", words, labels=["platform", "state"])
            for line in lines:
                counts = line.status().counts
                for kind in kinds:
                    family.add_metric([line.name, "failed" if kind == "given_up" else kind], counts.get(kind, 0))
            yield family
        runs = CounterMetricFamily(f"{_BEGIN}_runs", "Runs, by state", labels=["platform", "state"])
        for line in lines:
            for kind in ("begun", "ended", "failed"):
                runs.add_metric([line.name, kind], line.figures.runs[kind])
        yield runs


def _waits(name: str, words: str, waits: Sequence[tuple[str, Waits]]) -> Metric:
    family = HistogramMetricFamily(f"{_BEGIN}_{name}", words, labels=["platform"])
    for platform, found in waits:
        below = list(itertools.accumulate(found.counts))
        bounds = [*map(str, BOUNDS), "+Inf"]
        family.add_metric([platform], list(zip(bounds, map(float, below), strict=True)), found.total)
    return family


def exposition(collector: LineCollector) -> bytes:
    """Return the figures in Prometheus's format, without those of other collectors."""
    registry = CollectorRegistry()
    registry.register(collector)
    return bytes(generate_latest(registry))
