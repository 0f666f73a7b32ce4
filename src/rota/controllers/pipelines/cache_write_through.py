"""Own writes, known at once: what the server answers to a write is in the cache before the next decision.

Without it a controller would decide by a state that it has changed itself, do the same again, and hear that it cannot.
"""

from rota.api import meta
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Identity
from rota.client.verbs import Object


def learn(informer: Informer[Object], answer: Object) -> Object:
    """Have an informer know what a server has answered to a write; the answer."""
    metadata = meta.metadata(answer)
    identity = Identity(
        name=meta.name(answer),
        namespace=meta.namespace(answer),
        uid=meta.uid(answer),
        resource_version=metadata.get("resourceVersion") or "",
    )
    informer.learn(answer, identity)
    return answer
