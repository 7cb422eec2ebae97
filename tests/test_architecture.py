"""The walls of the house: import contracts, empty packages, pinned exports, honest kernels."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import fedforest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fedforest"

PUBLIC_NAMES = [
    "Encrypted",
    "FederationError",
    "GlobalDP",
    "HorizontalExtraTreesClassifier",
    "HorizontalExtraTreesRegressor",
    "LocalDP",
    "Masked",
    "NoiseExceedsSignalWarning",
    "RandomizedResponse",
    "Ring",
    "Shamir",
    "VerticalForestClassifier",
    "VerticalForestRegressor",
    "VerticalLinearRegression",
    "VerticalLogisticRegression",
    "__version__",
    "plan",
]


def lint_imports(config: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter in its own process: it changes `sys.path` and the logging set-up."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]);"
        "from importlinter.cli import lint_imports;"
        "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True, no_logo=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", script, str(config), str(source)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=source,
    )


def copy_of_package(destination: Path) -> Path:
    """Copy the sources without compiled files, so that a test may break a wall in the copy."""
    for path in PACKAGE.rglob("*.py"):
        target = destination / "fedforest" / path.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return destination / "fedforest"


def test_every_import_respects_the_layers() -> None:
    outcome = lint_imports(ROOT / "pyproject.toml", ROOT / "src")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("module", "forbidden_import", "broken_contract"),
    [
        ("errors.py", "import fedforest.tree", "Imports point downwards only"),
        ("kernels/bits/intruder.py", "import fedforest.tree", "Imports point downwards only"),
        ("somewhere/__init__.py", "", "Imports point downwards only"),
        ("kernels/somewhere/__init__.py", "", "Rooms of kernels"),
        ("kernels/splits/intruder.py", "import fedforest.kernels.cuts.sums", "Rooms of kernels"),
        ("tree/table/intruder.py", "import fedforest.tree.forest.votes", "Rooms of the tree"),
        (
            "estimators/vertical/intruder.py",
            "import fedforest.estimators.horizontal.model",
            "Kinds of estimators do not know each other",
        ),
        (
            "runtime/party/intruder.py",
            "import fedforest.runtime.coordinator.jobs",
            "Rooms of the runtime",
        ),
        (
            "transport/grpc/intruder.py",
            "import fedforest.transport.in_process",
            "Carriers do not know each other",
        ),
        (
            "protocol/linear/intruder.py",
            "import fedforest.protocol.vertical",
            "Protocols do not know each other",
        ),
        (
            "protocol/aggregation/intruder.py",
            "import fedforest.protocol.linear",
            "Protocols do not know each other",
        ),
        (
            "protocol/horizontal/party/intruder.py",
            "import fedforest.protocol.horizontal.coordinator.trees",
            "Rooms of horizontal training",
        ),
        (
            "protocol/vertical/party.py",
            "import fedforest.protocol.vertical.prediction.plan",
            "Rooms of vertical training",
        ),
        (
            "transport/grpc/intruder.py",
            "import fedforest.protocol.vertical",
            "Transports carry messages of any protocol",
        ),
        ("tree/table/intruder.py", "import numba", "numba is used in kernels only"),
        ("protocol/linear/intruder.py", "import cryptography", "cryptography is used in masking"),
        ("runtime/party/intruder.py", "import grpc", "grpc and MPI are used in transport only"),
        ("tree/table/intruder.py", "import threading", "The layers below transport are pure"),
        ("kernels/bits/intruder.py", "import random", "The layers below transport are pure"),
    ],
)
def test_a_broken_wall_fails_the_contract_that_guards_it(
    tmp_path: Path, module: str, forbidden_import: str, broken_contract: str
) -> None:
    intruder = copy_of_package(tmp_path) / module
    intruder.parent.mkdir(exist_ok=True)
    with intruder.open("a") as file:
        file.write(f"\n{forbidden_import}\n")
    outcome = lint_imports(ROOT / "pyproject.toml", tmp_path)
    broken = [line for line in outcome.stdout.splitlines() if " BROKEN" in line]
    assert outcome.returncode == 1
    assert [line for line in broken if line.startswith(broken_contract)] == broken != []


@pytest.mark.structure
def test_sub_packages_have_empty_init_files() -> None:
    inits = [path for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    assert inits
    assert [path for path in inits if path.read_text()] == []


@pytest.mark.structure
def test_every_folder_of_code_is_a_regular_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.mark.structure
def test_no_folder_holds_more_than_twenty_modules() -> None:
    modules = Counter(path.parent for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    assert {folder: n for folder, n in modules.items() if n > 20} == {}


@pytest.mark.structure
def test_a_class_name_exists_once_in_the_package() -> None:
    """Classes inside functions and classes are not counted: their owner tells them apart."""
    homes: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.structure
def test_a_name_is_imported_from_the_module_that_defines_it() -> None:
    """No module hands on what it imported itself; the top package does, lazily."""
    defined = {
        ".".join(("fedforest", *path.relative_to(PACKAGE).with_suffix("").parts)): names_defined_in(
            ast.parse(path.read_text())
        )
        for path in PACKAGE.rglob("*.py")
    }
    handed_on = [
        f"{path.relative_to(PACKAGE)}: {imported.name} of {node.module}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in defined
        for imported in node.names
        if imported.name not in defined[node.module]
    ]
    assert handed_on == []


def names_defined_in(module: ast.Module) -> set[str]:
    """Names that a module gives to what it makes itself, not to what it imports."""
    return {
        node.id
        for node in ast.walk(module)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | {
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.structure
def test_the_public_names_are_exactly_these() -> None:
    assert sorted(fedforest.__all__) == sorted(PUBLIC_NAMES)


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_loads_and_is_listed(name: str) -> None:
    assert getattr(fedforest, name) is not None
    assert name in dir(fedforest)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
        _ = fedforest.NoSuchName


def test_every_lazy_name_is_public_and_lives_where_the_table_says() -> None:
    assert {*fedforest._HOME_OF_NAME, "__version__"} == set(fedforest.__all__)
    for name, home in fedforest._HOME_OF_NAME.items():
        assert getattr(import_module(home), name).__module__ == home


def kernel_syntax() -> Iterator[tuple[str, ast.AST]]:
    """Every syntax node of every kernel module, with the module's name."""
    for path in (PACKAGE / "kernels").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path.stem, node


@pytest.mark.structure
def test_no_kernel_starts_threads_or_relaxes_arithmetic() -> None:
    offenders = [
        f"{module}, line {node.lineno}: {node.arg}"
        for module, node in kernel_syntax()
        if isinstance(node, ast.keyword) and node.arg in {"parallel", "fastmath"}
    ]
    assert offenders == []


@pytest.mark.structure
def test_no_kernel_takes_more_than_sixteen_arguments() -> None:
    offenders = [
        f"{module}.{node.name} takes {len(node.args.args)}"
        for module, node in kernel_syntax()
        if isinstance(node, ast.FunctionDef) and len(node.args.args) > 16
    ]
    assert offenders == []
