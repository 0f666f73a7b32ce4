"""Validation of client configurations: how an API server reaches a webhook, by a URL or by a service. Pure.

Admission webhooks and conversion webhooks have the same fields.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from rota.api import fields, names

Found: TypeAlias = list[fields.FieldError]

_MOST_PORT: Final = 65535


def validate(client: Mapping[str, Any], path: fields.Path) -> Found:
    """The errors of a client configuration at a path."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [fields.required(path, "exactly one of url or service is required")]
    return _validate_url(url, path.child("url")) if url is not None else _validate_service(service or {}, path)


def _validate_url(url: str, path: fields.Path) -> Found:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [fields.required(path, f"url must be a valid URL: {error}{form}")]
    found: Found = []
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme != "https":
        found.append(fields.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not host:
        found.append(fields.invalid(path, host, f"host must be specified{form}"))
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        found.append(fields.invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        found.append(fields.invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        found.append(fields.invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return found


def _validate_service(service: Mapping[str, Any], path: fields.Path) -> Found:
    path = path.child("service")
    found = [fields.required(path.child(name)) for name in ("name", "namespace") if not service.get(name)]
    port, route = service.get("port", 443), service.get("path")
    if not 1 <= port <= _MOST_PORT:
        why = f"port is not valid: must be between 1 and {_MOST_PORT}, inclusive"
        found.append(fields.invalid(path.child("port"), port, why))
    if route in (None, "", "/"):
        return found
    at = path.child("path")
    if route == "//":
        return [*found, fields.invalid(at, route, "segment[0] may not be empty")]
    if not route.startswith("/"):
        found.append(fields.invalid(at, route, "must start with a '/'"))
    for number, step in enumerate(route[1:].removesuffix("/").split("/")):
        if not step:
            found.append(fields.invalid(at, route, f"segment[{number}] may not be empty"))
            continue
        wrong = names.check_dns1123_subdomain(step)
        found += [fields.invalid(at, route, f"segment[{number}]: {why}") for why in wrong]
    return found
