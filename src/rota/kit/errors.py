"""The error that a person sees as one line.

Any room may raise (a subclass of) `UserError` for what its user can put right: a wrong URL, an unreachable server, a
file that is not a backup. The command line prints it and exits with code 2; everything else is a bug and crashes.
"""

from rota.kit import logs


class UserError(Exception):
    """What is wrong and what to do about it, in words for whoever typed the command."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        # Messages quote what the user gave us, and that may be a URL with a password.
        return logs.redact(f"{self.message}; {self.remedy}" if self.remedy else self.message)
