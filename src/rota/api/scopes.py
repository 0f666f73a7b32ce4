"""What this product's own callers put into an ASGI scope besides what ASGI defines.

A scope is made by the server that holds the connection, never by the client: what stands in it can be trusted.
"""

from typing import Final

#: The `users.User` on whose behalf a part of this process calls; there is nothing to be proved then.
ACTING_AS: Final = "rota.acting_as"
#: Sends a whole answer (status, headers, body) at once, which ASGI has no message for; like `send`, it may wait.
ANSWER: Final = "rota.answer"
#: Hands the connection over, with headers for the client: from then on `receive` and `send` carry bytes of another
#: protocol. Only there if the client asked for WebSocket.
UPGRADE: Final = "rota.upgrade"
#: The client's certificate as DER bytes, which TLS has verified.
PEER_CERTIFICATE: Final = "rota.peer_certificate"
