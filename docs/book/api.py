"""The public names with their documentation, method by method, as directives of autodoc."""

import inspect
from typing import Any

import fedforest

_SKLEARN = ("set_", "get_metadata_routing", "__sklearn", "get_params")


def public_classes() -> dict[str, Any]:
    """Return every public name but the version."""
    return {name: getattr(fedforest, name) for name in fedforest.__all__ if name != "__version__"}


def describe_estimators() -> str:
    """Describe the estimators."""
    return _describe([name for name, kind in public_classes().items() if hasattr(kind, "fit")])


def describe_protections() -> str:
    """Describe everything else: protections of sums and labels, the root of errors."""
    return _describe([name for name, kind in public_classes().items() if not hasattr(kind, "fit")])


def public_methods(kind: Any) -> list[str]:
    """Return the methods of a class that fedforest documents; the rest are scikit-learn's."""
    return [
        name
        for name, member in inspect.getmembers(kind)
        if callable(member)
        and not name.startswith(("_", *_SKLEARN))
        and getattr(member, "__module__", "").startswith("fedforest")
    ]


def _describe(names: list[str]) -> str:
    parts = []
    for name in names:
        lines = [f".. autoclass:: fedforest.{name}", ""]
        for method in public_methods(getattr(fedforest, name)):
            lines += [f"   .. automethod:: fedforest.{name}.{method}", ""]
        block = "\n".join(lines)
        parts.append(f"## {name}\n\n```{{eval-rst}}\n{block}```")
    return "\n\n".join(parts)
