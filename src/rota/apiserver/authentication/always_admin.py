"""Every request is the administrator's: for servers that only trusted clients can reach, and for tests."""

from rota.api.users import ADMINISTRATOR
from rota.apiserver.interfaces import Credentials, User


class AlwaysAdmin:
    """Authenticates every request as the administrator."""

    async def authenticate(self, credentials: Credentials, /) -> User:
        """The administrator."""
        return ADMINISTRATOR
