"""The error that the command line prints as one line.

Any package may raise (a subclass of) `UserError` for a problem that the user can fix: a wrong URL, an unreachable
server, a file that is not a backup. The command line prints it and exits with code 2. Any other exception is a bug.
"""

from rota.kit import logs


class UserError(Exception):
    """What is wrong and how to fix it, in words for the user of the command."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        # Messages quote the user's input, which may be a URL with a password.
        return logs.redact(f"{self.message}; {self.remedy}" if self.remedy else self.message)
