"""Prometheus metrics of a hub, scraped over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from equipoise.errors import SettingsError
from equipoise.hub import Hub, HubSettings
from equipoise.hub.telemetry.metric_table import METRICS
from equipoise.hub.telemetry.prometheus import kind_of, label_of
from equipoise.hub.telemetry.prometheus_endpoint import serve_metrics
from equipoise.hub.telemetry.settings import MetricsSettings, TelemetrySettings
from equipoise.web.metrics import METRICS as SYSTEM_METRICS
from hub.live import on_uvloop
from hub.world import request

TOKEN = "a-token-of-some-length"
# On a machine with much else to do; a quiet one needs a tenth of a second.
TIMEOUT_S = 25.0
# A scrape misses its window only if the machine stalls for a tenth of a second.
ROUNDS_MAX = 50


async def ask(address: str, head: bytes | None = None, **headers: str) -> tuple[int, str]:
    """The status and the body; 0 if the connection ended without an answer."""
    where, _, path = address.removeprefix("http://").partition("/")
    host, _, port = where.rpartition(":")
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [f"GET /{path} HTTP/1.1", *(f"{k}: {v}" for k, v in ({"Host": where} | headers).items())]
        writer.write(head if head is not None else ("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = ""
        with suppress(ConnectionResetError):
            answer = (await reader.read()).decode()
        await close(writer)
    first, _, rest = answer.partition("\r\n")
    return int(first.split()[1]) if first else 0, rest.partition("\r\n\r\n")[2]


async def close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def started(stack: AsyncExitStack, metrics: MetricsSettings, **settings: object) -> tuple[Hub, str]:
    hub = Hub(HubSettings(port=0, metrics=metrics, telemetry=TelemetrySettings(window_s=0.1), **settings))  # type: ignore[arg-type]  # a few fields by name
    await hub.start()
    stack.push_async_callback(hub.stop)
    address = await stack.enter_async_context(serve_metrics(hub))
    assert address is not None
    return hub, address


async def publish(hub: Hub, *topics: bytes, size_bytes: int = 10) -> None:
    """Once to each, with one subscriber to all of them; returns when the telemetry of it is there."""
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
        writer.write(request(b"SUBSCRIBE", *topics))
        await reader.readuntil(b":%d\r\n" % len(topics))
        publishing, publisher = await asyncio.open_connection("127.0.0.1", hub.port)
        end = hub.core.metering.ring.end
        # One write, so that one window has all of them.
        publisher.write(
            b"".join(
                request(b"PUBLISH", topic, b"x" * size_bytes * (number + 1))
                for number, topic in enumerate(topics)
            )
        )
        await publishing.readexactly(4 * len(topics))
        while hub.core.metering.ring.end <= end + len(topics):  # noqa: ASYNC110  a window has no event
            await asyncio.sleep(0.01)
        await close(writer, publisher)


async def scrape_topics(hub: Hub, address: str, *topics: bytes) -> tuple[str, int]:
    """Publish and scrape until the scrape precedes the next window, which has no messages.

    Returns the text and how often each topic had a message.
    """
    for rounds in range(1, ROUNDS_MAX + 1):
        await publish(hub, *topics)
        status, text = await ask(address)
        assert status == 200
        if any(topic for _, topic in numbers(text)):
            return text, rounds
    raise AssertionError(f"no topic in {ROUNDS_MAX} scrapes")


async def topics_shown(hub: Hub, address: str, *topics: bytes) -> set[str]:
    text, _ = await scrape_topics(hub, address, *topics)
    return {topic for _, topic in numbers(text) if topic}


def numbers(text: str) -> dict[tuple[str, str | None], float]:
    return {
        (sample.name, sample.labels.get("topic")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@on_uvloop
async def test_the_counters_of_a_hub_are_prometheus_metrics() -> None:
    async with AsyncExitStack() as stack:
        hub, address = await started(stack, MetricsSettings(port=0))
        text, rounds = await scrape_topics(hub, address, b"small", b"large")
        found = numbers(text)
        assert found["equipoise_hub_publications_total", None] == 2 * rounds
        assert found["equipoise_hub_deliveries_total", None] == 2 * rounds
        assert found["equipoise_hub_connections_total", None] == 2 * rounds
        assert found["equipoise_hub_topic_publications_total", "large"] == rounds
        assert 'equipoise_hub_uptime_seconds{hub="hub"}' in text


@on_uvloop
async def test_every_metric_of_a_hub_on_its_own_is_shown_with_its_kind() -> None:
    async with AsyncExitStack() as stack:
        hub, address = await started(stack, MetricsSettings(port=0))
        text, _ = await scrape_topics(hub, address, b"t")
        kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
        assert kinds == {name: kind_of(name) for name, of, *_ in METRICS if of in ("hub", "topic")}


@on_uvloop
async def test_only_the_busiest_topics_have_numbers_of_their_own() -> None:
    async with AsyncExitStack() as stack:
        hub, address = await started(stack, MetricsSettings(port=0, topics_max=2))
        assert await topics_shown(hub, address, b"a", b"b", b"c", b"d") == {"c", "d"}


@on_uvloop
async def test_a_topic_that_was_shown_stays_while_it_is_nearly_as_busy() -> None:
    async with AsyncExitStack() as stack:
        hub, address = await started(stack, MetricsSettings(port=0, topics_max=1))
        for topics in ((b"a", b"b"), (b"b", b"a")):
            assert await topics_shown(hub, address, *topics) == {"b"}


@on_uvloop
async def test_names_of_topics_are_labels_whatever_bytes_they_have() -> None:
    names = (b'quo"te', b"new\nline", b"\xff", b"\\xff", "café".encode())
    async with AsyncExitStack() as stack:
        hub, address = await started(stack, MetricsSettings(port=0))
        shown = await topics_shown(hub, address, *names)
        assert shown == {label_of(name) for name in names}
        assert len(shown) == len(names)


@on_uvloop
async def test_a_request_without_the_token_gets_no_metrics(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    async with AsyncExitStack() as stack:
        _, address = await started(stack, MetricsSettings(port=0, token_file=str(file)))
        for shown in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            status, text = await ask(address, Authorization=shown)
            assert status == 401 and "token" in text and "equipoise_" not in text
        assert (await ask(address, Authorization=f"Bearer {TOKEN}"))[0] == 200


@on_uvloop
async def test_a_request_with_a_foreign_host_name_gets_no_metrics() -> None:
    async with AsyncExitStack() as stack:
        _, address = await started(stack, MetricsSettings(port=0))
        status, text = await ask(address, Host="evil.example")
        assert status == 401 and "loopback" in text


@on_uvloop
async def test_other_requests_are_rejected_and_malformed_ones_get_no_reply() -> None:
    async with AsyncExitStack() as stack:
        _, address = await started(stack, MetricsSettings(port=0))
        assert (await ask(address, b"POST /metrics HTTP/1.1\r\n\r\n"))[0] == 405
        assert (await ask(address, b"GET / HTTP/1.1\r\n\r\n"))[0] == 404
        assert (await ask(address, b"GET /healthz HTTP/1.1\r\n\r\n")) == (200, "ok\n")
        assert (await ask(address, b"GET /metrics " + b"x" * 20_000))[0] == 0
        assert (await ask(address))[0] == 200


@on_uvloop
async def test_silent_connections_block_other_clients_for_a_short_time_only_and_the_hub_not_at_all() -> None:
    async with AsyncExitStack() as stack:
        hub, address = await started(stack, MetricsSettings(port=0))
        host, _, port = address.removeprefix("http://").removesuffix("/metrics").rpartition(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        async with asyncio.timeout(TIMEOUT_S):
            while (await ask(address))[0]:
                pass
        await publish(hub, b"t")
        await close(*(writer for _, writer in idle))
        async with asyncio.timeout(TIMEOUT_S):
            while (await ask(address))[0] != 200:
                pass


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        (MetricsSettings(port=0, host="0.0.0.0"), "--metrics-token-file"),
        (MetricsSettings(port=0, token_file="/nowhere/token"), "cannot read the token file"),
    ],
)
def test_settings_that_would_expose_metrics_without_a_token_are_rejected(
    metrics: MetricsSettings, text: str
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            await started(stack, metrics)

    with pytest.raises(SettingsError, match=text):
        asyncio.run(main())


def test_without_a_port_nothing_listens() -> None:
    async def main() -> None:
        hub = Hub(HubSettings(port=0))
        await hub.start()
        async with serve_metrics(hub) as address:
            assert address is None
        await hub.stop()

    asyncio.run(main())


def test_hubs_and_controllers_have_no_metric_of_the_same_name() -> None:
    own, system = [{name for name, *_ in table} for table in (METRICS, SYSTEM_METRICS)]
    assert len(own) == len(METRICS) and len(system) == len(SYSTEM_METRICS)
    assert own & system == set()
