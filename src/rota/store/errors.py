"""What can go wrong with a store, one class per thing that a caller would treat differently.

Outcomes that are part of normal work (a guard that did not hold) are values, see `contract.Outcome`. An error's
docstring is not its message: messages name the database and the remedy, since people read them on a terminal.
"""

from rota.kit import errors


class StoreError(errors.UserError):
    """Anything a store could not do."""


class Expired(StoreError):
    """The asked-for revision is compacted: list again and watch from there."""

    def __init__(self, revision: int, floor: int) -> None:
        super().__init__(
            f"revision {revision} is compacted; history begins behind {floor}",
            "list again and watch from there",
        )
        self.revision = revision
        self.floor = floor


class FutureRevision(StoreError):
    """The asked-for revision does not exist yet."""

    def __init__(self, revision: int, newest: int) -> None:
        super().__init__(f"revision {revision} does not exist yet; the newest is {newest}", "list again")
        self.revision = revision
        self.newest = newest


class SlowWatcher(StoreError):
    """The watcher read too slowly and was dropped, so that it does not hold up others."""

    def __init__(self, behind: int) -> None:
        super().__init__(f"the watch fell {behind} changes behind and was dropped", "list again and watch from there")


class LeaseNotFound(StoreError):
    """The lease named by a write has expired or never was."""

    def __init__(self, lease: int) -> None:
        super().__init__(f"lease {lease} has expired or does not exist", "take a new lease")
        self.lease = lease


class Unavailable(StoreError):
    """The database does not answer; what was asked did not happen, or its fate is unknown if `uncertain`."""

    def __init__(self, message: str, remedy: str, *, uncertain: bool = False) -> None:
        super().__init__(message, remedy)
        self.uncertain = uncertain


class NoSpace(StoreError):
    """The database cannot grow; nothing of the failed write was kept, nothing acknowledged before is lost."""


class ReadOnly(StoreError):
    """The database may be read but not written."""


class Lost(StoreError):
    """The database was deleted or replaced under a running process."""


class BadAddress(StoreError):
    """The store's URL cannot be used."""


class AccessDenied(StoreError):
    """The database refused the user, password or path."""


class Corrupt(StoreError):
    """The database's content is damaged or not ours."""


class NewerFormat(StoreError):
    """A newer Rota wrote this database; this one would not understand it."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} was written by a newer Rota (format {found}; this version knows {known})",
            "use that newer version, or restore a backup into another store",
        )


class NotEmpty(StoreError):
    """A restore was asked for into a store that holds keys already."""


class Closed(StoreError):
    """The store was closed while the call was under way."""

    def __init__(self) -> None:
        super().__init__("the store is closed", "open it again")
