"""Bus URLs: their meaning, and errors of invalid ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.client.url import PORT_DEFAULT, BusUrl, Endpoint, parse_url
from equipoise.errors import AddressError


@pytest.mark.parametrize(
    ("url", "meaning"),
    [
        ("equipoise://hub", BusUrl((Endpoint("hub", PORT_DEFAULT),))),
        ("EQUIPOISE://hub:7000/", BusUrl((Endpoint("hub", 7000),))),
        ("redis://hub:7000/0", BusUrl((Endpoint("hub", 7000),))),
        ("equipoises://hub:1", BusUrl((Endpoint("hub", 1),), is_tls=True)),
        ("rediss://hub:65535", BusUrl((Endpoint("hub", 65535),), is_tls=True)),
        ("equipoise://ann:pw@hub:1", BusUrl((Endpoint("hub", 1),), user="ann", secret="pw")),
        ("equipoise://:pw@hub:1", BusUrl((Endpoint("hub", 1),), user="default", secret="pw")),
        ("equipoise://a%40b:p%3A%2Fw@hub:1", BusUrl((Endpoint("hub", 1),), user="a@b", secret="p:/w")),
        ("equipoise://ann:p/w@x@hub:1", BusUrl((Endpoint("hub", 1),), user="ann", secret="p/w@x")),
        ("equipoise://[::1]:7,h:8", BusUrl((Endpoint("::1", 7), Endpoint("h", 8)))),
        ("equipoise://[fe80::1%25eth0]", BusUrl((Endpoint("fe80::1%eth0", PORT_DEFAULT),))),
    ],
)
def test_a_url_is_parsed(url: str, meaning: BusUrl) -> None:
    assert parse_url(url) == meaning


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("hub:6399", "no scheme"),
        ("http://hub", "'http' is none of"),
        ("equipoise://", "lacks a host"),
        ("equipoise://a,,b", "lacks a host"),
        ("equipoise://a b:1", "lacks a host"),
        ("equipoise://hub:", "a port is a number"),
        ("equipoise://hub:x", "a port is a number"),
        ("equipoise://hub:0", "a port is a number"),
        ("equipoise://hub:65536", "a port is a number"),
        ("equipoise://hub:1_0", "a port is a number"),
        ("equipoise://hub:" + "9" * 10_000, "a port is a number"),
        ("equipoise://::1:7000", "IPv6 goes in brackets"),
        ("equipoise://[::1", "IPv6 goes in brackets"),
        ("equipoise://" + "h" * 64, "cannot be a name"),
        ("equipoise://ann@hub", "a user without a secret"),
        ("equipoise://ann:@hub", "a user without a secret"),
        ("equipoise://ann:\ud800@hub", "not valid text"),
        ("redis://hub/3", "names the database '3'"),
        ("equipoise://hub?timeout=3", "no ?query"),
    ],
)
def test_an_invalid_url_is_rejected_with_the_reason(url: str, complaint: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_url(url)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("rest", ["", "hub:x", "hub?q", "hub/7", "::1:2", "[x"])
def test_no_error_repeats_the_secret(rest: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_url(f"equipoise://ann:hunter2@{rest}")
    assert "hunter2" not in str(caught.value)


def test_the_secret_is_not_shown_when_the_url_is_printed() -> None:
    assert "hunter2" not in repr(parse_url("equipoise://ann:hunter2@hub"))


@given(st.text())
def test_any_text_is_either_parsed_or_rejected(text: str) -> None:
    for url in (text, f"equipoise://{text}"):
        try:
            assert parse_url(url).endpoints
        except AddressError:
            pass


@pytest.mark.parametrize(
    ("endpoint", "text"), [(Endpoint("hub", 1), "hub:1"), (Endpoint("::1", 2), "[::1]:2")]
)
def test_an_endpoint_prints_as_it_is_configured(endpoint: Endpoint, text: str) -> None:
    assert str(endpoint) == text
