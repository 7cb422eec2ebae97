"""Federations in one process whose parties have the default policy, or one rule beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, local_federation


@contextmanager
def ruled_federation(folder: Path, pattern: FederationFolder) -> Iterator[LocalFederation]:
    """A federation without policy files: the defaults hold."""
    with local_federation(folder, pattern) as federation:
        for party in federation.parties:
            (federation.homes[party] / "policy.toml").unlink()
        yield federation


def demand(federation: LocalFederation, rule: str, party: str = "bank") -> None:
    """Let a party have one rule beside the defaults; one that protects labels names them."""
    if ("epsilon_ceiling" in rule or "label_protection" in rule) and "label_columns" not in rule:
        rule += '\nlabel_columns = ["label"]'
    (federation.homes[party] / "policy.toml").write_text(f"[default]\n{rule}\n")
