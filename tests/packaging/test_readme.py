"""The chart's page: its table has every value, with what the schema says about it."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from tests.packaging.charts import CHART

PAGE = CHART / "README.md"
_MARK = "<!-- values -->\n"


def rows(schema: Mapping[str, Any], values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """A line for each value, and one for each group of them."""
    for name, about in schema["properties"].items():
        if name not in values:
            continue
        if about.get("additionalProperties") is False and "description" in about and name != "resources":
            yield f"| **`{path}{name}`** | | {about['description']} |"
            yield from rows(about, values[name], f"{path}{name}.")
        else:
            yield f"| `{path}{name}` | `{_shown(values[name])}` | {about['description']} |"


def _shown(value: Any) -> str:
    return json.dumps(value) if value != "" else '""'


def test_the_table_has_every_value_as_the_schema_describes_it() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    table = "\n".join(["| value | default | |", "| --- | --- | --- |", *rows(schema, values)]) + "\n"
    before, mark, _ = PAGE.read_text().partition(_MARK)
    written = f"{before}{mark}\n{table}"
    if os.environ.get("REWRITE_README"):
        PAGE.write_text(written)
    assert PAGE.read_text() == written


def test_every_value_is_described() -> None:
    def described(schema: Mapping[str, Any], values: Mapping[str, Any], path: str = "") -> Iterator[str]:
        for name, value in values.items():
            about = schema.get("properties", {}).get(name, {})
            if not about.get("description"):
                yield f"{path}{name}"
            elif about.get("additionalProperties") is False and name != "resources":
                yield from described(about, value, f"{path}{name}.")

    schema = json.loads((CHART / "values.schema.json").read_text())
    assert list(described(schema, yaml.safe_load((CHART / "values.yaml").read_text()))) == []
