"""Kubeconfig files, and the in-cluster configuration of pods.

Everything is read and validated at once; an error names the file and the field. Relative paths in a kubeconfig are
relative to the file's folder. Unsupported fields are refused by name.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from rota.client import credentials
from rota.client.credentials import Credentials
from rota.client.endpoints import Endpoint
from rota.kit import errors
from rota.kit.clock import Clock

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: The extension of a cluster that lists its further servers.
SERVERS: Final = "rota.dev/servers"
_REFUSED: Final = {"clusters": ("proxy-url",), "users": ("auth-provider",)}


class KubeconfigError(errors.UserError):
    """A kubeconfig, or the in-cluster configuration, cannot be used."""


def load(path: Path, *, clock: Clock, context: str = "") -> Endpoint:
    """The endpoint of a context of a file; without a name, of its current context."""
    return _File(path).endpoint(context, clock)


def render(endpoint: Endpoint, *, name: str = "rota") -> bytes:
    """A self-contained kubeconfig for an endpoint with certificates."""
    cluster: dict[str, Any] = {"server": endpoint.server}
    user: dict[str, Any] = {}
    for section, field, material in (
        (cluster, "certificate-authority-data", endpoint.certificate_authority),
        (user, "client-certificate-data", endpoint.client_certificate),
        (user, "client-key-data", endpoint.client_key),
    ):
        if material is not None:
            section[field] = base64.b64encode(material).decode()
    if endpoint.fallbacks:
        cluster["extensions"] = [{"name": SERVERS, "extension": list(endpoint.fallbacks)}]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": f"{name}-admin", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-admin"}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


def default_path(environment: Mapping[str, str]) -> Path:
    """kubectl's default: the first file of `KUBECONFIG` that exists, or the one in the home folder."""
    candidates = [Path(one) for one in environment.get("KUBECONFIG", "").split(os.pathsep) if one]
    existing = [one for one in candidates if one.exists()]
    return (existing or candidates or [Path("~/.kube/config").expanduser()])[0]


def in_cluster(environment: Mapping[str, str], *, clock: Clock, folder: Path = _SERVICE_ACCOUNT) -> Endpoint:
    """The endpoint of the cluster in which this process runs as a pod; its token is read again when it changes."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "this process runs in no cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set",
            "name a kubeconfig file",
        )
    try:
        authority = (folder / "ca.crt").read_bytes()
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        raise KubeconfigError(
            f"cannot read {error.filename}: {error.strerror}", "let the pod mount its service account's token"
        ) from None
    return Endpoint(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        certificate_authority=authority,
        credentials=credentials.TokenFile(folder / "token", clock=clock),
        namespace=namespace or "default",
    )


class _File:
    """One kubeconfig file, with its errors."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        try:
            content = yaml.safe_load(path.read_text())
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            said = f"there is no kubeconfig at {path}" if missing else f"cannot read {path}: {error.strerror}"
            remedy = "'rota up' starts a cluster on this machine; or set KUBECONFIG to the file of another one"
            raise KubeconfigError(said, remedy if missing else "name another kubeconfig file") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(content, dict):
            raise self.wrong("the file", "must hold a mapping")
        self._content: Final[dict[str, Any]] = content

    def wrong(self, field: str, why: str, remedy: str = "") -> KubeconfigError:
        return KubeconfigError(f"{self.path}: {field} {why}", remedy)

    def endpoint(self, context: str, clock: Clock) -> Endpoint:
        name = context or self._content.get("current-context") or ""
        if not name:
            raise self.wrong("current-context", "is not set", "name a context")
        chosen = _Section(self, "contexts", "context", name, self._content)
        cluster = _Section(self, "clusters", "cluster", chosen.required("cluster"), self._content)
        user_name = chosen.text("user")
        user = _Section(self, "users", "user", user_name, self._content) if user_name else None
        authority = cluster.material("certificate-authority")
        certificate = user.material("client-certificate") if user else None
        key = user.material("client-key") if user else None
        if user and (certificate is None) is not (key is None):
            missing = "client-key" if key is None else "client-certificate"
            raise user.wrong(missing, "is missing: certificate and key go together")
        return Endpoint(
            server=cluster.required("server"),
            fallbacks=cluster.extension(SERVERS),
            certificate_authority=authority,
            client_certificate=certificate,
            client_key=key,
            tls_server_name=cluster.text("tls-server-name"),
            insecure_skip_tls_verify=cluster.flag("insecure-skip-tls-verify"),
            credentials=_credentials(user, clock) if user else credentials.ANONYMOUS,
            headers=_impersonation(user) if user else {},
            namespace=chosen.text("namespace") or "default",
        )


class _Section:
    """A named entry: a context, a cluster or a user."""

    def __init__(self, file: _File, plural: str, singular: str, name: str, content: Mapping[str, Any]) -> None:
        self._file: Final = file
        self._at: Final = f"{plural}[{name}].{singular}"
        entries = content.get(plural) or []
        found = [one for one in entries if isinstance(one, dict) and one.get("name") == name]
        if not found:
            known = ", ".join(sorted(str(one.get("name")) for one in entries if isinstance(one, dict))) or "none"
            raise file.wrong(plural, f"has no entry named {name!r}", f"there is: {known}")
        values = found[0].get(singular)
        if values is not None and not isinstance(values, dict):
            raise file.wrong(self._at, "must be a mapping")
        self.values: Final[dict[str, Any]] = values or {}
        for refused in _REFUSED.get(plural, ()):
            if refused in self.values:
                raise self.wrong(refused, "is not supported", "use a token, a certificate or an exec plugin")

    def wrong(self, field: str, why: str, remedy: str = "") -> KubeconfigError:
        return self._file.wrong(f"{self._at}.{field}", why, remedy)

    def text(self, field: str) -> str:
        value = self.values.get(field)
        if value is not None and not isinstance(value, str):
            raise self.wrong(field, "must be a string")
        return value or ""

    def required(self, field: str) -> str:
        value = self.text(field)
        if not value:
            raise self.wrong(field, "is not set")
        return value

    def flag(self, field: str) -> bool:
        value = self.values.get(field, False)
        if not isinstance(value, bool):
            raise self.wrong(field, "must be true or false")
        return value

    def extension(self, name: str) -> tuple[str, ...]:
        """The strings of an extension, which other programs ignore."""
        for one in self.values.get("extensions") or []:
            if isinstance(one, dict) and one.get("name") == name:
                listed = one.get("extension")
                if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
                    raise self.wrong(f"extensions[{name}].extension", "must be a list of strings")
                return tuple(listed)
        return ()

    def path(self, field: str) -> Path | None:
        value = self.text(field)
        return self._file.path.parent / value if value else None

    def material(self, field: str) -> bytes | None:
        """The content of `<field>-data`, or of the file that `<field>` names; the data wins, as for kubectl."""
        data = self.text(f"{field}-data")
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error:
                raise self.wrong(f"{field}-data", "is not base64") from None
        path = self.path(field)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.wrong(field, f"names {path}, which cannot be read: {error.strerror}") from None


def _credentials(user: _Section, clock: Clock) -> Credentials:
    # Upstream's order of preference.
    if token_file := user.path("tokenFile"):
        return credentials.TokenFile(token_file, clock=clock)
    if token := user.text("token"):
        return credentials.bearer(token)
    if username := user.text("username"):
        return credentials.basic(username, user.text("password"))
    plugin = user.values.get("exec")
    if plugin is None:
        return credentials.ANONYMOUS
    if not isinstance(plugin, dict) or not isinstance(plugin.get("command"), str):
        raise user.wrong("exec.command", "is not set")
    variables = plugin.get("env") or []
    arguments = plugin.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(one, dict) and "name" in one for one in variables):
        raise user.wrong("exec", "has malformed args or env")
    return credentials.ExecPlugin(
        plugin["command"],
        [str(one) for one in arguments],
        clock=clock,
        environment={str(one["name"]): str(one.get("value", "")) for one in variables},
        api_version=str(plugin.get("apiVersion") or ""),
        install_hint=str(plugin.get("installHint") or ""),
    )


def _impersonation(user: _Section) -> dict[str, str]:
    if user.values.get("as-groups") or user.values.get("as-user-extra"):
        raise user.wrong("as-groups", "is not supported", "impersonate by `as` alone")
    headers = {"Impersonate-User": user.text("as"), "Impersonate-Uid": user.text("as-uid")}
    return {name: value for name, value in headers.items() if value}
