"""Decodes an object once for all informers of a process.

The components of a master each watch pods with their own informer, and get the same bytes one after the other. With
this cache they decode them once and share one copy. Objects of an informer must not be changed, because others see the
change.
"""

import functools
from typing import Any, Final

from rota.api import codec

#: The number of changes by which a slow component may be behind a fast one.
_REMEMBERED: Final = 256


@functools.lru_cache(maxsize=_REMEMBERED)
def shared(raw: bytes) -> dict[str, Any]:
    """The object of these bytes, one shared copy."""
    return codec.decode(raw)
