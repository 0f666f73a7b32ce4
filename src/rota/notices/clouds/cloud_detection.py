"""Detects the cloud of a machine: by its node's provider id, or by which endpoint answers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.notices.clouds import aws, azure, gcp
from rota.notices.clouds.aws import Aws
from rota.notices.clouds.azure import Azure
from rota.notices.clouds.cloud_provider import Cloud, CloudError, MetadataEndpoint
from rota.notices.clouds.gcp import Gcp

#: Endpoints of clouds, by name.
URLS: Final = {Aws.provider: aws.URL, Gcp.provider: gcp.URL, Azure.provider: azure.URL}
_SCHEMES: Final = {"aws": Aws.provider, "gce": Gcp.provider, "azure": Azure.provider}
_PROBE_S: Final = 3.0


def boot_id() -> str:
    """The boot id of this machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def by_provider_id(provider_id: str) -> str:
    """The cloud that a node's `spec.providerID` names; empty if it is not a supported one."""
    return _SCHEMES.get(provider_id.partition("://")[0], "")


def cloud(provider: str, endpoint: MetadataEndpoint, *, clock: Clock, boot: str) -> Cloud:
    """A cloud by its name."""
    makers: dict[str, Callable[[], Cloud]] = {
        Aws.provider: lambda: Aws(endpoint, clock=clock),
        Gcp.provider: lambda: Gcp(endpoint, boot=boot),
        Azure.provider: lambda: Azure(endpoint),
    }
    return makers[provider]()


async def probed(endpoint: Callable[[str], MetadataEndpoint]) -> str:
    """The cloud whose endpoint answers correctly; UserError if none does. `endpoint` makes one for a URL."""
    names = (Aws.provider, Gcp.provider, Azure.provider)
    answers = await asyncio.gather(
        _is_aws(endpoint(URLS[names[0]])), _is_gcp(endpoint(URLS[names[1]])), _is_azure(endpoint(URLS[names[2]]))
    )
    found = [name for name, here in zip(names, answers, strict=True) if here]
    if len(found) != 1:
        raise UserError("no cloud's metadata endpoint answers here", f"name one of {', '.join(names)} with --provider")
    return found[0]


async def _is_aws(endpoint: MetadataEndpoint) -> bool:
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    try:
        reply = await endpoint.ask("/latest/api/token", method="PUT", headers=lifetime, timeout_s=_PROBE_S)
    except CloudError:
        return False
    return reply.code == 200 and bool(reply.text.strip())


async def _is_gcp(endpoint: MetadataEndpoint) -> bool:
    try:
        reply = await endpoint.ask("/computeMetadata/v1/instance/id", headers=gcp.FLAVOR, timeout_s=_PROBE_S)
    except CloudError:
        return False
    return reply.headers.get("metadata-flavor") == gcp.FLAVOR["Metadata-Flavor"]


async def _is_azure(endpoint: MetadataEndpoint) -> bool:
    try:
        reply = await endpoint.ask(azure.NAME, headers=azure.HEADERS, query=azure.NAME_QUERY, timeout_s=_PROBE_S)
    except CloudError:
        return False
    return reply.code == 200
