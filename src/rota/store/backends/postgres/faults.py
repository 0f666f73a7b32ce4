"""Translates PostgreSQL's errors into store errors with a remedy.

A server's error about a statement carries an SQLSTATE, by which it is classified here; an error before a session exists
is only text. Messages name the URL without its password.
"""

import contextlib
from collections.abc import Iterator

import psycopg

from rota.store import errors

_RETRY = "check that the server runs and can be reached from here"

#: By SQLSTATE, or its first two digits for a whole class. Ends of sessions are not here: see `is_answer`.
_ERRORS: dict[str, tuple[type[errors.StoreError], str, str]] = {
    "53100": (
        errors.NoSpace,
        "no space left for {place}; the write was not kept, nothing before it is lost",
        "free disk space on the database server and retry",
    ),
    "25006": (
        errors.ReadOnly,
        "{place} is read-only",
        "use the primary server, or set default_transaction_read_only = off",
    ),
    "42501": (
        errors.AccessDenied,
        "{place} denies access: {detail}",
        "grant the user the right to create and use tables in its schema, or name another user",
    ),
    "3F000": (
        errors.BadAddress,
        "{place} has no schema for Rota's tables: {detail}",
        "create the schema, or name another",
    ),
    "42P01": (errors.Corrupt, "a table of {place} is missing: {detail}", "restore a backup into an empty database"),
    "42703": (errors.Corrupt, "a table of {place} is not Rota's: {detail}", "name another database or schema"),
    "XX": (errors.Corrupt, "{place} is damaged: {detail}", "restore a backup into an empty database"),
    # Statements that the server aborted: out of memory or locks, deadlock, cancelled by an administrator.
    "53": (errors.Unavailable, "{place} is short of resources: {detail}", "relieve the server, or wait"),
    "40": (errors.Unavailable, "{place} rolled the transaction back: {detail}", "try again"),
    "55": (errors.Unavailable, "{place} is held by another program: {detail}", "close that program, or wait for it"),
    "57": (errors.Unavailable, "{place} gave up the statement: {detail}", "try again"),
}

#: Parts of a server's messages when it rejects a login; only texts exist at that stage.
_REFUSALS = (
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "does not exist",
    "permission denied",
    "is not permitted to log in",
    "not currently accepting connections",
    "server does not support SSL",
    "certificate",
)


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise a session's errors as store errors about `place`."""
    try:
        yield
    except psycopg.Error as problem:
        raise of_session(place, problem) from problem


def is_answer(problem: psycopg.Error) -> bool:
    """Whether the server reported a failed statement in a session that stays open.

    Then its transaction is rolled back for certain. Any other error, the end of the session included, may have come
    after the commit.
    """
    return problem.diag.severity_nonlocalized == "ERROR"


def of_session(place: str, problem: psycopg.Error) -> errors.StoreError:
    """The store error for an error in a session."""
    detail, state = _one_line(problem), problem.sqlstate or ""
    if not is_answer(problem) and not isinstance(problem, psycopg.DataError):
        return errors.Unavailable(f"the connection to {place} was lost: {detail}", _RETRY)
    for key in (state, state[:2]):
        if key in _ERRORS:
            kind, message, remedy = _ERRORS[key]
            return kind(message.format(place=place, detail=detail), remedy)
    return errors.StoreError(f"{place} failed: {detail} (SQLSTATE {state})", "see the server's log")


def of_connecting(place: str, problem: psycopg.Error) -> errors.StoreError:
    """The store error for a failed connection."""
    detail = _one_line(problem)
    if any(refusal in detail for refusal in _REFUSALS):
        return errors.AccessDenied(
            f"{place} refuses the login: {detail}",
            "check user, password and database name, and that the database exists",
        )
    return errors.Unavailable(f"{place} does not answer: {detail}", _RETRY)


def _one_line(problem: psycopg.Error) -> str:
    """The server's or libpq's message without its location prefixes."""
    text = problem.diag.message_primary or str(problem).strip()
    first = text.splitlines()[0] if text else type(problem).__name__
    for mark in ("FATAL: ", "ERROR: ", " failed: ", "connection failed: "):
        first = first.rpartition(mark)[2]
    return first.strip()
