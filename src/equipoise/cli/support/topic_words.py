"""Parse and format specs and logs of topics for commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.cli.support.tables import name_of
from equipoise.content.attributes import AttributeSource
from equipoise.errors import DamagedError, SettingsError
from equipoise.model import Durability, TopicSpec
from equipoise.store.contract import Store
from equipoise.store.records.topic_logs import TopicLogsStore
from equipoise.store.tree import Tree

__all__ = ["log_facts", "log_words", "parse_attributes", "parse_durability", "spec_facts", "spec_words"]


def spec_facts(spec: TopicSpec) -> dict[str, Any]:
    facts: dict[str, Any] = {"pattern": name_of(spec.pattern)}
    for field in ("latency_ms", "quantile", "rate_per_s", "burst_messages", "wait_ms", "site", "attributes"):
        facts[field] = getattr(spec, field)
    for name, value in (("durability", spec.durability), ("retention", spec.retention)):
        facts[name] = None if value is None else msgspec.structs.asdict(value)
    return facts


def spec_words(spec: TopicSpec) -> str:
    parts = []
    if spec.latency_ms is not None:
        parts.append(f"latency {spec.latency_ms:g} ms at quantile {spec.quantile:g}")
    if spec.envelope is not None:
        parts.append(f"rate {spec.rate_per_s:g}/s, bursts of {spec.envelope.burst}, wait {spec.wait_s:g} s")
    if spec.durability is not None:
        quorums = spec.durability
        parts.append(f"durable {quorums.ensemble}/{quorums.write_quorum}/{quorums.ack_quorum}")
    if spec.retention is not None:
        parts.append(f"retain {spec.retention}")
    if spec.site is not None:
        parts.append(f"site {spec.site}")
    if spec.attributes is not None:
        parts.append(f"attributes in {spec.attributes}")
    return ", ".join(parts) or "no limits"


def parse_attributes(text: str) -> AttributeSource:
    if text not in list(AttributeSource):
        raise SettingsError(f"--attributes {text}: give one of {', '.join(AttributeSource)}")
    return AttributeSource(text)


def parse_durability(text: str) -> Durability:
    try:
        ensemble, write_quorum, ack_quorum = map(int, text.split("/"))
    except ValueError as problem:
        raise SettingsError(f"--durable {text}: give three numbers, such as 3/3/2") from problem
    return Durability(ensemble, write_quorum, ack_quorum)


async def log_facts(store: Store, region: str, name: bytes) -> dict[str, Any] | None:
    """The owner of a topic's log, and the ids of its ledgers; None without a log."""
    try:
        stored = await TopicLogsStore(store, Tree(region)).load(name)
    except DamagedError as problem:
        return {"problem": str(problem)}
    if stored.version is None:
        return None
    node = stored.node
    return {
        "owner": node.owner or None,
        "epoch": node.epoch,
        "ledgers": [ledger.ledger for ledger in node.ledgers],
    }


def log_words(log: Mapping[str, Any] | None) -> str:
    """A line, and the end of the paragraph; only the latter without a log."""
    if log is None:
        return ""
    if "problem" in log:
        return f"log: refused, its node in the store is damaged: {log['problem']}\n"
    owner = f"owner {log['owner']}" if log["owner"] else "no owner: the next hub that needs it opens it"
    return f"log: {owner}, epoch {log['epoch']}, ledgers {', '.join(map(str, log['ledgers']))}\n"
