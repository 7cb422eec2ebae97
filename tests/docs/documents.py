"""The documents, and the blocks of code in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
IN_A_FEDERATION = {DOCS / "how-to" / "federation.md"}  # pages whose Python needs live parties
IN_AN_MPI_JOB = {DOCS / "how-to" / "mpi.md"}  # `tests/experiments/test_mpi.py` runs it in one

_PYTHON = re.compile(
    r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_OPTION = re.compile(r"^:[\w-]+:.*$", re.MULTILINE)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Python in a document: the line before it, and the output that follows it, if any."""

    line: int
    code: str
    output: str | None


def python_blocks(document: Path) -> list[Block]:
    """All Python of a document; options of cells are blank lines in it."""
    text = document.read_text()
    return [
        Block(text.count("\n", 0, found.start(1)), _OPTION.sub("", found[1]), found[2])
        for found in _PYTHON.finditer(text)
    ]


def command_lines(document: Path) -> list[str]:
    """The lines of all blocks of commands; a line that goes on is one with the next."""
    blocks = _COMMANDS.findall(document.read_text())
    return [
        line
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]
