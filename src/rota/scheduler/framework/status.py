"""What a plugin answers: a code, the reasons for people, and (stamped by the framework) the plugin's name.

A refusal is a value, never an exception. Reasons are constants, so that thousands of nodes share one status and
messages can be counted. What each code does to a scheduling attempt is written beside it.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    """The outcome of one call to a plugin; the values are kube-scheduler's names."""

    #: Go on.
    SUCCESS = "Success"
    #: Something is broken; the attempt ends and is repeated after a pause.
    ERROR = "Error"
    #: Refused here and now; evicting pods from this node might help.
    UNSCHEDULABLE = "Unschedulable"
    #: Refused, and no eviction on this node can help.
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    #: Permit and PlacementFeasible only: hold on, the answer comes later.
    WAIT = "Wait"
    #: PreFilter: leave out my Filter. PreScore: leave out my Score. Bind: not mine.
    SKIP = "Skip"
    #: Decided, but something outside must happen first; the pod goes back without a pause when it has.
    PENDING = "Pending"


#: Codes that turn a pod or a node away without being a fault.
REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """An answer of a plugin; compare `code`, show `reasons`."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    #: The plugin that answered; the framework fills it in.
    plugin: str = ""
    #: What a raising plugin raised; not part of the value.
    error: Exception | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the attempt may go on."""
        return self.code is Code.SUCCESS

    @property
    def skipped(self) -> bool:
        """Whether the plugin has nothing to do with this pod."""
        return self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Whether this turns a pod or a node away (as opposed to a fault)."""
        return self.code in REJECTED

    def by(self, plugin: str) -> "Status":
        """Give the same answer, stamped with the plugin's name."""
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
    """Turn what a plugin raised into an Error status that says so."""
    return Status(Code.ERROR, (f"{type(error).__name__}: {error}",), plugin, error)
