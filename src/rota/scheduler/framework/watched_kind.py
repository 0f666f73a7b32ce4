"""A kind that a plugin reads; `ingest/watched_kinds` says what the scheduler does with it."""

from dataclasses import dataclass

from rota.scheduler.framework.events import Resource


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind and its resource: group, version and plural name."""

    kind: str
    target: tuple[str, str, str]
    #: The name under which plugins subscribe to its changes; `silent` kinds are read and wake no pods.
    resource: Resource | str = ""
    silent: bool = False

    @property
    def event_resource(self) -> Resource | str | None:
        """The resource in subscriptions; None for a kind that wakes no pods."""
        if self.silent:
            return None
        group, version, plural = self.target
        return self.resource or f"{plural}.{version}.{group}"
