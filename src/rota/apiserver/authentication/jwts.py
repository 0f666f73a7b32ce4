"""Signed tokens (JWT): verification of signatures, times and audiences.

Only the algorithms of the key are accepted, so `none`, or a public key used as a shared secret, is rejected. The caller
passes the time.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import jwt

from rota.apiserver.authentication.tokens import Rejected

Claims: TypeAlias = Mapping[str, Any]

#: Longer than any valid token.
_MOST_LETTERS: Final = 64 * 1024
#: PyJWT verifies the signature only: for the rest it would read the system clock.
_SIGNATURE_ONLY: Final[Any] = {
    "verify_signature": True,
    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub"), False),
    "verify_jti": False,
    "require": [],
}


def unverified(token: str) -> Claims:
    """What a token claims, whether or not it is true; nothing if it is not a JWT."""
    if len(token) > _MOST_LETTERS or token.count(".") != 2:
        return {}
    try:
        claims: Claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        return {}
    return claims


def unverified_issuer(token: str) -> str | None:
    """The issuer that a token names, to choose its origin; None if it names none."""
    issuer = unverified(token).get("iss")
    return issuer if isinstance(issuer, str) else None


def key_id(token: str) -> str:
    """The id of the key that a token names."""
    try:
        return str(jwt.get_unverified_header(token).get("kid", ""))
    except jwt.PyJWTError as error:
        raise Rejected(f"the token's header cannot be read: {error}") from None


def verified(token: str, key: Any, *, algorithms: tuple[str, ...]) -> Claims:
    """The claims of a token that this key signed by one of these algorithms."""
    try:
        claims: Claims = jwt.decode(token, key, algorithms=list(algorithms), options=_SIGNATURE_ONLY)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise Rejected(f"the token's signature is no good: {error}") from None
    return claims


def check_times(claims: Claims, *, now: float, leeway_s: float = 0.0) -> None:
    """Reject tokens that have expired, have no expiry, or are not valid yet."""
    ends, begins = claims.get("exp"), claims.get("nbf")
    if not isinstance(ends, int | float) or now > ends:
        raise Rejected("the token has expired")
    if begins is not None and (not isinstance(begins, int | float) or now + leeway_s < begins):
        raise Rejected("the token is not valid yet")


def audiences(claims: Claims) -> tuple[str, ...]:
    """The audiences of a token."""
    given = claims.get("aud")
    if isinstance(given, str):
        return (given,)
    return tuple(one for one in given if isinstance(one, str)) if isinstance(given, list) else ()


def text(claims: Claims, name: str) -> str:
    """A claim that must be a non-empty string."""
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise Rejected(f"the token's claim {name!r} is missing or no text")
    return value
