"""`rota federation interpret`: tries interpreter rules on objects in files, without a cluster."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from rota.api import meta, times
from rota.cli import output
from rota.cli.commands import manifest_files, object_listing
from rota.federation.customization import entry_points, lua_scripts
from rota.federation.customization.interpreter import Interpreter
from rota.federation.customization.lua_scripts import LuaProcess, LuaScripts
from rota.federation.customization.operations import SCRIPTS, CannotInterpret, Operation
from rota.kit import errors, system

Object = dict[str, Any]
_KIND: Final = "ResourceInterpreterCustomization"


def check(files: Sequence[Path], *, as_json: bool) -> None:
    """Load every script, and say which operations have one."""
    customizations = _customizations(files)

    async def checked() -> list[dict[str, str]]:
        process, rows = LuaProcess(), []
        try:
            for one in customizations:
                for operation, (member, function, _) in SCRIPTS.items():
                    script = ((one["spec"].get("customizations") or {}).get(member) or {}).get("luaScript")
                    if script:
                        # Calls a function that only tells whether the one that is wanted exists.
                        probe = f"{script}\nfunction rota_probe() return type({function}) == 'function' end"
                        rows.append({"customization": meta.name(one), "operation": operation.value})
                        try:
                            (found,) = await process.call(probe, "rota_probe", [], returns=1, like_arguments=False)
                            rows[-1]["result"] = "ok" if found else f"the script has no function {function}"
                        except CannotInterpret as error:
                            rows[-1]["result"] = str(error)
        finally:
            await process.close()
        return rows

    rows = asyncio.run(checked())
    if as_json:
        output.document(rows)
    else:
        output.table(["CUSTOMIZATION", "OPERATION", "RESULT"], [list(row.values()) for row in rows])
    if any(row["result"] != "ok" for row in rows):
        raise errors.UserError("not all scripts can be used", "see the table above")


def interpret(
    operation_name: str,
    files: Sequence[Path],
    *,
    desired: Path | None,
    observed: Path | None,
    statuses: Path | None,
    replicas: int | None,
    as_json: bool,
) -> None:
    """Print the answer to one question."""
    operation = Operation(operation_name)
    wanted, present = _one(desired), _one(observed)
    subject = wanted or present
    if subject is None:
        raise click.UsageError("give an object with --desired-file or --observed-file")
    items = _items(statuses)
    rules = lua_scripts.rules(_customizations(files))

    async def answered() -> Any:
        process = LuaProcess()
        interpreter = Interpreter(
            [LuaScripts(lambda: rules, process), entry_points.PythonRules(entry_points.load())], reads_unknown=True
        )
        try:
            if operation is Operation.RETENTION:
                if wanted is None or present is None:
                    raise click.UsageError("give both --desired-file and --observed-file")
                return await interpreter.retained(wanted, present)
            return await _answer(interpreter, operation, subject, replicas=replicas, items=items)
        finally:
            await process.close()

    try:
        found = asyncio.run(answered())
    except CannotInterpret as error:
        raise errors.UserError(str(error), "fix the script") from error
    if as_json:
        output.document(found)
    else:
        click.echo(object_listing.as_yaml(found), nl=False)


async def _answer(
    interpreter: Interpreter, operation: Operation, subject: Object, *, replicas: int | None, items: Sequence[Object]
) -> Any:
    match operation:
        case Operation.REPLICAS:
            read = await interpreter.replicas(subject)
            return None if read is None else {"replicas": read[0], "requirements": read[1]}
        case Operation.COMPONENTS:
            return await interpreter.components(subject)
        case Operation.REVISION:
            if replicas is None:
                raise click.UsageError("give the number with --desired-replica")
            return await interpreter.revised(subject, replicas)
        case Operation.AGGREGATION:
            return await interpreter.aggregated(subject, items, times.format_time(system.SystemClock().now()))
        case Operation.DEPENDENCIES:
            return await interpreter.dependencies(subject)
        case Operation.STATUS:
            return await interpreter.status(subject)
        case _:
            return {"healthy": await interpreter.health(subject)}


def _objects(files: Iterable[Path]) -> list[Object]:
    found = manifest_files.read(map(str, files))
    for one in found:
        if one.fault:
            raise errors.UserError(f"{one.where} {one.fault}")
    return [dict(one.obj) for one in found]


def _items(file: Path | None) -> list[Object]:
    """Items of an aggregated status: documents, or one list."""
    if file is None:
        return []
    loaded = [one for one in yaml.safe_load_all(file.read_text()) if one is not None]
    found = [item for one in loaded for item in (one if isinstance(one, list) else [one])]
    if not all(isinstance(one, dict) and one.get("clusterName") for one in found):
        raise errors.UserError(f"{file} has an item without clusterName", "write items of an aggregatedStatus")
    return found


def _customizations(files: Sequence[Path]) -> list[Object]:
    found = _objects(files)
    for one in found:
        if one.get("kind") != _KIND:
            raise errors.UserError(f"{one.get('kind')} is no {_KIND}", "give customizations with --filename")
    return found


def _one(file: Path | None) -> Object | None:
    if file is None:
        return None
    found = _objects([file])
    if len(found) != 1:
        raise errors.UserError(f"{file} has {len(found)} objects", "give a file with one")
    return found[0]
