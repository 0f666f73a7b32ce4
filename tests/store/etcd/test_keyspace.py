import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.store import errors, store_interface
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import faults
from rota.store.backends.etcd.keyspace import FORMAT, Keyspace
from rota.store.store_interface import Event

KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).map(
    lambda text: f"/{text}"
)


def keyspace(**notes: int) -> Keyspace:
    space = Keyspace("/rota/", "etcd at here")
    space.read(as_kvs(space, format=FORMAT, **notes), 10)
    return space


def as_kvs(space: Keyspace, **notes: int) -> list[pb.KeyValue]:
    return [
        pb.KeyValue(key=space.note(name), value=b"%d" % value, mod_revision=5, create_revision=5)
        for name, value in notes.items()
    ]


def put(space: Keyspace, key: str, *, at: int, created: int | None = None, before: int = 0) -> pb.Event:
    created = at if created is None else created
    event = pb.Event(kv=pb.KeyValue(key=space.key(key), value=b"new", mod_revision=at, create_revision=created))
    if before:
        event.prev_kv.CopyFrom(pb.KeyValue(value=b"old", mod_revision=before, create_revision=created))
    return event


@given(st.lists(KEYS, min_size=2, max_size=2))
def test_keys_keep_their_order_and_come_back(keys: list[str]) -> None:
    space = keyspace()
    assert [space.entry(pb.KeyValue(key=space.key(key))).key for key in keys] == keys
    assert sorted(keys) == sorted(keys, key=space.key)


@given(KEYS, KEYS, st.integers(0, 3))
def test_a_span_holds_the_keys_of_a_prefix_behind_a_key(key: str, after: str, depth: int) -> None:
    space = keyspace()
    prefix = "/".join([*key.split("/")[:depth], ""]) if depth else ""
    store_interface.check_prefix(prefix)
    span = space.span(prefix, after)
    for name in (key, after, key + "x"):
        inside = name.startswith(prefix) and name > after
        assert (span.start <= space.key(name) < span.end) == inside


def test_revisions_are_etcds_until_a_restore_sets_the_base() -> None:
    space = keyspace()
    assert (space.ours(7), space.theirs(7), space.floor) == (7, 7, 0)
    space = keyspace(base=1000)
    assert (space.ours(7), space.theirs(1007), space.floor) == (1007, 7, 1005)


def test_events_tell_what_was_before() -> None:
    space = keyspace()
    gone = pb.Event(
        type=pb.Event.DELETE,
        kv=pb.KeyValue(key=space.key("/a"), mod_revision=9),
        prev_kv=pb.KeyValue(value=b"new", mod_revision=8, create_revision=7),
    )
    events = [put(space, "/a", at=7), put(space, "/a", at=8, created=7, before=7), gone]
    assert space.events(events, after=0) == [
        Event("/a", 7, b"new", 7, None, 0),
        Event("/a", 8, b"new", 7, b"old", 7),
        Event("/a", 9, None, 7, b"new", 8),
    ]


def test_an_event_whose_past_is_compacted_is_not_passed_off_as_whole() -> None:
    space = keyspace()
    with pytest.raises(faults.Compacted):
        space.events([put(space, "/a", at=8, created=7)], after=0)


def test_notes_are_no_events_and_older_news_of_them_is_no_news() -> None:
    space = keyspace()
    note = pb.Event(kv=pb.KeyValue(key=space.note("restoring"), value=b"token", mod_revision=9, create_revision=9))
    assert space.events([note], after=0) == []
    space.heed([note])
    assert space.restoring == b""
    note.kv.mod_revision = 11
    space.heed([note])
    assert space.restoring == b"token"
    space.read(as_kvs(space, format=FORMAT), 10)
    assert space.restoring == b"token"
    space.read(as_kvs(space, format=FORMAT), 12)
    assert space.restoring == b""


def test_a_newer_format_or_a_foreign_meta_key_is_refused() -> None:
    space = Keyspace("/rota/", "etcd at here")
    with pytest.raises(errors.NewerFormat):
        space.read(as_kvs(space, format=FORMAT + 1), 10)
    with pytest.raises(errors.Corrupt, match="not Rota's"):
        space.read([pb.KeyValue(key=space.note("format"), value=b"theirs")], 10)
    with pytest.raises(errors.BadAddress, match="no store"):
        space.read([], 10)
