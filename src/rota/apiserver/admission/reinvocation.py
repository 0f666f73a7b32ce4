"""Which webhooks and policies of users a second round calls again: those that ask for it, if something changed since.

Webhooks and policies have a record each. What a webhook changes makes the webhooks before it due; policies become due
because their round begins with another object than the one they left.
"""

from dataclasses import dataclass, field

from rota.apiserver.interfaces import Object


@dataclass(slots=True)
class Round:
    """What happened to one request so far, for a second round."""

    number: int = 0
    #: Webhooks or policies that are called again if something changes after them.
    called: set[str] = field(default_factory=set)
    #: Those that are called in the second round.
    due: set[str] = field(default_factory=set)
    #: The object as the last of them left it.
    left: Object | None = None

    def changed(self) -> None:
        """The object has changed: everything that was called before is due again."""
        self.due |= self.called
        self.called = set()

    def skips(self, uid: str) -> bool:
        """Whether this round does without one."""
        return self.number > 0 and uid not in self.due
