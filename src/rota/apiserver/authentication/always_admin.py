"""Every request is the administrator's: for servers that only trusted clients can reach, and for tests."""

from rota.api.users import ADMINISTRATOR
from rota.apiserver.interfaces import Credentials, User


class AlwaysAdmin:
    """Authenticates every request as the administrator."""

    def recall(self, credentials: Credentials, /) -> User | None:
        """The administrator."""
        return ADMINISTRATOR

    def flow(self, credentials: Credentials, /) -> str:
        """All requests are one user's."""
        return ADMINISTRATOR.name

    async def authenticate(self, credentials: Credentials, /) -> User:
        """The administrator."""
        return ADMINISTRATOR
