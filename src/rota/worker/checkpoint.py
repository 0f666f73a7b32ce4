"""The pods that this worker has begun, on disk: whoever comes after a crash knows what the runs belong to."""

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
        """Remember a pod, before anything of it is started."""
        self._append_log.put(meta.uid(pod), codec.encode(dict(pod)))

    def forget(self, uid: str) -> None:
        """Nothing is left of a pod."""
        self._append_log.drop(uid)

    def pods(self) -> Iterator[dict[str, Any]]:
        """Every pod that was begun and not forgotten."""
        for text in self._append_log.texts():
            # What cannot be read was cut off by a crash, and belongs to a pod that was not begun yet.
            with contextlib.suppress(ValueError):
                yield codec.decode(text)

    def close(self) -> None:
        """Write no more."""
        self._append_log.close()
