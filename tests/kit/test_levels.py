"""Which releases work together, by their levels."""

import pytest

from rota.kit import levels
from rota.kit.errors import UserError
from rota.kit.levels import Levels
from rota.store import archive, roles
from rota.store.backends.etcd import keyspace
from rota.store.backends.postgres import schema as postgres_schema
from rota.store.backends.sqlite import schema as sqlite_schema
from rota.store.shipping import segments


def test_a_release_works_at_its_level_and_the_one_before() -> None:
    assert levels.OWN.oldest == levels.OWN.newest - 1


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (2, "needs level 3 or more; upgrade to a release of level 3 first"),
        (3, ""),
        (4, ""),
        (5, "knows levels up to 4; use a release of level 5"),
    ],
)
def test_a_master_works_at_its_level_and_the_one_before(cluster: int, says: str) -> None:
    fault = levels.master_fault(cluster, Levels(3, 4))
    assert says in str(fault) if says else fault is None


@pytest.mark.parametrize(
    ("masters", "says"),
    [
        (2, "upgrade the masters first"),
        (3, ""),
        (4, ""),
        (5, ""),
        (6, "install a release of level 5 or more for this worker"),
    ],
)
def test_a_worker_may_be_one_level_older_or_newer_than_the_masters(masters: int, says: str) -> None:
    fault = levels.worker_fault(Levels(masters - 1, masters), Levels(3, 4))
    assert says in str(fault) if says else fault is None


def test_the_level_is_raised_by_one_when_every_member_allows_it() -> None:
    new, old, ancient = Levels(3, 4), Levels(2, 3), Levels(1, 2)
    assert levels.target(3, {"a": new, "b": new}, {"w": old}, new) == 4
    assert levels.target(4, {"a": new}, {}, new) == 4
    with pytest.raises(UserError, match="b does not know level 4; upgrade that master"):
        levels.target(3, {"a": new, "b": old}, {}, new)
    with pytest.raises(UserError, match="the worker w is more than one level behind 4; upgrade that worker"):
        levels.target(3, {"a": new}, {"v": old, "w": ancient}, new)


@pytest.mark.parametrize(("text", "found"), [("2-3", Levels(2, 3)), ("", Levels(1, 1)), ("new", Levels(1, 1))])
def test_a_release_that_declares_nothing_has_the_first_level(text: str, found: Levels) -> None:
    assert Levels.read(text) == found
    assert Levels.read(str(found)) == found


def test_the_declared_formats_are_those_that_the_code_writes() -> None:
    record = roles.encode(roles.Role(level=levels.OWN.newest))
    assert dict(levels.FORMATS) == {
        "backup": archive.FORMAT,
        "backup log": segments.FORMAT,
        "SQLite schema": sqlite_schema.FORMAT,
        "PostgreSQL schema": postgres_schema.FORMAT,
        "etcd keys": keyspace.FORMAT,
        "record of the store's role": int(record.decode().partition("/")[2][0]),
    }
