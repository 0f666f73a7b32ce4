"""Who asks. Until there are credentials to check, everybody is the administrator."""

from rota.api.users import ADMINISTRATOR
from rota.apiserver.contract import Credentials, User


class EverybodyIsAdministrator:
    """For servers that only those can reach who may do everything."""

    async def authenticate(self, credentials: Credentials, /) -> User:
        """The administrator."""
        return ADMINISTRATOR
