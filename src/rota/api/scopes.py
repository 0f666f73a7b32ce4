"""Entries of an ASGI scope that Rota's own servers add.

The server that holds the connection makes the scope, never the client, so its entries can be trusted.
"""

from typing import Final

#: The `users.User` of a call from a component of this process; no credentials are needed.
ACTING_AS: Final = "rota.acting_as"
#: Sends a whole answer (status, headers, body) at once, which ASGI has no message for; like `send`, it may wait.
ANSWER: Final = "rota.answer"
#: Hands the connection over, with headers for the client: from then on `receive` and `send` carry bytes of another
#: protocol. Only there if the client asked for WebSocket.
UPGRADE: Final = "rota.upgrade"
#: The client's certificate as DER bytes, which TLS has verified.
PEER_CERTIFICATE: Final = "rota.peer_certificate"
