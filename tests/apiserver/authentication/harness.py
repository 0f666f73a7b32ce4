"""A server that requires credentials, called with a token or without."""

from typing import Any

from rota.apiserver.authentication import authentication_config
from rota.testing.api import Answer, ApiServer
from rota.testing.clocks import FakeClock

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ADMIN = "Bearer admins-own-token"


class Entrance:
    """One server, called with a token or without."""

    def __init__(self, api: ApiServer, clock: FakeClock, settings: authentication_config.Settings) -> None:
        self.api = api
        self.clock = clock
        self.settings = settings

    async def whoami(self, authorization: str = "") -> Answer:
        """The server's response to a self review with this `Authorization` header."""
        return await self.ask("POST", SELF, {}, authorization=authorization)

    async def user(self, token: str) -> Any:
        """The user of a bearer token that must be valid."""
        answer = await self.whoami(f"Bearer {token}")
        assert answer.code == 201, answer
        return answer.json["status"]["userInfo"]

    async def refuses(self, token: str) -> bool:
        """Whether a bearer token is refused, in the one way in which all are."""
        answer = await self.whoami(f"Bearer {token}")
        assert answer.code in {201, 401}
        if answer.code == 401:
            assert answer.json == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Unauthorized",
                "reason": "Unauthorized",
                "code": 401,
            }
        return answer.code == 401

    async def ask(self, method: str, path: str, body: Any = None, *, authorization: str = ADMIN) -> Answer:
        """Any request; as the administrator unless said otherwise."""
        headers = {"authorization": authorization} if authorization else {}
        return await self.api.request(method, path, body=body, headers=headers)

    async def create(self, path: str, body: Any) -> Any:
        """An object that the administrator created."""
        answer = await self.ask("POST", path, body)
        assert answer.code == 201, answer
        return answer.json
