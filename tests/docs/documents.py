"""The documents, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
IN_A_FEDERATION = {DOCS / "how-to" / "federation.md"}  # pages whose Python needs live parties

_PYTHON = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_OPTION = re.compile(r"^:[\w-]+:.*$", re.MULTILINE)


def python_blocks(document: Path) -> list[tuple[int, str]]:
    """The line before each block, and the block; options of cells are blank lines in it."""
    text = document.read_text()
    return [
        (text.count("\n", 0, block.start(1)), _OPTION.sub("", block[1]))
        for block in _PYTHON.finditer(text)
    ]
