"""Plugin ssh: the pods of a Job have one key pair, so that they may log in to each other without a password."""

import base64
from collections.abc import Iterator
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, Wanted, hosts, mount, owned

_SECRETS: Final = ("", "v1", "secrets")
_BITS: Final = 2048
_EXPONENT: Final = 65537
_PRIVATE: Final = "id_rsa"
_PUBLIC: Final = "id_rsa.pub"
#: Hosts come and go, and with them their keys.
_SETTINGS: Final = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
_OWNER_ONLY: Final = 0o600


class Ssh(Plugin):
    """Keys in a Secret, mounted where ssh looks."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Mount the keys."""
        source = {"secret": {"secretName": secret_name(job), "defaultMode": _OWNER_ONLY}}
        mount(pod, secret_name(job), source, self.arguments.text("ssh-key-file-path"))

    def wanted(self, job: Object) -> Iterator[Wanted]:
        """The Secret; its keys are drawn once."""

        def make() -> dict[str, Any]:
            given = self.arguments.text("ssh-private-key"), self.arguments.text("ssh-public-key")
            private, public = given if all(given) else key_pair()
            files = {
                _PRIVATE: private,
                _PUBLIC: public,
                "authorized_keys": public,
                "config": _SETTINGS + _aliases(job),
            }
            data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
            return owned(job, "v1", "Secret", secret_name(job), type="Opaque", data=data)

        yield Wanted(target=_SECRETS, name=secret_name(job), make=make, readable=False)


def secret_name(job: Object) -> str:
    """The Secret with the keys."""
    return f"{meta.name(job)}-ssh"


def key_pair() -> tuple[str, str]:
    """A new private and public key, as ssh stores them."""
    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()}\n"


def _aliases(job: Object) -> str:
    names = [name for task in job["spec"].get("tasks") or () for name in hosts(job, task)]
    return "".join(f"Host {name.partition('.')[0]}\n  HostName {name}\n" for name in names)
