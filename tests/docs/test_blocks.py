"""Every Python block of the documents runs as it stands there, notebooks' cells included.

The blocks of a page share their names and an empty folder, as if a reader typed them one by one.
Where a block of text follows, it is what the Python above it prints. Of pages that need a
federation of processes, `test_commands.py` runs the blocks against one; those of the guide to MPI
run in a job.
"""

import re
from pathlib import Path

import pytest

from tests.docs.documents import (
    DOCS,
    DOCUMENTS,
    IN_A_FEDERATION,
    IN_AN_MPI_JOB,
    ROOT,
    python_blocks,
)

RUN_ELSEWHERE = IN_A_FEDERATION | IN_AN_MPI_JOB
WITH_PYTHON = [path for path in DOCUMENTS if python_blocks(path) and path not in RUN_ELSEWHERE]
of_every_document_with_python = pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=[pytest.mark.slow] * (DOCS / "tutorials" in path.parents))
        for path in WITH_PYTHON
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)


@of_every_document_with_python
def test_the_python_of_a_document_runs_and_prints_what_it_says(
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(document):
        exec(compile("\n" * block.line + block.code, str(document), "exec"), names)
        printed = capsys.readouterr().out
        assert block.output is None or printed == block.output


def test_blocks_are_found_with_their_lines_and_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n```python\none\n```\n\n```text\n1\n```\n```{code-cell}\n:tags: [x]\ntwo\n```\n"
    )
    assert python_blocks(page) == [(2, "one\n", "1\n"), (9, "\ntwo\n", None)]


def test_every_block_of_code_says_its_language() -> None:
    known = {"python", "sh", "toml", "yaml", "text", "json", ""}
    for path in DOCUMENTS:
        fences = re.findall(r"^```(.*)$", path.read_text(), flags=re.MULTILINE)
        assert {word for word in fences[::2] if not word.startswith("{")} <= known, path


def test_commands_stand_in_blocks_that_tests_read() -> None:
    for path in DOCUMENTS:
        prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert re.findall(r"^ {4}(?:fedforest|pip|make|mpiexec) .*", prose, re.MULTILINE) == [], (
            path
        )
