"""Everybody is the administrator: for servers that only those can reach who may do everything, and for tests."""

from rota.api.users import ADMINISTRATOR
from rota.apiserver.interfaces import Credentials, User


class AlwaysAdmin:
    """Asks for nothing."""

    async def authenticate(self, credentials: Credentials, /) -> User:
        """The administrator."""
        return ADMINISTRATOR
