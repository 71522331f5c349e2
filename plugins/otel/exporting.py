"""Providers of traces and metrics that export over OTLP, and never delay the traced code or make it fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

_log = logging.getLogger(__name__)
CLOSE_SECONDS = 3.0
"""Seconds to wait for pending exports at the end of the process."""
_EXPORT_SECONDS = 5.0
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)


class Told:
    """Logs once that exports fail, and once that they work again. The libraries' own log lines are suppressed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_told = False
        """True if the last log line reported a failure."""
        self.is_over = False
        """True after ``Exporting.close``: an abandoned export that finishes later is not logged."""
        for name in ("opentelemetry.exporter", "opentelemetry.sdk"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    def record_export(self, is_exported: bool) -> None:
        """Record the result of an export."""
        with self._lock:
            if self.is_over:
                return
            is_news, self.is_told = self.is_told == is_exported, not is_exported
        if is_news and not is_exported:
            _log.warning("OpenTelemetry: exporting fails; spans may be lost until it works, and no call waits for it")
        elif is_news:
            _log.warning("OpenTelemetry: exporting works again")


class _Spans(SpanExporter):
    def __init__(self, inner: SpanExporter, told: Told) -> None:
        self._inner = inner
        self._told = told

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception:  # noqa: BLE001 - a library's code, in its own thread
            result = SpanExportResult.FAILURE
        self._told.record_export(result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class _Metrics(MetricExporter):
    def __init__(self, inner: OTLPMetricExporter, told: Told) -> None:
        super().__init__(inner._preferred_temporality, inner._preferred_aggregation)
        self._inner = inner
        self._told = told

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        try:
            result = self._inner.export(metrics_data, timeout_millis, **kwargs)
        except Exception:  # noqa: BLE001 - as above
            result = MetricExportResult.FAILURE
        self._told.record_export(result is MetricExportResult.SUCCESS)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._inner.shutdown(timeout_millis, **kwargs)


class Exporting:
    """The providers of traces and of metrics. If ``endpoint`` is "", OpenTelemetry's variables apply, such as
    OTEL_EXPORTER_OTLP_ENDPOINT.
    """

    def __init__(self, endpoint: str) -> None:
        told = self.told = Told()
        resource = Resource.create({"service.name": "toolcrib"} if not _named() else {})
        spans = OTLPSpanExporter(endpoint=_at(endpoint, "/v1/traces"), timeout=_EXPORT_SECONDS)
        self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.tracers.add_span_processor(BatchSpanProcessor(_Spans(spans, told), export_timeout_millis=_EXPORT_SECONDS * 1_000))
        metrics = _Metrics(OTLPMetricExporter(endpoint=_at(endpoint, "/v1/metrics"), timeout=_EXPORT_SECONDS), told)
        reader = PeriodicExportingMetricReader(metrics, export_timeout_millis=_EXPORT_SECONDS * 1_000)
        views = [_buckets("gen_ai.client.token.usage", _TOKENS), _buckets("gen_ai.client.operation.duration", _SECONDS)]
        self.meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False, views=views)

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Export pending data. Return False if that takes longer than ``seconds``; the rest is then abandoned."""
        threads = [threading.Thread(target=one.shutdown, daemon=True) for one in (self.tracers, self.meters)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds / len(threads))
        self.told.is_over = True
        return not any(thread.is_alive() for thread in threads)


def _at(endpoint: str, path: str) -> str | None:
    return f"{endpoint.rstrip('/')}{path}" if endpoint else None


def _buckets(name: str, boundaries: Sequence[float]) -> View:
    return View(instrument_name=name, aggregation=ExplicitBucketHistogramAggregation(boundaries))


def _named() -> bool:
    import os

    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
