"""Every Python block of the documents runs as it stands there, notebooks' cells included.

The blocks of a page share their names and an empty folder, as if a reader typed them one by one. Of
pages that need a federation of processes, `test_commands.py` runs the blocks against one.
"""

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, IN_A_FEDERATION, ROOT, python_blocks

WITH_PYTHON = [path for path in DOCUMENTS if python_blocks(path)]


@pytest.mark.parametrize(
    "document",
    [path for path in WITH_PYTHON if path not in IN_A_FEDERATION],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_python_of_a_document_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, block in python_blocks(document):
        exec(compile("\n" * line + block, str(document), "exec"), names)


def test_blocks_are_found_with_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n```python\none\n```\n```{code-cell}\n:tags: [hide-input]\ntwo\n```\n")
    assert python_blocks(page) == [(2, "one\n"), (5, "\ntwo\n")]


def test_every_block_of_code_says_its_language() -> None:
    for path in DOCUMENTS:
        fences = re.findall(r"^```(.*)$", path.read_text(), flags=re.MULTILINE)
        opening = fences[::2]
        known = {"python", "sh", "toml", "text", "json"}
        assert {word for word in opening if not word.startswith("{")} <= known | {""}, path
