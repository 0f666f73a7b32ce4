"""The server as a token issuer: OpenID discovery and the public keys.

As upstream, service accounts may read both pages; roles may allow it to other users.
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
