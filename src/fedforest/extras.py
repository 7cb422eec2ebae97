"""Libraries that `pip install fedforest` does not bring, and what to install for them.

Code that needs one imports it where it is used, inside `explain_missing_extras`. The whole command
line is inside, so no command ends in a traceback because an extra is not installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from fedforest.errors import ConfigurationError

PACKAGE_OF_LIBRARY = {
    "grpc": "fedforest[federation]",
    "pyarrow": "fedforest[federation]",
    "adbc_driver_manager": "fedforest[sql]",
    "adbc_driver_postgresql": "fedforest[sql]",
    "duckdb": "fedforest[sql]",
    "starlette": "fedforest[web]",
    "uvicorn": "fedforest[web]",
    "mpi4py": "fedforest[mpi]",
    "mlflow": "fedforest[mlflow]",
    "distributed": "fedforest[compute]",
    "prometheus_client": "fedforest[metrics]",
    "rbcl": "fedforest[encrypted]",
    "skl2onnx": "fedforest[export]",
    "skops": "fedforest[export]",
    "matplotlib": "fedforest[experiments]",
    "pandas": "fedforest[experiments]",
}


@contextmanager
def explain_missing_extras(purpose: str) -> Iterator[None]:
    """Turn the lack of an optional library into a `ConfigurationError` that says what to install.

    `purpose` is what needs the library, such as "this command".
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in PACKAGE_OF_LIBRARY:
            raise
        package = PACKAGE_OF_LIBRARY[library]
        raise ConfigurationError.of(
            "extra.missing", purpose=purpose, library=library, package=package
        ) from None


def import_extra(module: str, purpose: str) -> Any:
    """Import a module of an optional library; raises `ConfigurationError` where it is missing."""
    with explain_missing_extras(purpose):
        return import_module(module)
