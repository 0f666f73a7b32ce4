"""Validation errors of a configuration and their paths.

A fault is one sentence about one field. Its path is written as in Kubernetes' messages:
`profiles[0].plugins.score.enabled[2].name`. A check yields all faults that it finds, so that a user can fix all of them
at once. `ConfigurationError` carries them out of this package; the checks themselves do not raise it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rota.kit.errors import UserError


@dataclass(frozen=True, slots=True)
class Fault:
    """One error: a path into the document ("" is the whole document) and how to fix it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def below(self, parent: str) -> "Fault":
        """The same fault with its path relative to the parent document, in which it lies below `parent`."""
        return Fault(join(parent, self.path), self.message)


class ConfigurationError(UserError):
    """A scheduler configuration was refused; each line names a field to fix."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def join(parent: str, child: str) -> str:
    """Put a child's path behind its parent's: names with a dot, indices without."""
    if not parent or not child:
        return parent or child
    return f"{parent}{child}" if child.startswith("[") else f"{parent}.{child}"
