"""The error that is meant for a person: what is wrong and what to do about it, in one line."""


class UserError(Exception):
    """Something the user can act on; the command line prints it without a traceback and exits with 2."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy
