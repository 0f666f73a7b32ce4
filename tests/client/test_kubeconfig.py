"""Where kubeconfig files, service accounts and credential plugins lead, and what is said about broken ones."""

import base64
import json
import random
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api import errors
from rota.apiserver.server import http_server
from rota.client import client_factory, credentials, kubeconfig
from rota.client.endpoints import Endpoint, EndpointError
from rota.client.transports.http import HttpTransport
from rota.client.transports.transport import Unreachable
from rota.client.verbs import Client
from rota.kit.errors import UserError
from rota.kit.system import SystemClock
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock


def _write(folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None, **context: str) -> Path:
    path = folder / "config"
    content = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


async def test_a_context_names_server_namespace_and_token(tmp_path: Path, clock: FakeClock) -> None:
    path = _write(tmp_path, {"server": "https://h:6443"}, {"token": "secret", "as": "me"}, namespace="team")
    endpoint = kubeconfig.load(path, clock=clock)
    assert (endpoint.server, endpoint.namespace) == ("https://h:6443", "team")
    assert await endpoint.credentials.authorization() == "Bearer secret"
    assert endpoint.headers == {"Impersonate-User": "me"}
    assert "secret" not in repr(endpoint)


def test_what_is_written_leads_to_the_same_server(tmp_path: Path, clock: FakeClock) -> None:
    endpoint = Endpoint(
        server="https://127.0.0.1:6443",
        certificate_authority=b"authority",
        client_certificate=b"certificate",
        client_key=b"key",
        fallbacks=("https://127.0.0.1:6444", "https://127.0.0.1:6445"),
    )
    path = tmp_path / "written"
    path.write_bytes(kubeconfig.render(endpoint))
    assert kubeconfig.load(path, clock=clock) == endpoint
    assert kubeconfig.load(path, clock=clock, context="rota") == endpoint


async def test_files_count_from_the_configs_folder_and_data_wins(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "ca.pem").write_bytes(b"from the file")
    (tmp_path / "token").write_text("first\n")
    path = _write(tmp_path, {"server": "https://h", "certificate-authority": "ca.pem"}, {"tokenFile": "token"})
    endpoint = kubeconfig.load(path, clock=clock)
    assert endpoint.certificate_authority == b"from the file"
    assert await endpoint.credentials.authorization() == "Bearer first"
    data = base64.b64encode(b"from the data").decode()
    cluster = {"server": "https://h", "certificate-authority": "ca.pem", "certificate-authority-data": data}
    assert kubeconfig.load(_write(tmp_path, cluster), clock=clock).certificate_authority == b"from the data"


@pytest.mark.parametrize(
    ("cluster", "user", "complaint"),
    [
        ({}, {}, r"clusters\[c\]\.cluster\.server is not set"),
        ({"server": "h:6443"}, {}, "'h:6443' is no server address; write it like https://host:6443"),
        ({"server": 5}, {}, r"cluster\.server must be a string"),
        ({"server": "https://h", "certificate-authority-data": "%"}, {}, "certificate-authority-data is not base64"),
        ({"server": "https://h", "certificate-authority": "no"}, {}, "names .*/no, which cannot be read: No such file"),
        ({"server": "https://h", "proxy-url": "http://p"}, {}, r"clusters\[c\]\.cluster\.proxy-url is not supported"),
        ({"server": "https://h", "insecure-skip-tls-verify": "yes"}, {}, "must be true or false"),
        ({"server": "https://h"}, {"client-key-data": "aGk="}, r"user\.client-certificate is missing"),
        ({"server": "https://h"}, {"exec": {"args": []}}, r"users\[u\]\.user\.exec\.command is not set"),
        ({"server": "https://h"}, {"auth-provider": {}}, "auth-provider is not supported"),
        (
            {"server": "https://h", "extensions": [{"name": "rota.dev/servers", "extension": "https://i"}]},
            {},
            r"extensions\[rota.dev/servers\]\.extension must be a list of strings",
        ),
    ],
)
def test_a_broken_config_is_answered_with_file_and_field(
    tmp_path: Path, clock: FakeClock, cluster: dict[str, Any], user: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        kubeconfig.load(_write(tmp_path, cluster, user), clock=clock)


def test_contexts_and_files_that_are_not_there_are_named(tmp_path: Path, clock: FakeClock) -> None:
    path = _write(tmp_path, {"server": "https://h"})
    with pytest.raises(UserError, match="contexts has no entry named 'other'; there is: main"):
        kubeconfig.load(path, clock=clock, context="other")
    with pytest.raises(UserError, match=r"there is no kubeconfig at .*/nothing; 'rota up' starts"):
        kubeconfig.load(tmp_path / "nothing", clock=clock)
    path.write_text("a: [")
    with pytest.raises(UserError, match="is not YAML"):
        kubeconfig.load(path, clock=clock)
    path.write_text("- a")
    with pytest.raises(UserError, match="must hold a mapping"):
        kubeconfig.load(path, clock=clock)


def test_the_default_is_where_kubectl_looks(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    assert kubeconfig.default_path({"KUBECONFIG": f"{tmp_path}/not:{there}"}) == there
    assert kubeconfig.default_path({}).parts[-2:] == (".kube", "config")


async def test_a_pod_finds_its_cluster_and_rereads_its_token(tmp_path: Path, clock: FakeClock) -> None:
    for name, content in {"ca.crt": "pem", "namespace": "team\n", "token": "one"}.items():
        (tmp_path / name).write_text(content)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    endpoint = kubeconfig.in_cluster(environment, clock=clock, folder=tmp_path)
    assert (endpoint.server, endpoint.namespace) == ("https://[fd00::1]:443", "team")
    assert await endpoint.credentials.authorization() == "Bearer one"
    (tmp_path / "token").write_text("two")
    assert await endpoint.credentials.authorization() == "Bearer one"
    await clock.advance(61)
    assert await endpoint.credentials.authorization() == "Bearer two"
    (tmp_path / "token").unlink()
    await clock.advance(61)
    assert await endpoint.credentials.authorization() == "Bearer two"
    with pytest.raises(UserError, match="runs in no cluster"):
        kubeconfig.in_cluster({}, clock=clock)
    with pytest.raises(UserError, match="mount its service account"):
        kubeconfig.in_cluster(environment, clock=clock, folder=tmp_path / "no")


def _plugin(folder: Path, output: str, code: int = 0) -> credentials.ExecPlugin:
    script = folder / "plugin.py"
    calls = folder / "calls"
    script.write_text(f"open({str(calls)!r}, 'a').write('x')\nprint({output!r})\nraise SystemExit({code})\n")
    return credentials.ExecPlugin(sys.executable, [str(script)], clock=SystemClock(), install_hint="install it")


def _exec_credential(**status: str) -> str:
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


async def test_a_plugin_is_asked_once_until_its_credential_ends_or_is_refused(tmp_path: Path) -> None:
    plugin = _plugin(tmp_path, _exec_credential(token="t", expirationTimestamp="2999-01-01T00:00:00Z"))
    assert [await plugin.authorization() for _ in range(2)] == ["Bearer t"] * 2
    assert (tmp_path / "calls").read_text() == "x"
    assert plugin.reject()
    await plugin.authorization()
    assert (tmp_path / "calls").read_text() == "xx"


async def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"failed with code 3.*install it"):
        await _plugin(tmp_path, "", 3).authorization()
    with pytest.raises(UserError, match="did not print an ExecCredential"):
        await _plugin(tmp_path, "hello").authorization()
    missing = credentials.ExecPlugin("/no/such/plugin", clock=SystemClock())
    with pytest.raises(UserError, match="cannot run the credential plugin /no/such/plugin"):
        await missing.authorization()


# --- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority, a server certificate for 127.0.0.1 and a client certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority", "-days", "2")
    for name, extension in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")):
        (folder / "extensions").write_text(extension)
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "extensions"]
        run("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)
    return folder


@pytest.mark.slow
async def test_tls_with_both_sides_certificates_from_a_kubeconfig(certificates: Path, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ca.pem")
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    clock, rng = SystemClock(), random.Random(0)
    async with ApiServer() as server, http_server.serve(server.app, ssl=context) as served:
        user = {name: str(certificates / f"client.{ending}") for name, ending in _CLIENT_FILES.items()}
        cluster = {"server": served.url, "certificate-authority": str(certificates / "ca.pem")}
        endpoint = kubeconfig.load(_write(tmp_path, cluster, user), clock=clock)
        async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
            assert (await client.get(("", "v1", "namespaces"), "default"))["kind"] == "Namespace"
            with pytest.raises(errors.NotFound):
                await client.get(("", "v1", "namespaces"), "nowhere")
        # Without the authority the server is not believed, and nothing is sent.
        stranger = HttpTransport(Endpoint(server=served.url))
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await Client(stranger).get(("", "v1", "namespaces"), "default")
        await stranger.close()


_CLIENT_FILES = {"client-certificate": "pem", "client-key": "key"}


@pytest.mark.slow
def test_tls_material_that_cannot_be_used_is_named() -> None:
    with pytest.raises(EndpointError, match="certificate authority of https://h cannot be read"):
        Endpoint(server="https://h", certificate_authority=b"nonsense").tls()
    with pytest.raises(EndpointError, match="client certificate for https://h cannot be used"):
        Endpoint(server="https://h", client_certificate=b"a", client_key=b"b").tls()
    insecure = Endpoint(server="https://h", insecure_skip_tls_verify=True).tls()
    assert insecure is not None
    assert insecure.verify_mode is ssl.CERT_NONE
    assert Endpoint(server="http://h").tls() is None
