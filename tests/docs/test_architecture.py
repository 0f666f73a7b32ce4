"""The glossary and the architecture page name what is in the tree, and every package says what is in it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rota"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
DECISIONS = ROOT / "docs" / "adr"

#: A folder with a slash at its end, or a Python file.
_PATH = re.compile(r"`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*(?:/|\.py|\.txt))`")
#: One meaning in several packages, so that the name alone is written.
_EVERYWHERE = frozenset({"rights.py", "service.py"})


def named_paths(page: str) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Every path of a page, with the folders below which it may be.

    In a table headed "in `X/`" paths are below X, and file names are also below the first folder of their row.
    """
    base: tuple[Path, ...] = ()
    previous = ""
    for line in page.splitlines():
        if line.startswith("|") and not previous.startswith("|"):
            heading = re.search(r"\| in `([a-z_/]+)`", line)
            base = (SOURCE / heading[1],) if heading else ()
        elif not line.startswith("|"):
            base = ()
        row = tuple(folder / path for folder in base for path in _PATH.findall(line) if path.endswith("/"))
        for path in _PATH.findall(line):
            yield path, (SOURCE, ROOT, *base, *row)
        previous = line


def missing(page: Path) -> list[str]:
    return [
        path
        for path, folders in named_paths(page.read_text())
        if path not in _EVERYWHERE and not any((folder / path).exists() for folder in folders)
    ]


@pytest.mark.parametrize("page", [ARCHITECTURE, GLOSSARY], ids=lambda page: page.stem)
def test_every_path_that_is_named_exists(page: Path) -> None:
    assert len(list(named_paths(page.read_text()))) > 70
    assert missing(page) == []


def test_a_path_that_does_not_exist_is_found() -> None:
    table = "| in `apiserver/` | |\n| --- | --- |\n| `verbs/` | `watch.py`, `nowhere.py` |"
    page = f"`scheduler/queue/`\n\n{table}\n\n`verbs/`\n"
    found = [path for path, folders in named_paths(page) if not any((folder / path).exists() for folder in folders)]
    assert found == ["nowhere.py", "verbs/"]


def test_every_package_is_in_the_table_of_packages() -> None:
    packages = {folder.parent.name for folder in SOURCE.glob("*/__init__.py")}
    rows = re.findall(r"^\| `([a-z_]+)` \|", ARCHITECTURE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(packages)


@pytest.mark.parametrize(
    "package", sorted(SOURCE.rglob("__init__.py")), ids=lambda path: str(path.parent.relative_to(SOURCE))
)
def test_every_package_says_what_is_in_it(package: Path) -> None:
    assert ast.get_docstring(ast.parse(package.read_text()))


def test_every_folder_with_modules_is_a_package() -> None:
    assert [
        str(folder.relative_to(SOURCE))
        for folder in sorted({module.parent for module in SOURCE.rglob("*.py")})
        if not (folder / "__init__.py").exists()
    ] == []


def test_every_decision_has_its_own_number_and_is_in_the_index() -> None:
    pages = sorted(DECISIONS.glob("[0-9]*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert len(set(numbers)) == len(numbers)
    index = (DECISIONS / "README.md").read_text()
    for number, page in zip(numbers, pages, strict=True):
        title = page.read_text().splitlines()[0]
        assert title.startswith(f"# {number}. ")
        assert f"| [{number}]({page.name}) | {title.partition('. ')[2]} |" in index
        assert re.findall(r"^## (.*)", page.read_text(), re.MULTILINE) == [
            "Context",
            "Decision",
            "Alternatives",
            "Consequences",
        ]
