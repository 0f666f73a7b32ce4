"""Checkpoint: the pods that this worker has started, on disk, so that the next worker knows what the runs belong to."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rota.api import codec, meta
from rota.client.verbs import Object
from rota.worker.append_log import AppendLog


class Checkpoint:
    """The pods of one worker, in a file."""

    def __init__(self, path: Path) -> None:
        self._append_log: Final = AppendLog(path)

    def __len__(self) -> int:
        return len(self._append_log)

    def write(self, pod: Object) -> None:
        """Add a pod, before any of it is started."""
        self._append_log.put(meta.uid(pod), codec.encode(dict(pod)))

    def forget(self, uid: str) -> None:
        """Remove a pod of which nothing is left."""
        self._append_log.drop(uid)

    def pods(self) -> Iterator[dict[str, Any]]:
        """Every pod that was added and not removed."""
        for text in self._append_log.texts():
            # An unreadable entry was truncated by a crash and belongs to a pod that was not started.
            with contextlib.suppress(ValueError):
                yield codec.decode(text)

    def close(self) -> None:
        """Close the file."""
        self._append_log.close()
