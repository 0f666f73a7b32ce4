"""An installation of the chart on a stock API server, and its components as processes.

No kubelet runs here: a component is started with the arguments of its container, the files of its volumes and the token
of its service account, and everything it asks of the API server is written down (the server's audit log).
"""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import yaml
from tests.packaging import charts
from tests.packaging.charts import NAMESPACE, Document

from rota.kit.system import SystemClock
from rota.testing.servers import processes
from rota.testing.servers.kubernetes import StockApiServer, program, write_kubeconfig

#: What everybody may ask: who he is, and what he may do.
_ANYBODYS = ("authentication.k8s.io", "authorization.k8s.io")
#: Where pods find their account.
_ACCOUNT = "/run/secrets/kubernetes.io"
_PATIENCE_S = 180.0
_LOOK_AGAIN_S = 0.05
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]},
        {"level": "None"},
    ],
}


class Request(NamedTuple):
    """What was asked, as a role would allow it."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


class AuditedServer(StockApiServer):
    """A stock API server that writes down what the accounts of an installation ask of it."""

    def __init__(self, folder: Path) -> None:
        policy = folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        self.audit_log = folder / "audit.log"
        super().__init__(
            # What these two do takes controllers, which do not run here.
            disable_admission_plugins="ServiceAccount,TaintNodesByCondition",
            audit_policy_file=str(policy),
            audit_log_path=str(self.audit_log),
            # A request is answered when its line is written.
            audit_log_mode="blocking-strict",
        )

    def asked(self, component: str) -> dict[Request, set[int]]:
        """What a component asked for, and the codes that it was answered with."""
        caller = f"system:serviceaccount:{NAMESPACE}:{charts.RELEASE}-{component}"
        found: dict[Request, set[int]] = {}
        for line in self.audit_log.read_text().splitlines():
            event = json.loads(line)
            what = event.get("objectRef")
            if event["user"]["username"] != caller or what is None or what.get("apiGroup") in _ANYBODYS:
                continue
            resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
            key = Request(event["verb"], what.get("apiGroup", ""), resource, what.get("namespace", ""))
            found.setdefault(key, set()).add(event.get("responseStatus", {}).get("code", 0))
        return found


class Installation:
    """What was installed on a server, from its administrator's side."""

    def __init__(self, server: StockApiServer, folder: Path) -> None:
        self.server = server
        self.kubeconfig = server.kubeconfig()
        self._folder = folder

    def kubectl(
        self, *arguments: str, given: str | None = None, component: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """A kubectl command of the administrator's, or with the account of a component that ran."""
        config = self._folder / component / "kubeconfig" if component else self.kubeconfig
        return subprocess.run(
            [program("kubectl"), "--kubeconfig", str(config), *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )

    def get(self, kind: str, name: str = "", *options: str) -> Document:
        """An object of the installation, or a list of them."""
        named = [name] if name else []
        done = self.kubectl("--namespace", NAMESPACE, "get", kind, *named, "--output=json", *options)
        assert not done.returncode, done.stderr
        found: Document = json.loads(done.stdout)
        return found

    def helm(self, *arguments: str) -> str:
        """A Helm command of the administrator's."""
        return charts.helm(*arguments, "--namespace", NAMESPACE, "--kubeconfig", str(self.kubeconfig))

    @contextlib.asynccontextmanager
    async def running(
        self, component: str, *, addresses: Mapping[str, str] | None = None, node: str = "", options: Sequence[str] = ()
    ) -> AsyncIterator["Component"]:
        """A component as its pod would start it, once it is ready.

        `addresses` are instead of the pod's own, `node` is where the pod is, and `options` are more than it has.
        """
        running = await asyncio.to_thread(self._component, component, addresses or {}, node, options)
        await asyncio.to_thread(running.__enter__)
        try:
            yield running
        finally:
            await asyncio.to_thread(running.__exit__)

    def _component(
        self, component: str, addresses: Mapping[str, str], node: str, options: Sequence[str]
    ) -> "Component":
        template = self.get("daemonset" if node else "deployment", f"{charts.RELEASE}-{component}")["spec"]["template"]
        pod = template["spec"]
        root = self._folder / component
        self._mount(pod, root)
        pages = f"127.0.0.1:{processes.free_port()}"
        arguments = [str(one).replace("=/etc/rota/", f"={root}/etc/rota/") for one in pod["containers"][0]["args"]]
        for own, ours in {"0.0.0.0:9464": pages, **addresses}.items():
            arguments = [one.replace(own, ours) for one in arguments]
        self._admit(template, component, node)
        environment = {"NODE_NAME": node} if node else {}
        return Component(root, f"http://{pages}", [*arguments, *options], environment | self._inside())

    def _inside(self) -> dict[str, str]:
        """What every process in a cluster is told."""
        host, port = self.server.url.removeprefix("https://").split(":")
        return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}

    def _admit(self, template: Document, component: str, node: str) -> None:
        """Leave a token of the pod's account with it; the token of a pod on a node is bound to both."""
        bound: list[str] = []
        if node:
            metadata = {**template["metadata"], "name": component, "namespace": NAMESPACE}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": template["spec"] | {"nodeName": node},
            }
            made = self.kubectl("apply", "--filename=-", given=json.dumps(pod))
            assert not made.returncode, made.stderr
            bound = ["--bound-object-kind=Pod", f"--bound-object-name={component}"]
        account = template["spec"]["serviceAccountName"]
        token = self.kubectl("--namespace", NAMESPACE, "create", "token", account, *bound)
        assert not token.returncode, token.stderr
        root = self._folder / component
        write_kubeconfig(
            root / "kubeconfig",
            server=self.server.url,
            token=token.stdout.strip(),
            certificate=self.server.certificate,
        )
        place = root / "serviceaccount"
        place.mkdir(exist_ok=True)
        (place / "token").write_text(token.stdout.strip())
        (place / "namespace").write_text(NAMESPACE)
        (place / "ca.crt").write_bytes(self.server.certificate.read_bytes())

    def _mount(self, pod: Document, root: Path) -> None:
        root.mkdir(exist_ok=True)
        volumes = {one["name"]: one for one in pod.get("volumes", ())}
        for mount in pod["containers"][0].get("volumeMounts", ()):
            place = root / mount["mountPath"].lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
            for name, content in self._files(volumes[mount["name"]]).items():
                (place / name).write_bytes(content)

    def _files(self, volume: Document) -> dict[str, bytes]:
        if "configMap" in volume:
            data = self.get("configmap", volume["configMap"]["name"])["data"]
            return {name: text.encode() for name, text in data.items()}
        data = self.get("secret", volume["secret"]["secretName"])["data"]
        return {one["path"]: base64.b64decode(data[one["key"]]) for one in volume["secret"]["items"]}


class Component:
    """One process of Rota's, which finds its account where pods do; not as root, it has a kubeconfig instead."""

    def __init__(self, root: Path, pages: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        self._root = root
        self._log = root / "log"
        self._pages = pages
        self._arguments = arguments
        self._environment = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"} | dict(
            environment
        )
        self._clock = SystemClock()

    def _command(self) -> list[str]:
        rota = [sys.executable, "-m", "rota", *self._arguments]
        unshare = shutil.which("unshare")
        if os.geteuid() != 0 or unshare is None:
            return [*rota, f"--kubeconfig={self._root / 'kubeconfig'}"]
        account = f"{_ACCOUNT}/serviceaccount"
        mounted = f"mount -t tmpfs tmpfs /run && mkdir -p {_ACCOUNT} && cp -r {self._root}/serviceaccount {account}"
        return [unshare, "--mount", "sh", "-euc", f'{mounted} && exec "$@"', "sh", *rota]

    def page(self, path: str) -> tuple[int, str]:
        """What one of its pages says."""
        try:
            with urllib.request.urlopen(f"{self._pages}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError as problem:
            return 0, str(problem)

    @property
    def log(self) -> str:
        """What it said."""
        return self._log.read_text()

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command(), env=self._environment, stdout=log, stderr=log)
        deadline = self._clock.monotonic() + _PATIENCE_S
        while self.page("/readyz")[0] != 200:
            if self._process.poll() is not None or self._clock.monotonic() > deadline:
                self.__exit__()
                raise AssertionError(f"{self._arguments[0]} is not ready:\n{self.log}")
            self._clock.block(_LOOK_AGAIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
