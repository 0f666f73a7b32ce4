"""Puts the server's answer to a write into the informer's cache, before the watch delivers it.

Without this a controller would decide from a state that precedes its own write, and repeat the write in vain.
"""

from rota.api import meta
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Identity
from rota.client.verbs import Object


def learn(informer: Informer[Object], answer: Object) -> Object:
    """Put the server's answer to a write into an informer's cache; returns the answer."""
    metadata = meta.metadata(answer)
    identity = Identity(
        name=meta.name(answer),
        namespace=meta.namespace(answer),
        uid=meta.uid(answer),
        resource_version=metadata.get("resourceVersion") or "",
    )
    informer.learn(answer, identity)
    return answer
