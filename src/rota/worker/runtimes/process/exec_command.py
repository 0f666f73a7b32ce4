"""The command line that runs a command inside a running container: in its cgroups and namespaces, as its user.

It needs `sh`, and `nsenter` and `setpriv` of util-linux if the container has namespaces of its own or another user than
the agent.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from rota.worker.runtimes.process import environment_sanitizer, sandbox
from rota.worker.runtimes.process.sandbox import Sandbox
from rota.worker.runtimes.runtime_interface import Inside, Launch, LaunchError, Place


def inside(launch: Launch, command: Sequence[str], place: Place | None, *, home: Path, restrictions: Sandbox) -> Inside:
    """The command line for a container; LaunchError if the container does not run."""
    if place is None:
        raise LaunchError("ContainerNotRunning", f'container "{launch.container}" does not run')
    steps = ["set -e", *(f"echo $$ > {shlex.quote(one)}/cgroup.procs" for one in place.cgroups), 'exec "$@"']
    cwd = launch.working_dir or str(home)
    entered = restrictions.entry(launch, home, place.pid)
    if entered:
        if missing := sandbox.missing_programs():
            raise LaunchError("CreateContainerError", f"{', '.join(missing)} not found; install util-linux")
        entered = [*entered, "sh", "-c", f'cd {shlex.quote(cwd)}; exec "$@"', "sh"]
        cwd = "/"
    becoming = sandbox.become(launch) if os.geteuid() == 0 or launch.no_new_privileges else []
    argv = [
        "sh",
        "-c",
        "; ".join(steps),
        "sh",
        *entered,
        *becoming,
        *environment_sanitizer.restored(launch.env),
        *command,
    ]
    return Inside(argv=argv, env=environment_sanitizer.environment(launch.env), cwd=cwd)
