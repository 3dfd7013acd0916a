"""`equipoise sub`: subscribe and print messages and gaps."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from equipoise.cli.support.client_connection import URL_DEFAULT, TlsCa, TlsCert, TlsKey, TlsOptions, Url, run
from equipoise.cli.support.units import parse_start
from equipoise.client import Bus, DurableMessage, Event, Gap, Message, Subscription

Where = Annotated[
    str | None,
    typer.Option(
        help="Only messages that this filter matches, such as 'symbol = \"YHOO\" and volume > 150'."
    ),
]

# The default start of a new durable subscription.
_START = "end"


def command(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="Topics, or patterns with --pattern.")
    ],
    *,
    url: Url = URL_DEFAULT,
    pattern: Annotated[
        bool,
        typer.Option(
            "--pattern", "-p", help="Treat the names as glob patterns, such as 'game.*' (quote them)."
        ),
    ] = False,
    where: Where = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many messages.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, for messages and for gaps.")
    ] = False,
    positions: Annotated[
        bool,
        typer.Option("--positions", help="Show the position of each message in its stream: epoch:number."),
    ] = False,
    durable: Annotated[
        str,
        typer.Option(
            "--durable",
            metavar="NAME",
            help="Durable subscription to one durable topic: resumes where NAME stopped. Printed messages "
            "are acknowledged.",
        ),
    ] = "",
    group: Annotated[
        str, typer.Option(help="With --durable: share the messages with the other subscribers of this group.")
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            help="With --durable: where a new subscription begins: beginning, end, the id of a message, number:5 for "
            "the fifth of the topic, or a time."
        ),
    ] = _START,
    tls_ca: TlsCa = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Subscribe to topics and print messages until Ctrl-C.

    Each message is one line: the payload, after the topic if there may be several. Gaps are reported on standard error,
    with the number of missed messages if it is known.

    Try it: `equipoise sub news`, then in another terminal `equipoise pub news hello`. All topics: `equipoise
    sub -p '*'`. By content: `equipoise sub stocks --where 'volume > 150'`.
    """
    if where is not None:
        _check_filter(is_pattern=pattern, is_durable=bool(durable))
    printer = Printer(has_topics=pattern or len(topics) > 1, has_positions=positions, is_json=as_json)
    if not durable and (group or start != _START):
        raise typer.BadParameter("--group and --start are for durable subscriptions: give --durable NAME too")
    if durable and pattern:
        raise typer.BadParameter("a durable subscription is to one topic: leave out --pattern")
    run(
        url,
        TlsOptions(tls_ca, tls_cert, tls_key),
        "equipoise-sub",
        lambda bus: (
            follow_durably(bus, topics, durable, group, start, count, printer)
            if durable
            else follow(bus, lambda: _subscription(bus, topics, pattern, where), count, printer)
        ),
    )


def _check_filter(*, is_pattern: bool, is_durable: bool) -> None:
    """Reject a filter where none is possible."""
    if is_pattern:
        raise typer.BadParameter("a filter is for topics by name: leave out --pattern")
    if is_durable:
        raise typer.BadParameter(
            "a durable subscription has no filter: its mark is a position in the whole topic"
        )


class Printer:
    """Prints events; unprintable characters are escaped."""

    def __init__(self, *, has_topics: bool, has_positions: bool, is_json: bool) -> None:
        self._has_topics = has_topics
        self._has_positions = has_positions
        self._is_json = is_json

    def show(self, event: Event | DurableMessage) -> None:
        if self._is_json:
            print(json.dumps(as_json(event)))
        elif isinstance(event, Gap):
            print(describe_gap(event), file=sys.stderr)
        else:
            print(self._line(event))

    def _line(self, message: Message | DurableMessage) -> str:
        words = []
        if isinstance(message, DurableMessage):
            if self._has_positions:
                words.append(message.id)
        elif self._has_positions and message.position is not None:
            words.append(f"{message.position.epoch}:{message.position.n}")
        if self._has_topics:
            words.append(printable(message.topic.encode("utf-8", "surrogateescape")))
        words.append(printable(message.payload))
        return " ".join(words)


def _subscription(bus: Bus, topics: list[str], is_pattern: bool, where: str | None) -> Subscription:
    return bus.psubscribe(*topics) if is_pattern else bus.subscribe(*topics, where=where)


async def follow(
    bus: Bus, subscribe: Callable[[], Subscription], count: int | None, printer: Printer
) -> None:
    async with bus, subscribe() as subscription:
        left = count
        async for event in subscription:
            printer.show(event)
            if subscription.pending == 0:
                sys.stdout.flush()
            if left is not None and isinstance(event, Message):
                left -= 1
                if left == 0:
                    return


async def follow_durably(
    bus: Bus, topics: list[str], name: str, group: str, start: str, count: int | None, printer: Printer
) -> None:
    """Acknowledge printed messages."""
    begin, left = parse_start(start), count
    async with bus, bus.subscribe(*topics, durable=name, group=group or None, start=begin) as subscription:
        async for event in subscription:
            printer.show(event)
            sys.stdout.flush()
            if isinstance(event, Gap):
                continue
            await subscription.ack(event)
            if left is not None:
                left -= 1
                if left == 0:
                    return


def describe_gap(gap: Gap) -> str:
    where = gap.topic if gap.topic is not None else f"topics like {gap.pattern}"
    what = "messages may be missing" if gap.missed is None else f"{gap.missed} missed"
    if gap.span is not None:
        what += f", of {gap.span} in the topic"
    return f"equipoise: gap in {printable(where.encode('utf-8', 'surrogateescape'))}: {what} ({gap.reason})"


def as_json(event: Event | DurableMessage) -> dict[str, Any]:
    """A gap has the key `missed`, a message `payload`, or `payload_base64` if it is not UTF-8."""
    known: dict[str, Any] = {"topic": event.topic}
    if isinstance(event, DurableMessage):
        known |= {"id": event.id, "deliveries": event.deliveries}
    elif event.pattern is not None:
        known["pattern"] = event.pattern
    if isinstance(event, Gap):
        known |= {"missed": event.missed, "reason": str(event.reason)}
        return known if event.span is None else known | {"span": event.span}
    if isinstance(event, Message) and event.position is not None:
        known["position"] = {"epoch": event.position.epoch, "n": event.position.n}
    try:
        return known | {"payload": event.text}
    except UnicodeDecodeError:
        return known | {"payload_base64": base64.b64encode(event.payload).decode()}


def printable(data: bytes) -> str:
    """One line of text without control sequences: unprintable characters are escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    is_harmless = character.isprintable() or character == "\t"
    return character if is_harmless else character.encode("unicode_escape").decode()
