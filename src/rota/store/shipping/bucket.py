"""A prefix of an S3 bucket as the place of a continuous backup.

Objects cannot be appended to. So a part of the log is written again while it grows, under a name with its last
revision, and its former object is deleted; after a kill in between both are there, and either is read. The names carry
what a catalog needs, so a catalog takes list requests only.
"""

import contextlib
import errno
import re
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rota.kit import clock, logs
from rota.store import archive
from rota.store.shipping import catalog, s3_client
from rota.store.shipping.places import ClaimLost, PlaceRefused
from rota.store.shipping.s3_client import S3Client
from rota.store.shipping.segments import Segment, SegmentWriter
from rota.store.store_interface import Batch

log = logs.get(__name__)

#: A request a second costs little, and a second may be lost.
PAUSE_S: Final = 1.0
_CLAIM: Final = "follower"
_OWNER: Final = "store-identity"
_PROBE: Final = "probe"
_CLAIM_CHECK_S: Final = 30.0
_DOWNLOADS: Final = 8
_US: Final = 1e6
_BASE_NAME: Final = re.compile(r"base-(\d{20})-(\d+)\.backup")
_PART_NAME: Final = re.compile(r"log-(\d{20})-(\d{20})-(\d+)-(\d+)\.segment")


class BucketPlace:
    """Keeps a continuous backup under a prefix. `scratch` is a private folder for files on their way."""

    #: How much of the log is at most uploaded again with the next changes.
    part_bytes: Final = 256 * 1024

    def __init__(
        self,
        client: S3Client,
        prefix: str,
        *,
        name: str,
        scratch: Path,
        time: clock.Clock,
        key: bytes | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.name: Final = name
        self.key: Final = key
        self.pause_s: Final = pause_s
        self._client: Final = client
        self._prefix: Final = f"{prefix}/" if prefix else ""
        self._scratch: Final = scratch
        self._time: Final = time
        self._claim = b""
        self._claim_checked = 0.0

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Write a claim. A later claim wins: a writer that finds another one than its own ends."""
        self._claim = secrets.token_hex(16).encode()
        self._client.put(self._prefix + _CLAIM, self._claim)
        self._claim_checked = self._time.monotonic()
        yield

    def owner(self) -> str:
        """The content of an object."""
        try:
            return self._client.get(self._prefix + _OWNER).decode()
        except s3_client.S3Missing:
            return ""

    def belong_to(self, identity: str) -> None:
        """Write the object."""
        self._client.put(self._prefix + _OWNER, identity.encode())

    def catalog(self) -> catalog.Catalog:
        """What the bucket holds, from the names of its objects."""
        bases, parts = [], []
        names = [key.removeprefix(self._prefix) for key in self._client.list(self._prefix)]
        for name in names:
            if match := _BASE_NAME.fullmatch(name):
                bases.append(catalog.Base(self._scratch / name, int(match[1]), int(match[2]) / _US))
            elif match := _PART_NAME.fullmatch(name):
                after, revision = int(match[1]), int(match[2])
                first, last = int(match[3]) / _US, int(match[4]) / _US
                parts.append(Segment(self._scratch / name, after, revision, first, last, complete=True))
        return catalog.Catalog(bases, parts)

    def local(self, path: Path) -> Path:
        """Download an object, once."""
        if not path.exists():
            try:
                self._client.download(self._prefix + path.name, path)
            except s3_client.S3Missing as problem:
                # The follower replaced it by a longer one, or removed it as too old.
                raise FileNotFoundError(errno.ENOENT, str(problem)) from problem
        return path

    def forget(self, path: Path) -> None:
        """Delete the copy on this machine."""
        path.unlink(missing_ok=True)

    def parts(self, after: int) -> list[tuple[int, Path]]:
        """The objects whose last revision is above this one."""
        return [(part.after, part.path) for part in self.catalog().segments if part.revision > after]

    def prefetch(self, paths: Iterable[Path]) -> None:
        """Download several objects at a time."""
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            list(pool.map(self.local, paths))

    def begin(self, after: int) -> "_PartWriter":
        """Begin a part of the log."""
        return _PartWriter(self, self._scratch / f".log-{after}", after)

    def draft(self) -> Path:
        """A file of this machine."""
        return self._scratch / ".base.new"

    def keep_base(self, draft: Path) -> None:
        """Upload a base backup."""
        header = archive.header(draft, key=self.key)
        self.upload(f"base-{header.revision:020}-{round(header.taken_at * _US)}.backup", draft)
        draft.unlink()

    def remove(self, path: Path) -> None:
        """Delete an object."""
        try:
            self._client.delete(self._prefix + path.name)
        except (s3_client.S3Refused, OSError) as problem:
            # Some buckets keep objects by policy; a superfluous object does no harm.
            log.warning("cannot delete an object", name=path.name, problem=str(problem))

    def probe(self) -> None:
        """Raise OSError or PlaceRefused if nothing can be written."""
        with _may_pass():
            self._client.put(self._prefix + _PROBE, b"")

    def upload(self, name: str, path: Path) -> None:
        """Write an object, unless another writer has claimed the place."""
        with _may_pass():
            if self._time.monotonic() - self._claim_checked >= _CLAIM_CHECK_S:
                if self._client.get(self._prefix + _CLAIM) != self._claim:
                    raise ClaimLost(
                        f"another `rota backup` writes to {self.name}", "end one of them, or name another prefix"
                    )
                self._claim_checked = self._time.monotonic()
            self._client.put(self._prefix + name, path)


@contextlib.contextmanager
def _may_pass() -> Iterator[None]:
    """A refusal in the middle of a backup ends nothing: the follower holds history and tries again."""
    try:
        yield
    except s3_client.S3Refused as problem:
        raise PlaceRefused(problem.message, problem.remedy) from problem


class _PartWriter:
    """Writes a part of the log to a file, and uploads the file with each batch."""

    def __init__(self, place: BucketPlace, path: Path, after: int) -> None:
        self._place: Final = place
        self._path: Final = path
        self._after: Final = after
        self._segment: Final = SegmentWriter.create(path, after=after, key=place.key)
        self._first_us = 0
        self._former = ""

    @property
    def size(self) -> int:
        """The size of the file."""
        return self._segment.size

    def append(self, batch: Batch, taken_at: float) -> None:
        """Upload the part with another batch."""
        self._segment.append(batch, taken_at)
        at = round(taken_at * _US)
        self._first_us = self._first_us or at
        name = f"log-{self._after:020}-{batch.revision:020}-{self._first_us}-{at}.segment"
        self._place.upload(name, self._path)
        if self._former:
            self._place.remove(Path(self._former))
        self._former = name

    def complete(self) -> None:
        """Remove the file; everything confirmed is in the bucket."""
        self._segment.abandon()
        self._path.unlink(missing_ok=True)
