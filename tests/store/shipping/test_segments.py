"""Segments: what was confirmed is read back whatever happened to the last frame; other damage is an error."""

from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.store import errors
from rota.store.shipping import segments
from rota.store.shipping.segments import Record, SegmentWriter
from rota.store.store_interface import Batch, Event

KEY = b"k" * 32


def batch(revision: int, value: bytes = b"v") -> Batch:
    return Batch([Event(f"/k/{revision}", revision, value, revision, None)], revision)


def written(path: Path, count: int, *, complete: bool = False, key: bytes | None = None) -> list[int]:
    """Write records; returns the size of the file after each, the header first."""
    writer = SegmentWriter.create(path, after=10, key=key)
    sizes = [writer.size]
    for number in range(count):
        writer.append(batch(11 + number), taken_at=100.0 + number)
        sizes.append(writer.size)
    if complete:
        writer.complete()
    else:
        writer.abandon()
    return sizes


def revisions(path: Path, key: bytes | None = None) -> list[int]:
    return [record.revision for record in segments.read(path, key=key)]


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    written(tmp_path / "s", 3, complete=True)
    first = next(segments.read(tmp_path / "s"))
    assert first == Record(100.0, 11, [segments.Change("/k/11", 11, b"v", 11)])
    found = segments.inspect(tmp_path / "s")
    assert found is not None
    assert (found.after, found.revision, found.first_at, found.last_at, found.complete) == (10, 13, 100.0, 102.0, True)
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


@given(data=st.data())
def test_a_cut_at_any_byte_keeps_every_frame_before_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("segments") / "s"
    key = data.draw(st.sampled_from([None, KEY]))
    sizes = written(path, 4, key=key)
    cut = data.draw(st.integers(0, sizes[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    assert revisions(path, key) == [11 + number for number, size in enumerate(sizes[1:]) if size <= cut]
    assert (segments.inspect(path, key=key) is None) is (cut < sizes[0])


@given(data=st.data())
def test_a_changed_byte_never_changes_a_record(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("segments") / "s"
    key = data.draw(st.sampled_from([None, KEY]))
    sizes = written(path, 4, complete=True, key=key)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    intact = [11 + number for number, size in enumerate(sizes[1:]) if size <= place]
    try:
        assert revisions(path, key) == intact or place >= sizes[-1]
    except errors.Corrupt:
        pass
    else:
        found = segments.inspect(path, key=key)
        assert found is None or not found.complete


def test_damage_in_the_middle_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    sizes = written(tmp_path / "s", 3)
    content = bytearray((tmp_path / "s").read_bytes())
    content[sizes[1] - 1] ^= 1
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(errors.Corrupt, match=r"segment .*/s is damaged: a frame in its middle"):
        revisions(tmp_path / "s")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"something else entirely")
    with pytest.raises(errors.Corrupt, match="is not a segment"):
        revisions(tmp_path / "s")


def test_a_failed_write_leaves_the_confirmed_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SegmentWriter.create(tmp_path / "s", after=10)
    writer.append(batch(11), taken_at=1.0)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            writer.append(batch(12), taken_at=2.0)
    assert (tmp_path / "s").stat().st_size == writer.size
    writer.append(batch(13), taken_at=3.0)
    writer.complete()
    assert revisions(tmp_path / "s") == [11, 13]


def test_an_encrypted_segment_ends_with_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another frame in the place of the failed one would have its nonce."""
    writer = SegmentWriter.create(tmp_path / "s", after=10, key=KEY)
    writer.append(batch(11), taken_at=1.0)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            writer.append(batch(12), taken_at=2.0)
    with pytest.raises(OSError, match="an earlier write"):
        writer.append(batch(13), taken_at=3.0)
    writer.complete()
    assert (tmp_path / "s").stat().st_size == writer.size
    assert revisions(tmp_path / "s", KEY) == [11]


class BrokenDisk:
    """A file that takes a part of a frame and can then not be cut."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.broken = True
        self.fileno, self.close = file.fileno, file.close

    def write(self, content: bytes) -> int:
        if not self.broken:
            return self._file.write(content)
        self._file.write(content[:-1])
        raise OSError(28, "No space left on device")

    def truncate(self, _: int) -> None:
        raise OSError(5, "Input/output error")


def test_a_segment_whose_failed_frame_cannot_be_removed_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter.create(tmp_path / "s", after=10)
    writer.append(batch(11), taken_at=1.0)
    disk = BrokenDisk(writer._file)
    monkeypatch.setattr(writer, "_file", disk)
    with pytest.raises(OSError, match="Input/output error"):
        writer.append(batch(12), taken_at=2.0)
    disk.broken = False
    writer.complete()
    assert revisions(tmp_path / "s") == [11]


def test_a_frame_of_another_segment_does_not_open(tmp_path: Path) -> None:
    first = written(tmp_path / "a", 2, key=KEY)
    written(tmp_path / "b", 2, key=KEY)
    a, b = (tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()
    (tmp_path / "c").write_bytes(a[: first[1]] + b[first[1] :])
    # The digests do not fit either: to a reader the segment ends there.
    assert revisions(tmp_path / "c", KEY) == [11]


@pytest.mark.parametrize("key", [None, KEY])
def test_a_reader_sees_what_was_there_when_it_began_while_the_segment_grows(tmp_path: Path, key: bytes | None) -> None:
    writer = SegmentWriter.create(tmp_path / "s", after=10, key=key)
    writer.append(batch(11), taken_at=1.0)
    reading = segments.read(tmp_path / "s", key=key)
    assert next(reading).revision == 11
    writer.append(batch(12), taken_at=2.0)
    writer.complete()
    assert list(reading) == []
    assert revisions(tmp_path / "s", key) == [11, 12]
