"""A receiver of OTLP over HTTP, which decodes requests with OpenTelemetry's own protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Receiver:
    """The receiver. ``spans`` are dictionaries with name, ids, kind, status and attributes; ``points`` those of metrics,
    by name.
    """

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.points: dict[str, list[dict[str, Any]]] = {}
        self.resource: dict[str, Any] = {}
        self.raw = b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                data = gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
                outer.take(self.path, data)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def take(self, path: str, data: bytes) -> None:
        """Decode a request."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.raw += data
        if path == "/v1/traces":
            for of in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.resource = _plain(of.resource.attributes)
                for one in (span for scope in of.scope_spans for span in scope.spans):
                    found = {"name": one.name, "id": one.span_id, "parent": one.parent_span_id, "trace": one.trace_id}
                    found |= {"kind": one.kind, "status": one.status.code, "attributes": _plain(one.attributes)}
                    self.spans.append({**found, "begun": one.start_time_unix_nano, "ended": one.end_time_unix_nano})
        elif path == "/v1/metrics":
            for of in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                for metric in (one for scope in of.scope_metrics for one in scope.metrics):
                    points = [
                        {"sum": one.sum, "count": one.count, **_plain(one.attributes)} for one in metric.histogram.data_points
                    ]
                    self.points[metric.name] = points

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the spans of a name, by their start."""
        return sorted((one for one in self.spans if one["name"] == name), key=lambda one: one["begun"])

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _plain(attributes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
