"""What is wrong with a configuration, and where.

A fault is one sentence about one place, and the place is written as in Kubernetes' own messages:
`profiles[0].plugins.score.enabled[2].name`. A check yields as many faults as it finds, so that a user who
mends a file sees all of them at once. `ConfigurationError` carries them out of the room; nothing below raises
it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rota.kit.errors import UserError


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: a path into the document ("" is all of it) and what to do about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def below(self, parent: str) -> "Fault":
        """Give the same fault, seen from the value that holds the one at `parent`."""
        return Fault(join(parent, self.path), self.message)


class ConfigurationError(UserError):
    """A scheduler configuration was refused; each line names the field to mend."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def join(parent: str, child: str) -> str:
    """Put a child's path behind its parent's: names with a dot, indices without."""
    if not parent or not child:
        return parent or child
    return f"{parent}{child}" if child.startswith("[") else f"{parent}.{child}"
