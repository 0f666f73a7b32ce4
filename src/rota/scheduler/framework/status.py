"""The status that a plugin returns: a code, the reasons, and the plugin's name (set by the framework).

A refusal is a value, never an exception. Reasons are constants, so that thousands of nodes share one status and
messages can be counted. The effect of each code on an attempt is written beside it.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    """The outcome of one call to a plugin; the values are kube-scheduler's names."""

    #: Go on.
    SUCCESS = "Success"
    #: A failure; the attempt ends and is repeated after a backoff.
    ERROR = "Error"
    #: Refused; evicting pods from this node might help.
    UNSCHEDULABLE = "Unschedulable"
    #: Refused, and no eviction on this node can help.
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    #: Permit and PlacementFeasible only: the decision comes later.
    WAIT = "Wait"
    #: PreFilter: skip this plugin's Filter. PreScore: skip its Score. Bind: another plugin binds.
    SKIP = "Skip"
    #: Something outside must happen first; the pod is then retried without a backoff.
    PENDING = "Pending"


#: Codes that refuse a pod or a node without being a failure.
REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer; compare `code`, show `reasons`."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    #: The plugin; the framework fills it in.
    plugin: str = ""
    #: The exception of a plugin that raised; not part of the value.
    error: Exception | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the attempt may continue."""
        return self.code is Code.SUCCESS

    @property
    def skipped(self) -> bool:
        """Whether the plugin skips this pod."""
        return self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Whether this refuses a pod or a node (as opposed to a failure)."""
        return self.code in REJECTED

    def by(self, plugin: str) -> "Status":
        """The same status with the plugin's name."""
        return Status(self.code, self.reasons, plugin, self.error)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Refuse; evicting pods might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Refuse; evicting pods cannot help."""
    return Status(Code.UNRESOLVABLE, reasons)


def fault(error: Exception, *, plugin: str = "") -> Status:
    """Turn the exception of a plugin into an Error status."""
    return Status(Code.ERROR, (f"{type(error).__name__}: {error}",), plugin, error)
