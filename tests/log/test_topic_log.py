"""What a log does that no Redis 7.0 can be asked about: snapshots, producers, whole blocks, damaged runs."""

from __future__ import annotations

import msgspec
import pytest

from equipoise.errors import DamagedError
from equipoise.log.entries import BLOCK_ENTRIES
from equipoise.log.ids import ID_MAX, after, before, spell_id, spell_ids
from equipoise.log.records import EntryAdded, LogRecord, decode_run, encode_run
from equipoise.log.topic_log import TOKEN_DURATION_S, TOKENS_MAX, TopicLog
from equipoise.resp.replies import bulk
from log.logs import Logs


def added(logs: Logs) -> int:
    return logs.logs[b"t"].entries_added


def test_a_producer_that_sends_an_entry_again_gets_the_id_of_the_first() -> None:
    logs = Logs()
    first = logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v")
    logs.run("XADD", "t", "*", "f", "between")
    assert logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v") == first
    assert logs.run("XADD", "t", "IDMP", "other", "1", "*", "f", "v") != first
    assert added(logs) == 3


def test_a_token_made_of_the_fields_knows_the_same_fields_again() -> None:
    logs = Logs()
    first = logs.run("XADD", "t", "IDMPAUTO", "p", "*", "f", "v")
    assert logs.run("XADD", "t", "IDMPAUTO", "p", "*", "f", "v") == first
    assert logs.run("XADD", "t", "IDMPAUTO", "p", "*", "f", "w") != first


def test_a_token_is_forgotten_after_its_time_and_when_there_are_too_many() -> None:
    logs = Logs()
    logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v")
    logs.now_ms += TOKEN_DURATION_S * 1_000 + 1
    logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v")
    assert added(logs) == 2
    for number in range(TOKENS_MAX):
        logs.run("XADD", "t", "IDMP", "p", f"n{number}", "*", "f", "v")
    logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v")
    assert added(logs) == 2 + TOKENS_MAX + 1


def test_how_many_tokens_are_remembered_can_be_set() -> None:
    logs = Logs()
    logs.run("XADD", "t", "*", "f", "v")
    assert logs.run("XCFGSET", "t", "IDMP-MAXSIZE", "1") == b"+OK\r\n"
    for token in ("1", "2", "1"):
        logs.run("XADD", "t", "IDMP", "p", token, "*", "f", "v")
    assert added(logs) == 4
    assert logs.run("XCFGSET", "t", "IDMP-MAXSIZE", "0").startswith(b"-ERR XCFGSET takes")
    assert logs.run("XCFGSET", "missing", "IDMP-MAXSIZE", "1") == b"-ERR no such key\r\n"


def test_idempotent_entries_have_ids_of_the_logs_making() -> None:
    logs = Logs()
    assert logs.run("XADD", "t", "IDMP", "p", "1", "5-5", "f", "v").startswith(b"-ERR IDMP/IDMPAUTO")
    assert logs.run("XADD", "t", "IDMP", "", "1", "*", "f", "v").startswith(b"-ERR producer")
    assert not logs.stored[b"t"]


def test_ids_rise_though_the_clock_goes_back() -> None:
    logs = Logs()
    logs.run("XADD", "t", "*", "f", "v")
    logs.now_ms -= 60_000
    logs.run("XADD", "t", "*", "f", "v")
    first, second = (r for r in logs.records(b"t") if isinstance(r, EntryAdded))
    assert (second.ms, second.seq) == (first.ms, first.seq + 1)


def test_ids_in_a_row_are_formatted_as_each_of_them() -> None:
    for seq, count in ((0, 1), (0, 12), (8, 1), (9, 2), (95, 1_000), (10**19 - 1, 3), (ID_MAX[1], 1)):
        assert spell_ids(123, seq, count) == [bulk(spell_id((123, seq + i))) for i in range(count)]


def test_trimming_with_a_tilde_removes_whole_blocks() -> None:
    logs = Logs()
    for _ in range(3 * BLOCK_ENTRIES + 10):
        logs.run("XADD", "t", "*", "f", "v")
    assert logs.run("XTRIM", "t", "MAXLEN", "~", BLOCK_ENTRIES) == b":%d\r\n" % (2 * BLOCK_ENTRIES)
    assert logs.run("XTRIM", "t", "MAXLEN", "~", 0, "LIMIT", 5) == b":0\r\n"
    assert logs.run("XTRIM", "t", "MAXLEN", "~", 0) == b":%d\r\n" % (BLOCK_ENTRIES + 10)
    assert logs.run("XLEN", "t") == b":0\r\n"


def test_the_last_entry_is_read_with_a_plus() -> None:
    logs = Logs()
    logs.run("XADD", "t", "1-1", "f", "v")
    logs.run("XADD", "t", "2-0", "f", "w")
    assert logs.run("XREAD", "STREAMS", "t", "+") == (
        b"*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$3\r\n2-0\r\n*2\r\n$1\r\nf\r\n$1\r\nw\r\n"
    )
    assert logs.run("XREAD", "STREAMS", "empty", "+") == b"*-1\r\n"


def busy_log() -> Logs:
    logs = Logs()
    for number in range(20):
        logs.run("XADD", "t", "IDMP", "p", number, "*", "n", number)
    logs.run("XGROUP", "CREATE", "t", "g", "0")
    logs.run("XGROUP", "CREATE", "t", "empty", "$")
    logs.run("XREADGROUP", "GROUP", "g", "c", "COUNT", 9, "STREAMS", "t", ">")
    logs.run("XREADGROUP", "GROUP", "g", "d", "COUNT", 3, "STREAMS", "t", ">")
    logs.run("XTRIM", "t", "MAXLEN", 15)
    return logs


def test_a_log_goes_on_from_a_snapshot_and_the_ledgers_that_are_left() -> None:
    """1. A ledger is full, and the next begins with a snapshot.
    2. All entries of the first ledger are trimmed, and it is deleted.
    3. A hub folds what is left: groups, pending entries and producers are as they were.
    """
    logs = busy_log()
    first_ledger = list(logs.stored[b"t"])
    logs.stored[b"t"] = [encode_run([logs.logs[b"t"].snapshot()])]
    at = logs.run("XADD", "t", "IDMP", "p", "new", "*", "f", "v")
    logs.run("XTRIM", "t", "MAXLEN", 1)
    second_ledger = list(logs.stored[b"t"])
    assert logs.folded(b"t").snapshot() == logs.logs[b"t"].snapshot()
    logs.stored[b"t"] = first_ledger + second_ledger
    assert logs.folded(b"t").snapshot() == logs.logs[b"t"].snapshot()
    logs.logs[b"t"] = logs.folded(b"t")
    assert logs.run("XADD", "t", "IDMP", "p", "new", "*", "f", "v") == at
    assert logs.run("XPENDING", "t", "g").startswith(b"*4\r\n:12\r\n")


def test_entries_of_ledgers_before_the_snapshot_are_kept() -> None:
    logs = busy_log()
    logs.stored[b"t"].append(encode_run([logs.logs[b"t"].snapshot()]))
    assert list(logs.folded(b"t").entries.range()) == list(logs.logs[b"t"].entries.range())


def test_a_run_that_is_damaged_is_refused_by_name() -> None:
    run: list[LogRecord] = [EntryAdded(1, 1, b"*0\r\n")]
    assert decode_run(encode_run(run), "ledger 7, entry 3") == run
    for data in (b"", b"\x91", encode_run(run)[:-1], b"\x91\x91\xcc\xff"):
        with pytest.raises(DamagedError, match="ledger 7, entry 3"):
            decode_run(data, "ledger 7, entry 3")


def test_a_deleted_log_is_as_if_it_had_never_been_but_for_the_numbers() -> None:
    logs = busy_log()
    number = logs.logs[b"t"].entries.number
    assert logs.run("DEL", "t") == b":1\r\n"
    assert logs.logs[b"t"].snapshot() == msgspec.structs.replace(TopicLog().snapshot(), number=number)
    assert logs.run("XADD", "t", "1-1", "f", "v") == b"$3\r\n1-1\r\n"


def test_there_is_no_id_behind_the_last_or_before_the_first() -> None:
    assert after(ID_MAX) is None
    assert before((0, 0)) is None
    assert before((5, 0)) == (4, 2**64 - 1)
    assert after((4, 2**64 - 1)) == (5, 0)


def sequenced(logs: Logs, run: int, n: int, producer: str = "p") -> bytes:
    return logs.run("XADD", "t", "SEQUENCE", producer, run, n, "*", "f", f"{run}/{n}")


def test_an_entry_that_its_producer_has_numbered_is_added_once() -> None:
    logs = Logs()
    first, second = sequenced(logs, 0, 0), sequenced(logs, 0, 1)
    assert sequenced(logs, 0, 1) == second
    assert sequenced(logs, 0, 0) == b"$-1\r\n"
    assert first != second
    sequenced(logs, 7, 0)
    assert sequenced(logs, 0, 2) == b"$-1\r\n"
    sequenced(logs, 0, 0, producer="q")
    assert added(logs) == 4
    folded = logs.folded(b"t")
    assert folded.sequences.rows() == logs.logs[b"t"].sequences.rows()


def test_a_number_that_leaves_a_gap_is_refused_and_nothing_is_added() -> None:
    logs = Logs()
    assert sequenced(logs, 0, 1).startswith(b"-OUTOFORDER the next number of the producer in run 0 is 0")
    sequenced(logs, 0, 0)
    assert sequenced(logs, 0, 2).startswith(b"-OUTOFORDER the next number of the producer in run 0 is 1")
    assert sequenced(logs, 1, 1).startswith(b"-OUTOFORDER")
    assert sequenced(logs, -1, 0).startswith(b"-ERR run and number")
    assert added(logs) == 1


def test_what_producers_have_numbered_is_in_the_snapshot() -> None:
    logs = Logs()
    sequenced(logs, 3, 0)
    again = TopicLog()
    again.apply(logs.logs[b"t"].snapshot())
    logs.logs[b"t"] = again
    assert sequenced(logs, 3, 0).startswith(b"$")
    assert added(logs) == 1
    sequenced(logs, 3, 1)
    assert added(logs) == 2


def test_the_producer_that_was_silent_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.log.sequences.PRODUCERS_MAX", 2)
    logs = Logs()
    for producer, n in (("p", 0), ("q", 0), ("p", 1), ("r", 0)):
        sequenced(logs, 0, n, producer)
    assert [row[0] for row in logs.logs[b"t"].sequences.rows()] == [b"p", b"r"]


def test_steps_divide_what_is_behind_an_id() -> None:
    logs = Logs()
    for number in range(1, 301):
        logs.run("XADD", "t", f"{number}-0", "f", "v")
    logs.run("XDEL", "t", "60-0", "250-0")

    def steps(after: str, step: int, limit: int) -> bytes:
        return logs.run("EQ.STEPS", "t", after, step, limit)

    def reply(behind: int, *ids: str) -> bytes:
        spelled = b"".join(b"$%d\r\n%b\r\n" % (len(at), at.encode()) for at in ids)
        return b"*4\r\n:300\r\n$5\r\n300-0\r\n:%d\r\n*%d\r\n%b" % (behind, len(ids), spelled)

    assert steps("0", 100, 10) == reply(298, "101-0", "201-0")
    assert steps("50", 100, 1) == reply(248, "151-0")
    assert steps("249-0", 1, 2) == reply(50, "251-0", "252-0")
    assert steps("0", 0, 0) == reply(298)
    assert steps("300-0", 1, 1) == reply(0)
    assert steps("0", 0, 1).startswith(b"-ERR a step is at least 1")
    assert logs.run("EQ.STEPS", "none", "0", 1, 1) == b"*4\r\n:0\r\n$3\r\n0-0\r\n:0\r\n*0\r\n"


def test_setting_what_is_set_forgets_nothing_and_can_make_the_log() -> None:
    logs = Logs()
    assert logs.run("XCFGSET", "t", "IDMP-MAXSIZE", "5", "MKSTREAM") == b"+OK\r\n"
    first = logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v")
    assert logs.run("XCFGSET", "t", "IDMP-MAXSIZE", "5", "MKSTREAM") == b"+OK\r\n"
    assert logs.run("XADD", "t", "IDMP", "p", "1", "*", "f", "v") == first


def test_entries_keep_their_numbers_whatever_is_deleted() -> None:
    logs = Logs()
    for number in range(1, 301):
        logs.run("XADD", "t", f"{number}-0", "f", "v")
    log = logs.logs[b"t"]
    logs.run("XDEL", "t", "60-0", *(f"{number}-0" for number in range(101, 201)))
    logs.run("XTRIM", "t", "MINID", "50-0")

    def behind(number: int, of: TopicLog = log) -> list[int]:
        return [n for n, _ in of.entries.behind(number)]

    kept = [*range(50, 60), *range(61, 101), *range(201, 301)]
    assert behind(0) == kept
    assert behind(60) == behind(59) == kept[10:]
    assert behind(150) == kept[50:]
    assert behind(299) == [300]
    assert behind(300) == []
    logs.run("DEL", "t")
    logs.run("XADD", "t", "*", "f", "v")
    assert behind(0) == [301]
    restored = TopicLog()
    restored.apply(log.snapshot())
    restored.change(EntryAdded(2**50, 0, b"*0\r\n"))
    assert behind(0, restored) == [302]
