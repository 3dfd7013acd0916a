"""What a gateway answers, byte by byte."""

from __future__ import annotations

import random

import hiredis
import pytest

from equipoise.coordinates import Coordinate
from equipoise.gateway.server import GatewaySession
from equipoise.resp.replies import spell

HERE = Coordinate((0.010, *[0.0] * 7), 0.1, 0.001)


def answers(session: GatewaySession, *requests: tuple[bytes, ...]) -> list[object]:
    """What a client would read."""
    reader = hiredis.Reader()
    reader.feed(session.receive(b"".join(spell(list(request)) for request in requests)))
    found = []
    while (reply := reader.gets()) is not False:
        found.append(reply)
    return found


def here() -> GatewaySession:
    return GatewaySession(lambda: HERE)


def test_a_gateway_says_where_it_is_whatever_the_client_tells_of_itself() -> None:
    told = (b"EQ.WHERE", b"1200", HERE.to_bytes())
    assert answers(here(), (b"EQ.WHERE",), (b"eq.where",), told) == [HERE.to_bytes()] * 3


@pytest.mark.parametrize(
    ("hello", "null"), [([], b"$-1\r\n"), ([b"2"], b"$-1\r\n"), ([b"3"], b"_\r\n")], ids=str
)
def test_a_gateway_that_does_not_know_its_place_yet_says_so_in_either_protocol(
    hello: list[bytes], null: bytes
) -> None:
    session = GatewaySession(lambda: None)
    session.receive(spell([b"HELLO", *hello]))
    assert session.receive(spell([b"EQ.WHERE"])) == null


def test_it_answers_what_clients_begin_with() -> None:
    session = here()
    hello, ping, echo, name = answers(
        session, (b"HELLO", b"3"), (b"PING",), (b"PING", b"x"), (b"CLIENT", b"SETNAME", b"me")
    )
    assert hello == {b"server": b"equipoise-gateway", b"proto": 3, b"role": b"gateway"}
    assert (ping, echo, name) == (b"PONG", b"x", b"OK")
    assert not session.is_over


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ((b"PUBLISH", b"a", b"b"), "ERR unknown command 'PUBLISH'; a gateway has EQ.WHERE"),
        ((b"SUBSCRIBE", b"a"), "publish and subscribe at a hub"),
        ((b"EQ.WHERE", b"1"), "wrong number of arguments"),
        ((b"HELLO", b"4"), "NOPROTO"),
        ((b"HELLO", b"3", b"AUTH", b"ann", b"secret"), "a gateway has no users; omit the login"),
        ((b"\xff\r\n" * 50,), "ERR unknown command"),
    ],
    ids=str,
)
def test_what_it_does_not_know_it_refuses_and_goes_on(request_: tuple[bytes, ...], said: str) -> None:
    session = here()
    refusal, where = answers(session, request_, (b"EQ.WHERE",))
    assert isinstance(refusal, hiredis.ReplyError) and said in str(refusal)
    assert where == HERE.to_bytes()


def test_whoever_quits_gets_no_answer_to_what_follows() -> None:
    session = here()
    assert answers(session, (b"QUIT",), (b"PING",)) == [b"OK"]
    assert session.is_over


@pytest.mark.parametrize(
    "data",
    [
        b"*1\r\n$99999\r\n",
        b"*1000\r\n",
        b"*1\r\n:1\r\n",
        b"x" * 2_000,
        b"*16\r\n" + b"$1\r\nx\r\n" * 3 + b"*",
    ],
    ids=["long word", "many words", "number", "endless line", "no word"],
)
def test_what_is_no_request_or_too_long_ends_the_connection(data: bytes) -> None:
    session = here()
    assert session.receive(data).startswith(b"-ERR ")
    assert session.is_over


@pytest.mark.parametrize("seed", range(20))
def test_the_same_bytes_get_the_same_answers_however_they_are_split(seed: int) -> None:
    rng = random.Random(seed)
    requests = [
        rng.choice(([b"EQ.WHERE"], [b"PING"], [b"HELLO", b"3"], [b"GET", b"a"], [b"PUBLISH", b"a", b"b"]))
        for _ in range(30)
    ]
    data = b"".join(spell(request) for request in requests)
    whole, session, pieces = here().receive(data), here(), b""
    while data:
        cut = rng.randrange(1, 40)
        pieces += session.receive(data[:cut])
        data = data[cut:]
    assert pieces == whole
