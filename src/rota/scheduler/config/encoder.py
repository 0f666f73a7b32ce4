"""The configuration as a document: the input that `resolution.read` would need, with defaults filled in.

Used for `/configz` and for recordings, which must contain the configuration of their decisions. Private keys are left
out.
"""

from typing import Any, Final

import msgspec

from rota.scheduler.config import documents, durations
from rota.scheduler.config.wire import KubeSchedulerConfiguration

_SECRETS: Final = frozenset({"keyData"})


def to_document(settings: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Give the whole configuration as plain JSON data."""
    plain = msgspec.json.decode(msgspec.json.encode(settings, enc_hook=_write))
    written = _without_secrets(documents.without_nulls(plain))
    assert isinstance(written, dict)
    return written


def _write(value: object) -> str:
    if isinstance(value, durations.Duration):
        return durations.written(value)
    raise TypeError(f"no way to write {type(value).__name__} into a configuration file")


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if key not in _SECRETS}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value
