"""The membership of a worker in a cluster: `join` obtains it, `certificate_renewal` and `masters` keep it up to date.

Not here: join tokens (`rota.client.join_tokens`) and the approval of certificates (`rota.controllers`).
"""
