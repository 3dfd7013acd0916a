"""Arguments of commands, as text and in the form of COMMAND DOCS.

    word                a value; `a|b` one of several literal words
    [ … ]               optional; `[x ...]` after x: repeatable
    WORD                in capitals: a literal word; before a value, the value's token

`redis-cli` and editors show hints from COMMAND DOCS.
"""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.resp.replies import array, bulk, mapping, set_of, simple

__all__ = ["USAGE", "Argument", "arguments", "encode_arguments"]

_TOPICS, _ALL = "channel [channel ...]", "[channel [channel ...]]"
_PATTERNS = "pattern [pattern ...]"
USAGE = {
    "acl|cat": "[category]",
    "auth": "[username] password",
    "client|caching": "YES|NO",
    "client|kill": "[ip:port] [ID client-id] [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [USER username] [ADDR ip:port] "
    "[LADDR ip:port] [SKIPME yes/no]",
    "client|list": "[TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID client-id [client-id ...]]",
    "client|no-evict": "ON|OFF",
    "client|no-touch": "ON|OFF",
    "client|reply": "ON|OFF|SKIP",
    "client|setinfo": "LIB-NAME|LIB-VER value",
    "client|setname": "connection-name",
    "client|tracking": "ON|OFF",
    "client|unblock": "client-id",
    "command|docs": "[command-name [command-name ...]]",
    "command|info": "[command-name [command-name ...]]",
    "config|get": "parameter [parameter ...]",
    "echo": "message",
    "eq.after": "channel [stream epoch n]",
    "eq.append": "channel publisher run n message [message ...]",
    "eq.arrivals": "channel ON|OFF [key]",
    "eq.link": "link-name [ROUTES]",
    "eq.publish": "channel message [message ...]",
    "eq.settle": "channel",
    "eq.sever": "link-name ip:port",
    "eq.subscribe": _TOPICS,
    "eq.topic": _TOPICS,
    "eq.topics": "cursor count [MATCH pattern] [HOME]",
    "eq.unsubscribe": _ALL,
    "flushall": "[ASYNC|SYNC]",
    "flushdb": "[ASYNC|SYNC]",
    "hello": "[protover] [AUTH username] [SETNAME client-name]",
    "info": "[section [section ...]]",
    "latency|history": "event",
    "latency|reset": "[event [event ...]]",
    "memory|usage": "channel",
    "ping": "[message]",
    "psubscribe": _PATTERNS,
    "publish": "channel message",
    "pubsub|channels": "[pattern]",
    "pubsub|numsub": _ALL,
    "pubsub|shardchannels": "[pattern]",
    "pubsub|shardnumsub": _ALL,
    "punsubscribe": f"[{_PATTERNS}]",
    "select": "index",
    "slowlog|get": "[count]",
    "spublish": "shardchannel message",
    "ssubscribe": "shardchannel [shardchannel ...]",
    "subscribe": _TOPICS,
    "sunsubscribe": "[shardchannel [shardchannel ...]]",
    "unsubscribe": _ALL,
    "watch": "key [key ...]",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: a value, a literal word (only `token`), or one of several words."""

    name: str
    token: str = ""
    choices: tuple[str, ...] = ()
    is_value: bool = True
    is_optional: bool = False
    is_multiple: bool = False


def arguments(usage: str) -> tuple[Argument, ...]:
    words = usage.replace("[", " [ ").replace("]", " ] ").split()
    found, _ = _parse(words, 0)
    return tuple(found)


def _parse(words: list[str], at: int) -> tuple[list[Argument], int]:
    """The arguments up to the end or the closing bracket, and its index."""
    found: list[Argument] = []
    token = ""
    while at < len(words) and words[at] != "]":
        word = words[at]
        if word == "[" and words[at + 2 : at + 4] == ["...", "]"]:
            found[-1] = _with(found[-1], is_multiple=True)
            at += 3
        elif word == "[":
            inner, at = _parse(words, at + 1)
            found += [_with(one, is_optional=True) for one in inner]
        elif "|" in word:
            found.append(
                Argument(word.lower().replace("|", "_"), token, tuple(word.split("|")), is_value=False)
            )
            token = ""
        elif word.isupper() and at + 1 < len(words) and words[at + 1] not in ("]", "["):
            token = word
        elif word.isupper():
            found.append(Argument(word.lower(), word, is_value=False))
        else:
            found.append(Argument(word, token))
            token = ""
        at += 1
    return found, at


def _with(argument: Argument, *, is_optional: bool = False, is_multiple: bool = False) -> Argument:
    return Argument(
        argument.name,
        argument.token,
        argument.choices,
        argument.is_value,
        argument.is_optional or is_optional,
        argument.is_multiple or is_multiple,
    )


def encode_arguments(found: tuple[Argument, ...], proto: int) -> bytes:
    return array(_encode(argument, proto) for argument in found)


def _encode(argument: Argument, proto: int) -> bytes:
    kind = "string" if argument.is_value else "oneof" if argument.choices else "pure-token"
    facts = {bulk(b"name"): bulk(argument.name.encode()), bulk(b"type"): bulk(kind.encode())}
    if argument.token:
        facts[bulk(b"token")] = bulk(argument.token.encode())
    flags = [
        name
        for name, is_set in (("optional", argument.is_optional), ("multiple", argument.is_multiple))
        if is_set
    ]
    if flags:
        facts[bulk(b"flags")] = set_of(map(simple, flags), proto)
    if argument.choices:
        choices = tuple(Argument(word.lower(), word, is_value=False) for word in argument.choices)
        facts[bulk(b"arguments")] = encode_arguments(choices, proto)
    return mapping(facts, proto)
