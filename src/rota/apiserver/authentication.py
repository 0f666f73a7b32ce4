"""Who asks. Until there are credentials to check, everybody is the administrator."""

from collections.abc import Mapping
from typing import Final

from rota.apiserver.contract import User

ADMINISTRATOR: Final = User(name="system:admin", groups=("system:masters", "system:authenticated"))


class EverybodyIsAdministrator:
    """For servers that only those can reach who may do everything."""

    async def authenticate(self, headers: Mapping[bytes, bytes], /) -> User:
        """The administrator."""
        return ADMINISTRATOR
