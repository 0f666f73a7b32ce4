"""How far the calls of a client are."""

from dataclasses import dataclass

from rota.python.lease_manager import LeaseManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The calls in leased workers of a client, from its start, and its leases."""

    #: Calls that no worker has, and those that one has.
    waiting: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    #: How often a call was tried again, or moved to another worker.
    repeated: int
    #: Leases that take calls, and those that have been asked for.
    leases: int
    starting: int

    def __str__(self) -> str:
        done = self.succeeded + self.failed + self.cancelled
        return f"{done} of {done + self.waiting + self.running} calls are done, {self.running} in {self.leases} leases"


def of(manager: LeaseManager) -> Progress:
    """The state of a client's calls; in its loop."""
    leases, counts = manager.leases(), manager.counts
    return Progress(
        waiting=manager.waiting(),
        running=sum(len(one.calls) for one in leases),
        succeeded=counts.succeeded,
        failed=counts.failed,
        cancelled=counts.cancelled,
        repeated=counts.repeated,
        leases=sum(one.takes_calls for one in leases),
        starting=sum(not one.ready for one in leases),
    )
