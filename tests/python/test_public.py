"""What `import rota` costs, and that what it promises to type checkers is what it has."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rota


def test_every_name_in_the_stubs_exists() -> None:
    stub = ast.parse(Path(rota.__file__).with_suffix(".pyi").read_text())
    told = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == set(rota._WHERE)  # type: ignore[attr-defined] # not for others
    for name in told:
        assert getattr(rota, str(name)) is not None
    assert told <= set(dir(rota))


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rota' has no attribute 'tusk'"):
        rota.tusk  # type: ignore[attr-defined] # noqa: B018 - that is the point


@pytest.mark.slow
def test_importing_rota_imports_nothing_else() -> None:
    program = "import sys, rota; print([name for name in sys.modules if name.startswith(('rota.', 'cloudpickle'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
