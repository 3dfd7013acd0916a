"""XADD, XTRIM, XDEL, XSETID and XCFGSET: commands that change the entries of a log."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from equipoise.log.call import LogCall, integer_of
from equipoise.log.entries import spell_fields
from equipoise.log.errors import NO_SUCH_KEY, SYNTAX, LogCommandError
from equipoise.log.ids import ID_MAX, ID_MIN, EntryId, after, parse_id, parse_new_id, spell_id
from equipoise.log.records import (
    EntriesDeleted,
    EntriesTrimmed,
    EntryAdded,
    IdempotencySet,
    LastIdSet,
    LogCreated,
    ProducerAdvanced,
)
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import OK, bulk, error, integer, null

__all__ = [
    "add_entry",
    "add_plain",
    "add_run",
    "next_id",
    "xadd",
    "xcfgset",
    "xdel",
    "xsetid",
    "xtrim",
]

# The number of entries that `~` removes at most without LIMIT, so that one command does not take long.
_TRIMMED_MAX = 10_000
# The bounds of XCFGSET, and of the names of producers and tokens.
_DURATION_S_MAX = 86_400
_TOKENS_MAX = 10_000
_TOKEN_BYTES_MAX = 1_024

_TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
_EXHAUSTED = "ERR The stream has exhausted the last possible ID, unable to add more items"
_TWO_STRATEGIES = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"


@dataclass(slots=True)
class _Trim:
    """MAXLEN or MINID and its options. No strategy: neither `maxlen` nor `minid`."""

    maxlen: int | None = None
    minid: EntryId | None = None
    is_approximate: bool = False
    limit: int | None = None

    @property
    def is_given(self) -> bool:
        return self.maxlen is not None or self.minid is not None


@dataclass(slots=True)
class _Addition:
    """The options of XADD."""

    trim: _Trim
    makes_log: bool = True
    producer: bytes = b""
    # None: computed from the fields (IDMPAUTO).
    token: bytes | None = b""
    # The producer, run and number of the entry, from SEQUENCE.
    sequence: ProducerAdvanced | None = None


# --- XADD


def xadd(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    if words[2] == b"*" and len(words) > 4 and len(words) & 1:
        # By far the most frequent: no options, and the next id.
        return bulk(spell_id(add_entry(log, spell_fields(words[3:]), call.now_ms)))
    options, i, is_automatic = _parse_addition(words)
    fields = words[i + 1 :]
    if len(fields) < 2 or len(fields) % 2:
        raise LogCommandError("ERR wrong number of arguments for 'xadd' command")
    wanted: tuple[int, int | None] | None = None if is_automatic else parse_new_id(words[i])
    if wanted == ID_MIN:
        raise LogCommandError("ERR The ID specified in XADD must be greater than 0-0")
    if not log.exists and not options.makes_log:
        return null(call.proto)
    if log.last == ID_MAX:
        raise LogCommandError(_EXHAUSTED)
    body = spell_fields(fields)
    token = hashlib.blake2b(body, digest_size=16).digest() if options.token is None else options.token
    if options.producer:
        if not is_automatic:
            raise LogCommandError("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs")
        known = _known(log, options.producer, token, call.now_ms)
        if known is not None:
            return bulk(spell_id(known))
    sequence = options.sequence
    if sequence is not None:
        is_known, known = log.sequences.known(sequence.producer, sequence.run, sequence.n)
        if is_known:
            return null(call.proto) if known is None else bulk(spell_id(known))
    at = next_id(log, call.now_ms, wanted)
    log.change(EntryAdded(*at, body, options.producer, token if options.producer else b""))
    if sequence is not None:
        log.change(sequence)
    if options.trim.is_given:
        _trim(log, options.trim)
    return bulk(spell_id(at))


def add_entry(log: TopicLog, body: bytes, now_ms: int) -> EntryId:
    """Add an entry with encoded fields, under the next id. Raises LogCommandError if there is no next id."""
    at = next_id(log, now_ms, None)
    log.change(EntryAdded(*at, body))
    return at


def add_run(log: TopicLog, bodies: list[bytes], now_ms: int) -> bytes:
    """Add several entries whose fields are encoded already, under the next ids; return all replies as one."""
    replies = add_plain(log, bodies, now_ms)
    if replies is None:
        replies = []
        for body in bodies:
            try:
                replies.append(bulk(spell_id(add_entry(log, body, now_ms))))
            except LogCommandError as problem:
                replies.append(error(problem.text))
    return b"".join(replies)


def add_plain(log: TopicLog, bodies: list[bytes], now_ms: int) -> list[bytes] | None:
    """Add several entries under ids of one millisecond; return the replies, or None, without a change, if there are no
    such ids."""
    try:
        ms, seq = next_id(log, now_ms, None)
    except LogCommandError:
        return None
    if seq + len(bodies) - 1 > ID_MAX[1]:
        return None
    return log.change_all(ms, seq, bodies)


def next_id(log: TopicLog, now_ms: int, wanted: tuple[int, int | None] | None) -> EntryId:
    """The id of the next entry: the given one, or one from the time."""
    last = log.last
    if wanted is None:
        if now_ms > last[0]:
            return now_ms, 0
        following = after(last)
        if following is None:
            raise LogCommandError(_EXHAUSTED)
        return following
    ms, seq = wanted
    if seq is None:
        seq = last[1] + 1 if ms == last[0] else 0
    if (ms, seq) <= last or (ms, seq) > ID_MAX:
        raise LogCommandError(_TOO_SMALL)
    return ms, seq


def _known(log: TopicLog, producer: bytes, token: bytes, now_ms: int) -> EntryId | None:
    """The id of the producer's entry with this token, if it is recent enough."""
    tokens = log.producers.get(producer)
    at = None if tokens is None else tokens.get(token)
    if at is None or now_ms - at[0] > log.token_duration_s * 1_000:
        return None
    return at


def _parse_addition(words: list[bytes]) -> tuple[_Addition, int, bool]:
    """The options, the index of the id, and whether the id is `*`."""
    options = _Addition(_Trim())
    i = 2
    while i < len(words):
        word = words[i]
        if word == b"*":
            break
        option = word.lower()
        left = len(words) - 1 - i
        if option in (b"maxlen", b"minid", b"limit") and left:
            i = _parse_trim_option(options.trim, words, i)
        elif option == b"nomkstream":
            options.makes_log = False
            i += 1
        elif option == b"idmp" and left >= 2:
            options.producer, options.token = words[i + 1], words[i + 2]
            i += 3
        elif option == b"idmpauto" and left:
            options.producer, options.token = words[i + 1], None
            i += 2
        elif option == b"sequence" and left >= 3:
            options.sequence = _sequence(words[i + 1 : i + 4])
            i += 4
        else:
            parse_new_id(word)
            break
        if option.startswith(b"idmp"):
            _check_names(options.producer, options.token)
    _finish_trim(options.trim)
    return options, i, i < len(words) and words[i] == b"*"


def _check_names(producer: bytes, token: bytes | None) -> None:
    if not producer or token == b"":
        raise LogCommandError("ERR producer and idempotent IDs must not be empty")
    if len(producer) > _TOKEN_BYTES_MAX or (token is not None and len(token) > _TOKEN_BYTES_MAX):
        raise LogCommandError(f"ERR producer and idempotent IDs have at most {_TOKEN_BYTES_MAX} bytes")


def _sequence(words: list[bytes]) -> ProducerAdvanced:
    producer, run, n = words[0], integer_of(words[1]), integer_of(words[2])
    _check_names(producer, None)
    if run < 0 or n < 0:
        raise LogCommandError("ERR run and number of a SEQUENCE must not be negative")
    return ProducerAdvanced(producer, run, n)


# --- XTRIM


def xtrim(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    trim = _Trim()
    i = 2
    while i < len(words):
        if words[i].lower() not in (b"maxlen", b"minid", b"limit") or i + 1 >= len(words):
            raise LogCommandError(SYNTAX)
        i = _parse_trim_option(trim, words, i)
    if not trim.is_given and not trim.limit:
        raise LogCommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
    _finish_trim(trim)
    return integer(_trim(log, trim) if log.exists else 0)


def _parse_trim_option(trim: _Trim, words: list[bytes], i: int) -> int:
    """Parse MAXLEN, MINID or LIMIT at `i`; return the index of the next option."""
    option = words[i].lower()
    if option == b"limit":
        trim.limit = integer_of(words[i + 1])
        if trim.limit < 0:
            raise LogCommandError("ERR The LIMIT argument must be >= 0.")
        return i + 2
    if trim.is_given:
        raise LogCommandError(_TWO_STRATEGIES)
    trim.is_approximate = False
    if i + 2 < len(words) and words[i + 1] in (b"~", b"="):
        trim.is_approximate = words[i + 1] == b"~"
        i += 1
    if option == b"maxlen":
        trim.maxlen = integer_of(words[i + 1])
        if trim.maxlen < 0:
            raise LogCommandError("ERR The MAXLEN argument must be >= 0.")
    else:
        trim.minid = parse_id(words[i + 1])
    return i + 2


def _finish_trim(trim: _Trim) -> None:
    if trim.limit and not trim.is_given:
        raise LogCommandError("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
    if trim.limit is not None and not trim.is_approximate:
        raise LogCommandError("ERR syntax error, LIMIT cannot be used without the special ~ option")
    if trim.limit is None:
        trim.limit = _TRIMMED_MAX if trim.is_approximate else 0


def _trim(log: TopicLog, trim: _Trim) -> int:
    """Remove entries from the front; return how many."""
    entries = log.entries
    before = entries.count
    if trim.is_approximate:
        first, gone = entries.first_whole(keep=trim.maxlen or 0, minimum=trim.minid, limit=trim.limit or 0)
        if not gone:
            return 0
    elif trim.minid is not None:
        first = trim.minid
        if log.first >= first or not before:
            return 0
    else:
        assert trim.maxlen is not None, "one of the two is given"
        if before <= trim.maxlen:
            return 0
        first = entries.first_of_last(trim.maxlen)
    log.change(EntriesTrimmed(first or after(log.last) or ID_MAX))
    return before - entries.count


# --- the others


def xdel(log: TopicLog, call: LogCall) -> bytes:
    if not log.exists:
        return integer(0)
    ids = tuple(parse_id(word) for word in call.words[2:])
    before = log.entries.count
    there = tuple(at for at in dict.fromkeys(ids) if log.entries.get(at) is not None)
    if there:
        log.change(EntriesDeleted(there))
    return integer(before - log.entries.count)


def xsetid(log: TopicLog, call: LogCall) -> bytes:
    words = call.words
    last = parse_id(words[2])
    entries_added, max_deleted = _parse_setid(words, last)
    if not log.exists:
        raise LogCommandError(NO_SUCH_KEY)
    top = log.entries.last()
    if top is not None and last < top:
        raise LogCommandError("ERR The ID specified in XSETID is smaller than the target stream top item")
    if top is not None and entries_added is not None and entries_added < log.entries.count:
        raise LogCommandError(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
        )
    log.change(
        LastIdSet(
            last,
            log.entries_added if entries_added is None else entries_added,
            log.max_deleted if max_deleted == ID_MIN else max_deleted,
        )
    )
    return OK


def _parse_setid(words: list[bytes], last: EntryId) -> tuple[int | None, EntryId]:
    entries_added, max_deleted = None, ID_MIN
    for i in range(3, len(words), 2):
        option = words[i].lower()
        if option not in (b"entriesadded", b"maxdeletedid") or i + 1 >= len(words):
            raise LogCommandError(SYNTAX)
        if option == b"entriesadded":
            entries_added = integer_of(words[i + 1])
            if entries_added < 0:
                raise LogCommandError("ERR entries_added must be positive")
        else:
            max_deleted = parse_id(words[i + 1])
            if last < max_deleted:
                raise LogCommandError(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
                )
    return entries_added, max_deleted


def xcfgset(log: TopicLog, call: LogCall) -> bytes:
    """Retention time and maximum number of a producer's tokens. A change drops the present tokens.

    MKSTREAM, which Redis does not have, creates the log if it does not exist.
    """
    words, makes_log = call.words, call.words[-1].lower() == b"mkstream"
    if makes_log:
        words = words[:-1]
    duration_s, tokens_max = log.token_duration_s, log.tokens_max
    if len(words) < 4 or len(words) % 2:
        raise LogCommandError(SYNTAX)
    for i in range(2, len(words), 2):
        option, number = words[i].lower(), integer_of(words[i + 1])
        if option == b"idmp-duration" and 1 <= number <= _DURATION_S_MAX:
            duration_s = number
        elif option == b"idmp-maxsize" and 1 <= number <= _TOKENS_MAX:
            tokens_max = number
        else:
            raise LogCommandError(
                f"ERR XCFGSET takes IDMP-DURATION 1 to {_DURATION_S_MAX} and IDMP-MAXSIZE 1 to {_TOKENS_MAX}"
            )
    if not log.exists:
        if not makes_log:
            raise LogCommandError(NO_SUCH_KEY)
        log.change(LogCreated())
    if (duration_s, tokens_max) != (log.token_duration_s, log.tokens_max):
        log.change(IdempotencySet(duration_s, tokens_max))
    return OK
