"""Options of the Spark format `equipoise`: topics, start, batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError

__all__ = ["TopicReadSettings", "TopicWriteSettings", "read_options"]

# Options that Spark itself adds.
_OF_SPARK = frozenset({"checkpointlocation", "path", "header"})


class HubAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the hubs."""

    hubs: Annotated[str, Meta(description="Hubs as host:port,host:port, or the URL of the store.")]
    region: Annotated[str, Meta(description="Name of the cluster inside the store.")] = "default"
    user: Annotated[str, Meta(description="User to log in as. Empty: no login.")] = ""
    secret: Annotated[str, Meta(description="Secret of that user.")] = ""
    tls_ca: Annotated[str, Meta(description="CA of the hubs' certificates (PEM). Empty: no TLS.")] = ""
    timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="How long a request is repeated while hubs do not answer or a topic changes its owner. Then "
            "the query fails; a restart resumes from its checkpoint.",
        ),
    ] = 60.0


class TopicReadSettings(HubAccess, frozen=True, kw_only=True):
    """Options of `readStream` and `read`. Case and `_` do not count: `maxRecordsPerTrigger` is one of them."""

    topic: Annotated[str, Meta(description="Topic to read.")] = ""
    pattern: Annotated[
        str,
        Meta(
            description="Glob pattern of topics to read, such as 'game.*', instead of one topic. Topics that appear "
            "later are read from their beginning."
        ),
    ] = ""
    starting_offsets: Annotated[
        str,
        Meta(
            description="Where a query without a checkpoint begins: `earliest`, `latest`, or an id such as "
            "1700000000000-0, which is a time in milliseconds and a number. Default: `latest` of streams, `earliest` "
            "of batches."
        ),
    ] = ""
    ending_offsets: Annotated[
        str, Meta(description="Where a batch ends: `latest`, or an id, included. Not of streams.")
    ] = "latest"
    max_records_per_trigger: Annotated[
        int, Meta(ge=1, description="Entries of one batch of a stream, shared among its topics.")
    ] = 1_000_000
    records_per_task: Annotated[
        int,
        Meta(
            ge=1,
            description="Entries that one task reads: a range with more is divided.",
        ),
    ] = 100_000
    fail_on_data_loss: Annotated[
        bool,
        Meta(
            description="Fail when entries were trimmed or deleted before they were read. False: warn and continue."
        ),
    ] = True

    def check(self) -> None:
        """Raises SettingsError."""
        if bool(self.topic) == bool(self.pattern):
            raise SettingsError("give either the option `topic` or the option `pattern`")


class TopicWriteSettings(HubAccess, frozen=True, kw_only=True):
    """Options of `writeStream` and `write`."""

    topic: Annotated[
        str, Meta(description="Topic to append to. Empty: the column `topic` names one for each row.")
    ] = ""
    id_column: Annotated[
        str,
        Meta(
            description="Column with an id of each row, by which a repeated row is recognised. Empty: by "
            "query, batch, partition and the number of the row in it, which needs repeated batches to have the "
            "same order."
        ),
    ] = ""


Options = TypeVar("Options", TopicReadSettings, TopicWriteSettings)


def read_options(kind: type[Options], options: Mapping[str, str]) -> Options:
    """Raises SettingsError, which names the option."""
    known = {field.replace("_", ""): field for field in kind.__struct_fields__}
    given: dict[str, str] = {}
    for name, text in options.items():
        field = known.get(name.lower().replace("_", ""))
        if field is not None:
            given[field] = text
        elif name.lower() not in _OF_SPARK:
            raise SettingsError(f"the format equipoise has no option {name!r}: {', '.join(known.values())}")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise SettingsError(f"options of the format equipoise: {problem}") from problem
