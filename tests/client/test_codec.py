"""Requests as bytes: any name and payload arrive as they were given."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.client.wire.codec import (
    decode_name,
    encode_name,
    encode_payload,
    encode_publish,
    encode_request,
)
from equipoise.errors import MisuseError


def parse(frame: bytes) -> object:
    reader = hiredis.Reader()
    reader.feed(frame)
    return reader.gets()


@given(st.lists(st.binary(), min_size=1, max_size=8))
def test_a_request_arrives_word_for_word(words: list[bytes]) -> None:
    assert parse(encode_request(*words)) == words


@given(st.binary(), st.binary())
def test_the_quick_way_to_encode_a_publish_gives_the_same_bytes(topic: bytes, payload: bytes) -> None:
    assert encode_publish(topic, payload) == encode_request(b"PUBLISH", topic, payload)


@given(st.binary())
def test_a_name_of_any_bytes_survives_being_text(name: bytes) -> None:
    assert encode_name(decode_name(name)) == name


@pytest.mark.parametrize(
    "payload", ["é!", "é!".encode(), bytearray("é!".encode()), memoryview("é!".encode())]
)
def test_each_kind_of_payload_becomes_the_same_bytes(payload: str | bytes | bytearray | memoryview) -> None:
    assert encode_payload(payload) == b"\xc3\xa9!"


def test_a_view_of_wide_items_is_taken_whole() -> None:
    assert encode_payload(memoryview(b"12345678").cast("I")) == b"12345678"


def test_a_buffer_reused_by_its_owner_does_not_change_what_was_published() -> None:
    buffer = bytearray(b"before")
    taken = encode_payload(buffer)
    buffer[:] = b"after!"
    assert taken == b"before"


def test_text_that_cannot_be_encoded_is_rejected_with_a_remedy() -> None:
    with pytest.raises(MisuseError, match="not valid text"):
        encode_name("\ud800")
    with pytest.raises(MisuseError, match=r"surrogates not allowed\); pass it as bytes"):
        encode_payload("\ud800")


def test_values_other_than_text_or_bytes_are_rejected_with_a_remedy() -> None:
    with pytest.raises(MisuseError, match=r"not dict; serialise it first, for example with json\.dumps"):
        encode_payload({"a": 1})  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(MisuseError, match="not int; convert it first"):
        encode_name(5)  # type: ignore[arg-type]  # the mistake under test
