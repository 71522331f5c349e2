"""Metrics of a gateway: what is counted, and that they hold nothing about users."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import httpx
import pytest

from agent import http_server as _web
from agent.gateway import platform_runner as lines
from agent.gateway.figures import BOUNDS, LineFigures, Waits
from agent.gateway.platform_runner import AccountTaken
from agent.gateway.watching import Watch
from tests.agent.gateway.conftest import OWNED, House, line_of
from tests.infra.served import NO_TLS, free_port
from toolcrib import ConfigError, StoreFailed
from toolcrib.chat import Chat

GROUP = Chat("secretroom", is_group=True)


def test_waits_are_counted_in_buckets_and_the_last_ones_told() -> None:
    waits = Waits()
    assert waits.to_json() == {"count": 0, "median": None, "p95": None}
    for seconds in (0.05, 0.1, 0.2, 7.0, 5_000.0):
        waits.record(seconds)
    assert (waits.counts[0], waits.counts[1], waits.counts[BOUNDS.index(10.0)], waits.counts[-1]) == (2, 1, 1, 1)
    assert (waits.within(0.5), waits.within(0.95), round(waits.total, 2)) == (0.2, 5_000.0, 5_007.35)


def test_a_run_that_failed_before_it_began_counts_as_failed() -> None:
    figures = LineFigures()
    figures.said("s")
    figures.done("s", ConfigError("no model"))
    assert dict(figures.runs) == {"failed": 1}
    assert figures.answers.to_json()["count"] == 0


async def test_what_happens_is_counted_by_platform(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("hello")
        await house.platform.says("hi", user="bob", chat=GROUP, is_addressed=True)
        await house.platform.says("me too", user="eve")
        await house.until(lambda: line.figures.runs["ended"] == 2 and line.outbox.sent == 2)
        told = line.status().to_json()
        assert (told["counts"]["kept"], told["counts"]["refused"], told["open_sessions"]) == (2, 1, 2)
        assert told["counts"]["sent"] == 2
        assert told["figures"]["runs"] == {"begun": 2, "ended": 2, "failed": 0}
        assert (told["figures"]["answer"]["count"], told["figures"]["per_minute"]["messages"]) == (2, 2.0)
        await house.platform.says("wait")
        await house.until(lambda: line.status().runs == 1)
        house.may.set()
        await house.until(lambda: line.figures.runs["ended"] == 3)
        assert line.status().runs == 0


async def test_figures_and_health_are_to_be_had_on_a_port(house: House) -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("uvicorn")
    from prometheus_client.parser import text_string_to_metric_families

    (house.folder / "build").mkdir()
    port = free_port()
    house.configure(f"{OWNED}gateway: {{port: {port}}}\n")
    async with (
        house.gateway() as gateway,
        httpx.AsyncClient(verify=NO_TLS, base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        line = line_of(gateway)
        await house.platform.says("a secret text", chat=GROUP, user="bob", is_addressed=True)
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: line.questions.open and line.figures.runs["ended"] == 1 and not line.outbox.waiting)
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        found = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
        platform = ("platform", "fake")
        for name, value in {
            "up": 1,
            "open_chats": 1,
            "parked_questions": 1,
            "runs_now": 0,
            "posts_waiting": 0,
            "background_processes": 0,
        }.items():
            assert found[f"toolcrib_gateway_{name}", platform] == value, name
        assert found["toolcrib_gateway_mailboxes_with_mail", platform] == 0
        assert found["toolcrib_gateway_messages_total", platform, ("state", "kept")] == 2
        assert found["toolcrib_gateway_posts_total", platform, ("state", "sent")] >= 2
        assert found["toolcrib_gateway_posts_total", platform, ("state", "failed")] == 0
        assert found["toolcrib_gateway_runs_total", platform, ("state", "begun")] == 2
        assert found["toolcrib_gateway_runs_total", platform, ("state", "ended")] == 1
        assert found["toolcrib_gateway_answer_seconds_count", platform] == 1
        assert found["toolcrib_gateway_answer_seconds_bucket", ("le", "+Inf"), platform] == 1
        assert {name for key in found for name, _ in key[1:]} == {"platform", "state", "le"}
        for word in ("secret", "bob", "ann", "direct", "rm -rf"):
            assert word not in answer.text, word
        healthy = await client.get("/healthz")
        said = {"ok": True, "draining": False, "platforms": {"fake": "running"}, "store": "running"}
        assert (healthy.status_code, healthy.json()) == (200, said)
        assert healthy.text.count("\n") == 1
        assert [(await client.get("/")).status_code, (await client.post("/metrics")).status_code] == [404, 405]
        serving = asyncio.create_task(gateway.serve())
        await house.platform.says("wait", user="bob", chat=Chat("other"))
        await house.until(lambda: "wait" in house.asked)
        gateway.end()
        await house.until(lambda: line.state == "draining")
        ending = await client.get("/healthz")
        assert (ending.status_code, ending.json()["draining"]) == (503, True)
        house.may.set()
        await serving
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_connections_that_ask_nothing_keep_nobody_from_the_figures(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("uvicorn")
    monkeypatch.setattr(_web, "_MOST", 3)
    monkeypatch.setattr(_web, "HEADER_SECONDS", 2.0)
    port = free_port()
    house.configure(f"{OWNED}gateway: {{port: {port}}}\n")
    async with house.gateway(), httpx.AsyncClient(verify=NO_TLS, timeout=30) as client:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in held:
            writer.write(b"GET /metrics HTTP/1.1\r\n")
        assert (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
        async with asyncio.timeout(60):
            for reader, writer in held:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.close()


async def test_a_platform_that_is_down_is_no_health(house: House) -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("uvicorn")
    port = free_port()
    house.configure(f"{OWNED}gateway: {{port: {port}}}\n")

    def refused(**more: object) -> object:
        raise OSError("no route")

    house.others["broken"] = refused  # type: ignore[assignment]  # it makes no platform
    async with house.gateway(), httpx.AsyncClient(verify=NO_TLS, timeout=30) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/healthz")
        assert answer.status_code == 503
        assert json.loads(answer.text)["platforms"] == {"fake": "running", "broken": "failed"}
        metrics = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        assert 'toolcrib_gateway_up{platform="broken"} 0.0' in metrics


async def test_a_port_that_is_taken_keeps_the_gateway_from_starting(house: House) -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        house.configure(f"{OWNED}gateway: {{port: {taken.getsockname()[1]}}}\n")
        with pytest.raises(ConfigError, match=r"gateway.port: .*is not available for listening"):
            await house.gateway().__aenter__()
    assert not house.platform.running


async def test_a_second_gateway_hears_of_the_first_one_and_not_of_its_port(house: House) -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("uvicorn")
    house.configure(f"{OWNED}gateway: {{port: {free_port()}}}\n")
    async with house.gateway():
        with pytest.raises(AccountTaken, match=r"another gateway already runs fake \(process \d+\)[.] Stop it with") as caught:
            await house.gateway().__aenter__()
        assert "choose another" not in str(caught.value)


async def test_another_port_counts_from_a_reload_on(house: House) -> None:
    pytest.importorskip("prometheus_client")
    pytest.importorskip("uvicorn")
    port = free_port()
    async with house.gateway() as gateway, httpx.AsyncClient(verify=NO_TLS, timeout=30) as client:
        house.configure(f"{OWNED}gateway: {{port: {port}}}\n")
        assert f"health and metrics are served at 127.0.0.1:{port}" in await gateway.reconfigure()
        assert (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
        house.configure(OWNED)
        assert "health and metrics are off" in await gateway.reconfigure()
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/healthz")


async def test_a_store_that_takes_nothing_is_no_health(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*args: object) -> None:
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(lines, "_LOOKS_EVERY", 0.01)
    async with house.gateway() as gateway:
        line = line_of(gateway)
        watch = Watch("127.0.0.1", 0, lambda: [line], lambda: False)
        with monkeypatch.context() as patch:
            patch.setattr(house.store.state, "write", full)
            await house.until(lambda: not line.keeps)
            status, _, body = watch._health()
            assert (status, json.loads(body)["store"]) == (503, "failed")
            assert json.loads(body)["platforms"] == {"fake": "running"}
        await house.until(lambda: line.keeps)
        assert watch._health()[0] == 200
