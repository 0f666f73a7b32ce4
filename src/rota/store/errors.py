"""Errors of a store: one class for each case that a caller handles differently.

Expected outcomes (a precondition that did not hold) are values, see `store_interface.Outcome`. An error's docstring is
not its message: messages name the database and the remedy, for users of a terminal.
"""

from rota.kit import errors


class StoreError(errors.UserError):
    """Base class of all errors of a store."""


class Expired(StoreError):
    """The requested revision is compacted: list again and watch from there."""

    def __init__(self, revision: int, floor: int) -> None:
        super().__init__(
            f"revision {revision} is compacted; history begins behind {floor}",
            "list again and watch from there",
        )
        self.revision = revision
        self.floor = floor


class FutureRevision(StoreError):
    """The requested revision does not exist yet."""

    def __init__(self, revision: int, newest: int) -> None:
        super().__init__(f"revision {revision} does not exist yet; the newest is {newest}", "list again")
        self.revision = revision
        self.newest = newest


class SlowWatcher(StoreError):
    """The watcher read too slowly and was dropped, so that it does not block others."""

    def __init__(self, behind: int) -> None:
        super().__init__(f"the watch fell {behind} changes behind and was dropped", "list again and watch from there")


class LeaseNotFound(StoreError):
    """The lease named by a write has expired or never existed."""

    def __init__(self, lease: int) -> None:
        super().__init__(f"lease {lease} has expired or does not exist", "take a new lease")
        self.lease = lease


class Unavailable(StoreError):
    """The database does not answer; the call had no effect, or an unknown one if `uncertain`."""

    def __init__(self, message: str, remedy: str, *, uncertain: bool = False) -> None:
        super().__init__(message, remedy)
        self.uncertain = uncertain


class NoSpace(StoreError):
    """The database cannot grow; the failed write had no effect, no acknowledged write is lost."""


class ReadOnly(StoreError):
    """The database can be read but not written."""


class Lost(StoreError):
    """The database was deleted or replaced under a running process."""


class BadAddress(StoreError):
    """The store's URL cannot be used."""


class AccessDenied(StoreError):
    """The database refused the user, password or path."""


class Corrupt(StoreError):
    """The database's content is damaged or not Rota's."""


class NewerFormat(StoreError):
    """A newer Rota wrote this database; this one cannot read it."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} was written by a newer Rota (format {found}; this version knows {known})",
            "use that newer version, or restore a backup into another store",
        )


class NotEmpty(StoreError):
    """The target of a restore already holds keys."""


class Closed(StoreError):
    """The store was closed during the call."""

    def __init__(self) -> None:
        super().__init__("the store is closed", "open it again")
