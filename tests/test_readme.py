"""What the README promises on its first screen is run as it stands there."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_python_of_the_readme_runs_and_classifies_well() -> None:
    first, second = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(first, "README.md", "exec"), names)
    exec(compile(second, "README.md", "exec"), {})
    assert names["accuracy"] > 0.9  # type: ignore[operator] # exec yields untyped names


def test_the_first_screen_holds_the_commands_and_the_python() -> None:
    first_screen = "\n".join(README.splitlines()[:30])
    for expected in ("make demo", "make test", "forest.predict"):
        assert expected in first_screen
