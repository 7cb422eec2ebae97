"""Federations in one process whose users sign what they ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedforest.runtime.membership.pins import UserPins
from fedforest.runtime.messages.orders import AnyOrder
from fedforest.runtime.messages.results import decode_event, follow
from fedforest.runtime.messages.signed_orders import sign_request
from fedforest.transport.authority import Authority
from fedforest.transport.signing import own_fingerprint
from fedforest.transport.tls import Credentials
from tests.integration.federation_folder import DAY, FederationFolder
from tests.integration.local_federation import LocalFederation


class SigningFederation(LocalFederation):
    """A federation whose requests are signed by ann, or by another user."""

    pattern: FederationFolder
    ann: Credentials

    def submit(self, data: bytes, kind: type, user: str = "ann") -> object:
        """Return the result of a request as its user encoded it."""
        events = self.coordinator.serve(user, data)
        return follow(map(decode_event, events), kind, lambda _: None)

    def ask_signed(self, order: AnyOrder, kind: type) -> object:
        """Return the result of a request that ann signs."""
        return self.submit(sign_request(order, self.ann), kind)

    def demand_proof(self, proof: str) -> None:
        """Have every party demand a proof of who asks."""
        for party in self.parties:
            rules = f'min_rows_per_leaf = 1\nasker_proof = "{proof}"\n'
            (self.homes[party] / "policy.toml").write_text(f"[default]\n{rules}")

    def pin(self, credentials: Credentials) -> None:
        """Have every party pin a user."""
        for party in self.parties:
            UserPins(self.homes[party]).trust(
                credentials.identity.name, own_fingerprint(credentials), replace=True
            )


def issue(pattern: FederationFolder, name: str) -> Credentials:
    """Issue a certificate for a new key, as who has the key of the authority can."""
    return Authority.load(pattern.folder / "authority").issue("user", name, DAY)


@contextmanager
def signing_federation(folder: Path, pattern: FederationFolder) -> Iterator[SigningFederation]:
    """A federation whose parties demand the pinned key of ann."""
    federation = SigningFederation(folder, pattern)
    federation.pattern, federation.ann = pattern, issue(pattern, "ann")
    federation.demand_proof("pinned")
    federation.pin(federation.ann)
    federation.coordinator.start()
    try:
        yield federation
    finally:
        federation.close()
