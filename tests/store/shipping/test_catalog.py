"""Which files of a continuous backup there are, and which are no longer needed."""

from pathlib import Path

import pytest

from rota.store.shipping import catalog
from rota.store.shipping.catalog import Base
from rota.store.shipping.segments import Segment, SegmentWriter


def obsolete(bases: list[Base], logs: list[Segment], before: float) -> set[str]:
    return {path.name for path in catalog.obsolete(bases, logs, before=before)}


def segment(name: str, after: int, revision: int, *, complete: bool = True) -> Segment:
    return Segment(Path(name), after, revision, float(after), float(revision), complete)


def test_a_segment_that_was_never_completed_is_removed_like_others() -> None:
    """A killed follower, or a full disk under an encrypted one, leaves such a segment."""
    bases = [Base(Path("base-1"), 1, 1.0), Base(Path("base-9"), 9, 9.0)]
    logs = [segment("log-1", 1, 5, complete=False), segment("log-5", 5, 12)]
    assert obsolete(bases, logs, before=10.0) == {"base-1", "log-1"}


def test_the_segment_that_may_be_being_written_stays() -> None:
    bases = [Base(Path("base-1"), 1, 1.0), Base(Path("base-9"), 9, 9.0)]
    logs = [segment("log-1", 1, 5), segment("log-5", 5, 9, complete=False)]
    assert obsolete(bases, logs, before=10.0) == {"base-1", "log-1"}


def test_older_backups_of_a_store_that_did_not_change_are_removed() -> None:
    """In a bucket, backups of one revision have different names."""
    bases = [Base(Path(f"base-{hour}"), 7, float(hour)) for hour in range(4)]
    assert obsolete(bases, [], before=2.0) == {"base-0", "base-1"}


def test_files_that_are_removed_while_a_folder_is_read_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SegmentWriter.create(catalog.segment_path(tmp_path, 5), after=5).complete()
    gone = [catalog.base_path(tmp_path, 1), catalog.segment_path(tmp_path, 1), catalog.segment_path(tmp_path, 5)]
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(gone))
    found = catalog.read(tmp_path)
    assert found.bases == []
    assert [one.after for one in found.segments] == [5]
