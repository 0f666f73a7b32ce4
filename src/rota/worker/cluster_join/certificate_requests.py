"""Certificate signing requests of a worker: a client certificate for the API, and a serving certificate.

The key is made here and never leaves this machine. A request that the cluster does not approve automatically waits for
an administrator, so the caller sets the timeout.
"""

import base64
from typing import Any, Final

from rota.api import errors as api_errors
from rota.api import meta
from rota.client.verbs import Client, Object
from rota.kit import errors, logs
from rota.kit.clock import Clock
from rota.pki import keys, signing_requests
from rota.pki.certificates import Identity, Names, Subject
from rota.pki.keys import PrivateKey

log = logs.get(__name__)

REQUESTS: Final = ("certificates.k8s.io", "v1", "certificatesigningrequests")
CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING: Final = "kubernetes.io/kubelet-serving"
_PURPOSES: Final = {CLIENT: "client auth", SERVING: "server auth"}
_REFUSALS: Final = ("Denied", "Failed")
_LOOK_S: Final = 0.1
_LOOK_LATER_S: Final = 2.0


class NotGranted(errors.UserError):
    """The cluster denied the certificate, or did not decide in time."""


def subject(node: str) -> Subject:
    """The subject of a worker's certificates."""
    return Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))


async def obtain(
    client: Client,
    node: str,
    signer: str,
    *,
    clock: Clock,
    patience_s: float,
    names: Names | None = None,
    key: PrivateKey | None = None,
) -> Identity:
    """A certificate for a key, or for a new one; `NotGranted` if it is denied, or not granted within `patience_s`."""
    key = key or keys.generate()
    wanted = signing_requests.make(key, subject(node), names=names)
    made = await client.create(
        REQUESTS,
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "node-csr-"},
            "spec": {
                "request": base64.b64encode(wanted).decode(),
                "signerName": signer,
                "usages": ["digital signature", _PURPOSES[signer]],
            },
        },
    )
    certificate = await _granted(client, meta.name(made), clock=clock, patience_s=patience_s)
    return Identity(certificate=certificate, key=keys.to_pem(key))


async def _granted(client: Client, name: str, *, clock: Clock, patience_s: float) -> bytes:
    deadline, pause = clock.monotonic() + patience_s, _LOOK_S
    while clock.monotonic() < deadline:
        await clock.sleep(pause)
        pause = min(pause * 2, _LOOK_LATER_S)
        try:
            asked = await client.get(REQUESTS, name)
        except api_errors.NotFound:
            raise NotGranted(f"the certificate request {name} was removed", "start the worker again") from None
        certificate = (asked.get("status") or {}).get("certificate")
        if certificate:
            return base64.b64decode(certificate)
        for kind in _REFUSALS:
            if (refusal := _condition(asked, kind)) is not None:
                why = refusal.get("message") or refusal.get("reason") or kind
                raise NotGranted(f"the certificate request {name} was not granted: {why}")
    raise NotGranted(f"the certificate request {name} is not approved yet", f"try 'kubectl certificate approve {name}'")


def _condition(asked: Object, kind: str) -> dict[str, Any] | None:
    found = (asked.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one.get("type") == kind), None)
