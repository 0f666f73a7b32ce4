"""Times as objects carry them (RFC 3339), in seconds since the epoch."""

from datetime import datetime


def seconds(text: str) -> float:
    """Give the seconds of a time; 0 for none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
