"""What only parties have: keys, pins, a policy, and sources that must be readable."""

from pathlib import Path

from fedforest.errors import FederationError
from fedforest.masking.key_agreement import fingerprint, is_fingerprint
from fedforest.runtime.disclosure.egress_ledger import EgressLedger
from fedforest.runtime.doctor.findings import Diagnoses, good, problem, warning
from fedforest.runtime.membership.homes import PARTY_FILE, PartySettings, load_keys, read_settings
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import EntryFolder
from fedforest.runtime.party.policy import PolicyFile


def extras_of_party(home: Path) -> set[str]:
    """Return the extras that a party's sources and policy need, as far as they can be read."""
    needed = {"federation"}
    entries = EntryFolder(home)
    try:
        for name in entries.names():
            entry = entries.read(name)
            if entry.is_database or entry.source is None:
                needed.add("sql")
        rules = PolicyFile(home).rules("")
    except FederationError:
        return needed  # their own checks tell of it
    if rules.label_protection == "encrypted" or rules.alignment_methods == ("psi",):
        needed.add("encrypted")
    return needed


def examine_party(home: Path) -> Diagnoses:
    """Examine the keys, pins, policy and sources of a party."""
    yield from _examine_service(home)
    yield from _examine_keys(home)
    yield from _examine_policy(home)
    yield from _examine_sources(home)


def _examine_service(home: Path) -> Diagnoses:
    if EgressLedger.is_in_use(home):
        yield good("service", "the party's service runs")
        return
    yield warning(
        "service",
        "the party's service is not running",
        "runs and predictions wait for this party, and its certificate is not renewed",
        f"fedforest party start --home {home}",
    )


def _examine_keys(home: Path) -> Diagnoses:
    try:
        pins = Pins(home, read_settings(home, PARTY_FILE, PartySettings).pins)
        own = fingerprint(load_keys(home, "", {}).identity.public)
        pinned = dict(pins)
        missing = sorted(pins.peers() - set(pinned))
    except FederationError as error:
        yield problem(
            "keys",
            str(error),
            "protected sums and alignment need the party's keys and pins",
            "as the text says",
        )
        return
    for name in missing:
        yield problem(
            "pin",
            f"runs named party {name!r}, whose fingerprint is not pinned here",
            "protected sums and alignment with it are refused",
            f"ask its operator for it by telephone: fedforest party trust {name} FINGERPRINT "
            f"--home {home}",
        )
    for name in sorted(name for name, pin in pinned.items() if not is_fingerprint(pin)):
        yield problem(
            "pin",
            f"the pin of party {name!r} is no fingerprint",
            "it equals no key, so that runs with this party are refused",
            f"correct it in {PARTY_FILE}, or remove it and use `fedforest party trust`",
        )
    for name in sorted(name for name, pin in pinned.items() if pin == own):
        yield problem(
            "pin",
            f"the pin of party {name!r} is this party's own fingerprint",
            "the other party has another one, so that runs with it are refused",
            f"fedforest party trust {name} FINGERPRINT --replace, with what its operator reads out",
        )
    if not pinned:
        yield warning(
            "pin",
            "no other party is pinned",
            "protected sums and alignment are refused without pins",
            "exchange what `fedforest party identity` prints, and `fedforest party trust` it",
        )
    elif not missing:
        yield good("pin", f"pinned are: {', '.join(sorted(pinned))}")


def _examine_policy(home: Path) -> Diagnoses:
    policy = PolicyFile(home)
    try:
        policy.check()
    except FederationError as error:
        yield problem(
            "policy",
            str(error),
            "a policy with a mistake allows nothing",
            "correct that line; `fedforest party policy check` says whether it is right",
        )
        return
    if policy.path.exists():
        yield good("policy", f"{policy.path} has no mistakes")
    else:
        yield warning(
            "policy",
            "there is no policy.toml; the defaults hold",
            "the defaults let everybody in the federation train and predict on every data set",
            f"fedforest party policy init --home {home}, and read it",
        )


def _examine_sources(home: Path) -> Diagnoses:
    catalogue = Catalogue(home)
    names = catalogue.entries.names()
    for name in names:
        try:
            catalogue.examine(name)
        except FederationError as error:
            text = str(error)
            yield problem(
                "columns" if error.code == "data_set.changed" else "source",
                text,
                f"runs and predictions on data set {name!r} are refused",
                "accept the columns as they are now with `fedforest party data add "
                f"{name} ... --replace`, or put them back"
                if error.code == "data_set.changed"
                else "mend the source, or its entry: `fedforest party data add --replace`",
            )
        else:
            yield good("source", f"data set {name!r} is readable")
    if not names:
        yield warning(
            "source",
            "the catalogue is empty",
            "no run can use this party",
            f"fedforest party data add NAME FILE --home {home}",
        )
