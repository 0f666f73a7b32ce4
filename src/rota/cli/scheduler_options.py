"""The options for the scheduler configuration and plugin files, of every command that schedules or decides."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource

_F = TypeVar("_F", bound=Callable[..., Any])

_config = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_plugin = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class SchedulerFiles:
    """The files that the options name; false if there are none."""

    config: Path | None = None
    plugins: tuple[Path, ...] = ()
    batch: Path | None = None

    def __bool__(self) -> bool:
        return self.config is not None or bool(self.plugins)

    def source(self) -> "ConfigurationSource":
        """The configuration from these files."""
        from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource  # noqa: PLC0415 - NumPy loads slowly

        return ConfigurationSource(self.config, self.plugins, self.batch)


def file_options(purpose: str) -> Callable[[_F], _F]:
    """Add the options; the command gets them as `scheduler_config` and `plugins`."""

    def decorate(command: _F) -> _F:
        command = click.option(
            "--plugin",
            "plugins",
            type=_plugin,
            multiple=True,
            metavar="FILE.py",
            help="Python file with scheduler plugins; the configuration enables them; repeatable.",
        )(command)
        return click.option(
            "--scheduler-config", type=_config, metavar="FILE", help=purpose, show_default="the stock configuration"
        )(command)

    return decorate


def batch_option(command: _F) -> _F:
    """Add the option for the batch profile; the command gets it as `batch_config`."""
    return click.option(
        "--batch-config",
        type=_plugin,
        metavar="FILE",
        help="Schedule pods of schedulerName volcano in groups, by this volcano-scheduler.conf; reloaded on changes.",
        show_default="Volcano's built-in configuration",
    )(command)


def scheduler_options(purpose: str = "Use this KubeSchedulerConfiguration.") -> Callable[..., Any]:
    """Add the options; the command gets them as `scheduler_files`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @file_options(purpose)
        @wraps(command)
        def with_files(*args: Any, scheduler_config: Path | None, plugins: tuple[Path, ...], **more: Any) -> Any:
            return command(*args, scheduler_files=SchedulerFiles(scheduler_config, plugins), **more)

        return with_files

    return decorate
