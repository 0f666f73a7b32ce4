"""The hash of names and tie-breaks."""

_PRIME = 16777619
_BASIS = 2166136261


def fnv32a(text: str) -> int:
    """The 32-bit FNV-1a hash of a text."""
    value = _BASIS
    for byte in text.encode():
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return value
