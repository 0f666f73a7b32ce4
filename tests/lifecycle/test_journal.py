"""The journal: what survives a killed runner, and what it refuses."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from tests.lifecycle.specs import parsed

from rota.kit.errors import UserError
from rota.lifecycle import journal
from rota.lifecycle.journal import Journal
from rota.lifecycle.steps import Action, Plan, Step

STEPS = tuple(Step(stage=1, action=Action.PREPARE, member=name) for name in ("m1", "w1"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return journal.path_of(tmp_path / "cluster.yaml")


def begun(path: Path) -> None:
    """A runner that was killed after the first of two steps."""
    kept = Journal(path, "lab")
    kept.begin("create", Plan(steps=STEPS), at=7.0)
    for member in parsed().members:
        kept.placing(member)
    kept.done(STEPS[0])
    kept._file.close()


def test_members_are_known_with_all_their_fields_and_the_operation_as_unfinished(path: Path) -> None:
    begun(path)
    record = journal.read(path)
    assert record.inventory == {one.name: one for one in parsed().members}
    assert (record.verb, record.began_at, record.done) == ("create", 7.0, {"prepare/m1"})
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("torn", [b"{", b'{"is": "removed", "name": "m1"'])
def test_an_incomplete_last_line_is_ignored_and_the_next_line_is_whole(path: Path, torn: bytes) -> None:
    begun(path)
    with path.open("ab") as file:
        file.write(torn)
    assert set(journal.read(path).inventory) == {"m1", "w1"}
    with Journal(path, "lab") as kept:
        kept.removed("w1")
    assert set(journal.read(path).inventory) == {"m1"}
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_last_line_without_its_end_is_written_again(path: Path) -> None:
    begun(path)
    path.write_bytes(path.read_bytes() + b'{"is": "removed", "name": "w1"}')
    with Journal(path, "lab") as kept:
        assert set(kept.record.inventory) == {"m1", "w1"}
        kept.removed("w1")
    assert set(journal.read(path).inventory) == {"m1"}


def test_a_journal_that_was_removed_before_it_was_locked_is_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(path)
    lock = fcntl.flock

    def removed_before(*arguments: Any) -> None:
        path.unlink()
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with pytest.raises(UserError, match="has just ended"):
        Journal(path, "lab")


def test_an_ended_operation_is_not_unfinished(path: Path) -> None:
    begun(path)
    with Journal(path, "lab") as kept:
        kept.end()
    assert not journal.read(path).verb


def test_a_cluster_without_members_leaves_no_journal(path: Path) -> None:
    begun(path)
    with Journal(path, "lab") as kept:
        kept.removed("m1")
        kept.removed("w1")
        kept.end()
    assert not path.exists()


def test_a_command_that_was_refused_before_anything_was_placed_leaves_no_journal(path: Path) -> None:
    with pytest.raises(UserError, match="refused"), Journal(path, "lab"):
        raise UserError("refused")
    assert not path.exists()


def test_two_runners_do_not_work_at_once(path: Path) -> None:
    begun(path)
    with Journal(path, "lab"), pytest.raises(UserError, match="another command works with"):
        Journal(path, "lab")


def test_the_journal_of_another_cluster_or_a_damaged_one_is_refused(path: Path) -> None:
    begun(path)
    with pytest.raises(UserError, match="is of the cluster lab"):
        Journal(path, "other")
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(UserError, match=r"line 1 of .* is no line of a journal"):
        journal.read(path)
