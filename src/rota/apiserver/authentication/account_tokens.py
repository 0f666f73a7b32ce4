"""Service account tokens: signed by the servers of this cluster, bound to objects.

A token names its account and optionally a Pod, Secret or Node that it is bound to, each with its uid. It becomes
invalid when one of them is gone, or replaced by another object of the same name, even before it expires.
"""

import base64
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from rota.api import times
from rota.api.identifiers import GroupResource
from rota.apiserver.authentication import jwts
from rota.apiserver.authentication.certificates import CREDENTIAL_ID
from rota.apiserver.authentication.jwts import Claims
from rota.apiserver.authentication.token_subjects import TokenSubjects
from rota.apiserver.authentication.tokens import Rejected, Verified
from rota.apiserver.interfaces import Object, User
from rota.kit.clock import Clock
from rota.pki.keys import PrivateKey, PublicKey

#: Upstream's default; need not be reachable.
DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
ACCOUNTS: Final = GroupResource("", "serviceaccounts")
#: Kinds that a token can be bound to, by the name of the claim.
BINDABLE: Final[Mapping[str, GroupResource]] = {
    "pod": GroupResource("", "pods"),
    "secret": GroupResource("", "secrets"),
    "node": GroupResource("", "nodes"),
}
_PRIVATE: Final = "kubernetes.io"
_EXTRA: Final = "authentication.kubernetes.io/"
#: How long after its deletion began an object's tokens stay valid: a terminating pod may still use the API.
_GRACE_S: Final = 60.0
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


@dataclass(frozen=True, slots=True)
class Reference:
    """One object, identified by its uid."""

    name: str
    uid: str

    @classmethod
    def to(cls, obj: Object) -> "Reference":
        """The reference to an object."""
        return cls(obj["metadata"]["name"], obj["metadata"]["uid"])


class Signer:
    """The key that signs tokens, and its public part."""

    def __init__(self, key: PrivateKey, *, issuer: str = DEFAULT_ISSUER) -> None:
        self.issuer: Final = issuer
        self.public_key: Final[PublicKey] = key.public_key()
        self.algorithm: Final = _algorithm(self.public_key)
        self.key_id: Final = _key_id(self.public_key)
        self._key: Final = key

    def sign(self, claims: Claims) -> str:
        """A signed token with these claims."""
        return jwt.encode(dict(claims), self._key, algorithm=self.algorithm, headers={"kid": self.key_id, "typ": None})

    def verified(self, token: str) -> Claims:
        """The claims of a token that this key signed; Rejected otherwise."""
        return jwts.verified(token, self.public_key, algorithms=(self.algorithm,))

    def key_set(self) -> Mapping[str, Any]:
        """The public key as a JSON Web Key Set."""
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        public: dict[str, Any] = algorithm.to_jwk(self.public_key, as_dict=True)
        return {"keys": [{**public, "use": "sig", "kid": self.key_id, "alg": self.algorithm}]}


def claims(
    account: Object,
    *,
    issuer: str,
    audiences: tuple[str, ...],
    now: float,
    lifetime_s: int,
    bound: Mapping[str, Reference],
) -> Claims:
    """The claims of a token for an account; `bound` by the names in `BINDABLE`."""
    namespace, own = account["metadata"]["namespace"], Reference.to(account)
    private: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": own.name, "uid": own.uid}}
    private |= {kind: {"name": one.name, "uid": one.uid} for kind, one in bound.items()}
    return {
        "aud": list(audiences),
        "exp": int(now) + lifetime_s,
        "iat": int(now),
        "iss": issuer,
        "jti": str(uuid.uuid4()),
        _PRIVATE: private,
        "nbf": int(now),
        "sub": user_name(namespace, own.name),
    }


def user_name(namespace: str, account: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{account}"


class AccountTokens:
    """A `TokenOrigin` of tokens that `Signer` signed."""

    def __init__(self, signer: Signer, directory: TokenSubjects, *, clock: Clock) -> None:
        self._signer: Final = signer
        self._directory: Final = directory
        self._clock: Final = clock

    async def verify(self, token: str, audiences: tuple[str, ...], /) -> Verified | None:
        """See `TokenOrigin.verify`."""
        if jwts.unverified_issuer(token) != self._signer.issuer:
            return None
        said = self._signer.verified(token)
        now = self._clock.now()
        jwts.check_times(said, now=now)
        meant = tuple(one for one in audiences if one in jwts.audiences(said))
        if not meant:
            raise Rejected(f"the token is not for {', '.join(audiences)}")
        private = said.get(_PRIVATE)
        if not isinstance(private, dict):
            raise Rejected("the token is for no service account")
        return Verified(user=await self._user(said, private, now), audiences=meant, expires_at=float(said["exp"]))

    async def _user(self, said: Claims, private: Claims, now: float) -> User:
        namespace = jwts.text(private, "namespace")
        account = _reference(private, "serviceaccount")
        if account is None or said.get("sub") != user_name(namespace, account.name):
            raise Rejected("the token is for no service account")
        await self._check(ACCOUNTS, namespace, account, now)
        extra = {CREDENTIAL_ID: (f"JTI={jwts.text(said, 'jti')}",)}
        bound = {kind: reference for kind in BINDABLE if (reference := _reference(private, kind)) is not None}
        for kind, reference in bound.items():
            # a pod's token names the node for information only; it is bound to the pod
            if kind != "node" or len(bound) == 1:
                await self._check(BINDABLE[kind], "" if kind == "node" else namespace, reference, now)
            if kind != "secret":
                extra[f"{_EXTRA}{kind}-name"] = (reference.name,)
                extra[f"{_EXTRA}{kind}-uid"] = (reference.uid,)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(name=user_name(namespace, account.name), uid=account.uid, groups=groups, extra=extra)

    async def _check(self, which: GroupResource, namespace: str, reference: Reference, now: float) -> None:
        """Reject objects that are gone or being deleted."""
        found = await self._directory.find(which, namespace, reference.name)
        if found is None or found["metadata"]["uid"] != reference.uid:
            raise Rejected(f"{which.resource} {namespace}/{reference.name} is no longer there")
        deleted = found["metadata"].get("deletionTimestamp")
        if deleted is not None and times.parse(deleted) + _GRACE_S < now:
            raise Rejected(f"{which.resource} {namespace}/{reference.name} is being deleted")


def _reference(private: Claims, kind: str) -> Reference | None:
    given = private.get(kind)
    return Reference(jwts.text(given, "name"), jwts.text(given, "uid")) if isinstance(given, dict) else None


def _algorithm(key: PublicKey) -> str:
    return "RS256" if isinstance(key, rsa.RSAPublicKey) else _CURVES[key.curve.name]


def _key_id(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    """As upstream: the digest of the public key."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
