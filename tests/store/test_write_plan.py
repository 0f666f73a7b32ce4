"""Planning of a batch of work, without a database."""

from rota.store.store_interface import Committed, Delete, Entry, Precondition, Put, Refused, Transaction
from rota.store.write_plan import Lease, LeaseLost, Plan, RevokeLease, Row, Work, plan, touched_keys, touched_leases


def row(key: str, revision: int, *, created: int = 0, lease: int = 0, heartbeat: bool = False) -> Row:
    return Row(Entry(key, b"old", revision, created or revision, lease), heartbeat)


def book(
    *work: Work, rows: tuple[Row, ...] = (), leases: dict[int, Lease] | None = None, head: int = 10, floor: int = 0
) -> Plan:
    return plan(work, {row.entry.key: row for row in rows}, leases or {}, head=head, floor=floor)


def put(key: str, *guards: Precondition, lease: int = 0, heartbeat: bool = False) -> Transaction:
    return Transaction((Put(key, b"new", lease, heartbeat),), guards)


def test_transactions_of_one_batch_see_each_other() -> None:
    absent = Precondition("/x", revision=0)
    result = book(put("/x", absent), put("/x", absent), put("/x", Precondition("/x", revision=11)))
    assert [type(verdict) for verdict in result.verdicts] == [Committed, Refused, Committed]
    assert result.revision == 12
    assert [event.revision for event in result.events] == [11, 12]
    assert result.rows["/x"] == Row(Entry("/x", b"new", 12, 11))


def test_a_key_made_and_deleted_in_one_batch_leaves_two_events_and_no_row() -> None:
    result = book(put("/x"), Transaction((Delete("/x"),)))
    assert result.rows == {"/x": None}
    assert [event.is_delete for event in result.events] == [False, True]


def test_a_refused_transaction_takes_no_revision() -> None:
    result = book(put("/x", Precondition("/x", revision=3)), put("/y"))
    assert isinstance(result.verdicts[0], Refused)
    assert result.verdicts[1] == Committed(11)


def test_a_heartbeat_supersedes_the_one_before_it() -> None:
    result = book(put("/x", heartbeat=True), rows=(row("/x", 8, created=3, heartbeat=True),))
    assert result.records[0].supersedes == 8


def test_a_heartbeat_supersedes_neither_a_creation_nor_another_write_nor_what_is_compacted() -> None:
    for before, floor in [
        (row("/x", 8, created=8, heartbeat=True), 0),
        (row("/x", 8, created=3, heartbeat=False), 0),
        (row("/x", 8, created=3, heartbeat=True), 8),
    ]:
        assert book(put("/x", heartbeat=True), rows=(before,), floor=floor).records[0].supersedes == 0
    ordinary = book(put("/x"), rows=(row("/x", 8, created=3, heartbeat=True),))
    assert ordinary.records[0].supersedes == 0


def test_heartbeats_of_one_batch_supersede_each_other() -> None:
    result = book(put("/x", heartbeat=True), put("/x", heartbeat=True), rows=(row("/x", 8, created=3),))
    assert [record.supersedes for record in result.records] == [0, 11]


def test_ending_a_lease_deletes_what_lives_by_it_in_one_revision() -> None:
    rows = (row("/a", 4, lease=7), row("/b", 5, lease=7), row("/c", 6, lease=8))
    leases = {7: Lease(expired=True, keys=frozenset({"/a", "/b"}))}
    result = book(RevokeLease(7, only_expired=True), rows=rows, leases=leases)
    assert result.rows == {"/a": None, "/b": None}
    assert {event.revision for event in result.events} == {11}
    assert result.ended == [7]


def test_a_valid_lease_is_not_ended_as_expired() -> None:
    result = book(RevokeLease(7, only_expired=True), leases={7: Lease(expired=False)})
    assert (result.verdicts, result.ended) == ([Refused(())], [])
    assert book(RevokeLease(9)).verdicts == [Refused(())]


def test_a_key_that_took_up_a_lease_in_the_same_batch_goes_with_it() -> None:
    result = book(put("/x", lease=7), RevokeLease(7), leases={7: Lease(expired=False)})
    assert result.rows == {"/x": None}


def test_a_key_that_left_a_lease_in_the_same_batch_stays() -> None:
    leases = {7: Lease(expired=False, keys=frozenset({"/x"}))}
    result = book(put("/x"), RevokeLease(7), rows=(row("/x", 4, lease=7),), leases=leases)
    assert result.rows["/x"] is not None


def test_a_write_under_a_lease_that_is_gone_does_nothing() -> None:
    for leases in ({}, {7: Lease(expired=True)}):
        result = book(put("/x", lease=7), leases=leases)
        assert (result.verdicts, result.rows) == ([LeaseLost(7)], {})
    both = book(RevokeLease(7), put("/x", lease=7), leases={7: Lease(expired=False)})
    assert both.verdicts[1] == LeaseLost(7)


def test_the_plan_names_the_keys_to_read() -> None:
    work: list[Work] = [
        put("/x", Precondition("/g", revision=1), lease=3),
        RevokeLease(7),
        Transaction((Delete("/d"),)),
    ]
    assert touched_leases(work) == {3, 7}
    assert touched_keys(work, {7: Lease(expired=True, keys=frozenset({"/k"}))}) == {"/x", "/g", "/d", "/k"}
