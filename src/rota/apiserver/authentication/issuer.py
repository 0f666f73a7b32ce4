"""The server as an issuer of tokens that others may check: OpenID discovery and the public keys.

As upstream, the two pages are for service accounts; who else may read them is up to roles.
"""

from typing import Final

from rota.apiserver.authentication.account_tokens import Signer
from rota.apiserver.http import responses
from rota.apiserver.http.requests import Request

CONFIGURATION: Final = "/.well-known/openid-configuration"
KEYS: Final = "/openid/v1/jwks"


class IssuerPages:
    """Both pages; they do not change while the server runs."""

    def __init__(self, signer: Signer) -> None:
        self._pages: Final = {
            CONFIGURATION: {
                "issuer": signer.issuer,
                "jwks_uri": signer.issuer.rstrip("/") + KEYS,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [signer.algorithm],
            },
            KEYS: signer.key_set(),
        }

    async def page(self, request: Request) -> responses.Response | None:
        """The page at the request's path, if it is one of these."""
        page = self._pages.get(request.path)
        return None if page is None else responses.value(200, page)
