"""The pods that this worker has begun, on disk: whoever comes after a crash knows what the runs belong to."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rota.api import codec, meta
from rota.client.verbs import Object


class Journal:
    """A folder with a file for each pod."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, pod: Object) -> None:
        """Remember a pod, before anything of it is started."""
        path = self._path(meta.uid(pod))
        draft = path.with_suffix(".draft")
        draft.write_bytes(codec.encode(dict(pod)))
        draft.replace(path)

    def forget(self, uid: str) -> None:
        """Nothing is left of a pod."""
        self._path(uid).unlink(missing_ok=True)

    def pods(self) -> Iterator[dict[str, Any]]:
        """Every pod that was begun and not forgotten."""
        for path in sorted(self._folder.glob("*.json")):
            # A file that was cut off by a crash belongs to a pod that was not begun yet.
            with contextlib.suppress(ValueError, OSError):
                yield codec.decode(path.read_bytes())

    def _path(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"
