"""How a member runs: its folders, its command line, and its systemd unit. Pure.

A worker's unit has `KillMode=process`: systemd then stops the worker alone, and the shim goes on with its tasks. So
tasks survive an upgrade or a restart of their worker.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from rota.lifecycle.cluster_spec import LOCAL, SQLITE, ClusterSpec, Manager, Member, Role

#: Variables of a worker's first start: ROTA_TOKEN, and ROTA_JOIN with further options. Deleted when it has joined.
JOIN_FILE: Final = "join.env"
KEYS_FILE: Final = "encryption-keys.yaml"
#: The link to the release in use.
CURRENT: Final = "current"
_STOP_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A member's process."""

    unit: str
    command: tuple[str, ...]
    #: A digest of everything that a restart is needed for.
    digest: str
    text: str

    def as_json(self) -> dict[str, Any]:
        """For the program on the host."""
        return {"unit": self.unit, "command": list(self.command), "digest": self.digest, "text": self.text}


def home(spec: ClusterSpec, member: str) -> str:
    """The folder of a member on its machine."""
    return f"{spec.folder}/{member}"


def program(spec: ClusterSpec, member: str) -> str:
    """The path of `rota` on the member's machine: the installed one, or that of the release in use."""
    return spec.program or f"{home(spec, member)}/{CURRENT}/bin/rota"


def data(spec: ClusterSpec, member: str) -> str:
    """The member's data folder."""
    return f"{home(spec, member)}/data"


def unit_name(cluster: str, member: str) -> str:
    """The name of the member's systemd unit."""
    return f"rota-{cluster}-{member}.service"


def server(member: Member) -> str:
    """The URL of a master."""
    host = f"[{member.serves_on}]" if ":" in member.serves_on else member.serves_on
    return f"https://{host}:{member.port}"


def store_url(spec: ClusterSpec, member: str) -> str:
    """The store of a master."""
    return f"sqlite:///{data(spec, member)}/rota.db" if spec.store == SQLITE else spec.store


def service(spec: ClusterSpec, member: Member) -> Service:
    """The member's process, as the file wants it."""
    command = _master(spec, member) if member.role is Role.MASTER else _worker(spec, member)
    unit = unit_name(spec.name, member.name)
    relevant = [command, spec.manager, environment(spec, member)]
    digest = hashlib.sha256(json.dumps(relevant).encode()).hexdigest()[:16]
    return Service(unit=unit, command=command, digest=digest, text=_unit(spec, member, command))


def _master(spec: ClusterSpec, member: Member) -> tuple[str, ...]:
    # The store's URL may have a password: it is a variable of the process, not an argument that every user can see.
    return (
        program(spec, member.name),
        "master",
        f"--data={data(spec, member.name)}",
        f"--host={member.serves_on}",
        f"--port={member.port}",
        f"--encryption-keys={home(spec, member.name)}/{KEYS_FILE}",
        *member.options,
    )


def _worker(spec: ClusterSpec, member: Member) -> tuple[str, ...]:
    address = () if member.address == LOCAL else (f"--address={member.serves_on}",)
    return (
        program(spec, member.name),
        "worker",
        f"--name={member.name}",
        f"--data={data(spec, member.name)}",
        f"--port={member.port}",
        *address,
        *member.options,
    )


def environment(spec: ClusterSpec, member: Member) -> dict[str, str]:
    """The variables of the member's process; only the user of the process may read them."""
    return {"ROTA_STORE": store_url(spec, member.name)} if member.role is Role.MASTER else {}


def _unit(spec: ClusterSpec, member: Member, command: tuple[str, ...]) -> str:
    if spec.manager is not Manager.SYSTEMD:
        return ""
    folder = home(spec, member.name)
    worker = member.role is Role.WORKER
    # systemd splits an unquoted variable into words.
    words = [*map(_quoted, command), *(["$ROTA_JOIN"] if worker else [])]
    return "\n".join(
        (
            "[Unit]",
            f"Description=Rota {member.role} {member.name} of cluster {spec.name}",
            "After=network-online.target",
            "Wants=network-online.target",
            # Without a limit, or a store that is away for some seconds would end the restarts for good.
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            f"ExecStart={' '.join(words)}",
            f"EnvironmentFile=-{folder}/service.env",
            *((f"EnvironmentFile=-{folder}/{JOIN_FILE}",) if worker else ()),
            f"WorkingDirectory={folder}",
            "Restart=always",
            "RestartSec=2",
            # A worker's tasks live on in their shim; a master has child processes that end with it.
            f"KillMode={'process' if worker else 'mixed'}",
            f"TimeoutStopSec={_STOP_S}",
            "LimitNOFILE=1048576",
            *(("Delegate=yes", "TasksMax=infinity") if worker else ()),
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        )
    )


def _quoted(word: str) -> str:
    """A word of ExecStart: systemd expands percent signs, dollars and quotes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or any(letter in word for letter in " ';") else word
