"""What documents name is there: files they link to, modules, commands with their options, targets.

These tests only read files, so that `make check` can run them too.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fedforest.cli.main import app

pytestmark = pytest.mark.structure

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fedforest"
CODE = ("src", "tests", "benchmarks", "docs", "examples")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
MODULES = {path.name for top in CODE for path in (ROOT / top).rglob("*.py")}
SOURCES = sorted(PACKAGE.rglob("*.py"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))

of_every_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


# docstrings and comments are documents, too
of_every_text = pytest.mark.parametrize(
    "document", [*DOCUMENTS, *SOURCES], ids=lambda path: str(path.relative_to(ROOT))
)


@lru_cache
def read_identifiers() -> set[str]:
    """Every name that the code defines, imports or uses."""
    names: set[str] = set()
    for path in (path for top in CODE for path in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for field in ("id", "attr", "name", "arg"):
                names.add(str(getattr(node, field, "")))
    return names


def found(pattern: str, document: Path) -> list[str]:
    return re.findall(pattern, document.read_text(), flags=re.MULTILINE)


def is_there(module: str) -> bool:
    """Whether a document can mean a file by this; without a folder, one beside another one's."""
    if "/" in module:
        return any(PACKAGE.glob(module)) or any(ROOT.glob(module))
    return module in MODULES


def commands_in(document: Path) -> Iterator[list[str]]:
    """The words of every `fedforest` command, in blocks and in sentences."""
    text = document.read_text().replace("\\\n", " ")
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)]
    for line in lines + spans:
        if line.removeprefix(".venv/bin/").startswith("fedforest "):
            yield shlex.split(line, comments=True)[1:]


@lru_cache
def read_commands() -> Any:
    return get_command(app)


def check_command(words: list[str]) -> str | None:
    """What is wrong with a command that stands in a document; `a|b` means both."""
    command = read_commands()
    while (
        words
        and not words[0].startswith("-")
        and (inner := getattr(command, "commands", None)) is not None
    ):
        choices, *words = words[0].split("|"), *words[1:]
        unknown = [name for name in choices if name not in inner]
        if unknown:
            return f"there is no command {unknown[0]!r}"
        command = inner[choices[-1]]
    options = {option for parameter in command.params for option in parameter.opts}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    unknown = sorted({*given} - options - {"--help"})
    return f"{command.name} has no option {unknown[0]}" if unknown else None


@of_every_document
def test_every_file_that_a_document_links_to_is_there(document: Path) -> None:
    links = [link for link in found(r"\]\(([^)\s]+)\)", document) if not link.startswith("http")]
    paths = [link.partition("#")[0] for link in links]
    missing = [path for path in filter(None, paths) if not (document.parent / path).is_file()]
    assert missing == []


@of_every_text
def test_every_module_that_a_document_names_is_there(document: Path) -> None:
    names = found(r"`([\w./*-]+\.py)`", document)
    assert [name for name in names if not is_there(name)] == []


@of_every_text
def test_every_class_that_a_document_names_is_there(document: Path) -> None:
    named = found(r"`((?:[A-Z][a-z0-9]+){2,}[A-Z]*)(?:\([^`]*\))?`", document)
    assert set(named) - read_identifiers() == set()


@of_every_document
def test_every_command_that_a_document_shows_is_there_with_its_options(document: Path) -> None:
    wrong = {" ".join(words): check_command(words) for words in commands_in(document)}
    assert {words: complaint for words, complaint in wrong.items() if complaint} == {}


@of_every_document
def test_every_make_target_that_a_document_names_is_there(document: Path) -> None:
    named = {words.split()[0] for words in found(r"(?:^|`)make ([a-z][a-z-]*[^`\n]*)", document)}
    assert named - TARGETS == set()


def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text(
        "[gone](gone.md) and `runtime/gone.py`, `HasGone` by `fedforest party gone`,\n"
        "```sh\nfedforest party trust NAME PIN \\\n    --gone\nmake gone\n```\n"
    )
    checks = (
        test_every_file_that_a_document_links_to_is_there,
        test_every_module_that_a_document_names_is_there,
        test_every_class_that_a_document_names_is_there,
        test_every_command_that_a_document_shows_is_there_with_its_options,
        test_every_make_target_that_a_document_names_is_there,
    )
    for check in checks:
        with pytest.raises(AssertionError, match=r"(?i)gone"):
            check(document)
