"""Settings as a document again: what `resolution.read` would read them from, defaults filled in.

For `/configz`, and for recordings, which must say by what they were decided.
"""

from typing import Any

import msgspec

from rota.scheduler.config import documents, durations
from rota.scheduler.config.wire import KubeSchedulerConfiguration


def to_document(settings: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Give the whole configuration as plain JSON data."""
    written = documents.without_nulls(msgspec.to_builtins(settings, enc_hook=_write))
    assert isinstance(written, dict)
    return written


def _write(value: object) -> str:
    if isinstance(value, durations.Duration):
        return durations.written(value)
    raise TypeError(f"no way to write {type(value).__name__} into a configuration file")
