"""One horizontal training with all parties in this process: the same messages as on a network."""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from numpy.typing import NDArray

from fedforest.estimators.horizontal_model import HorizontalModel
from fedforest.estimators.horizontal_options import HorizontalOptions
from fedforest.estimators.horizontal_tables import PartyRows
from fedforest.estimators.validation import draw_seed
from fedforest.masking.key_agreement import IdentityKey, fingerprint
from fedforest.privacy.composition import (
    PrivacySpending,
    spend_global,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation import messages as counting
from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS
from fedforest.protocol.aggregation.introduction import Member
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.horizontal import messages
from fedforest.protocol.horizontal.coordinator import train
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.order import (
    Participation,
    Scope,
    TrainingOrder,
)
from fedforest.protocol.horizontal.party import HorizontalParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.entropy import Entropies
from fedforest.runtime.federation import connect
from fedforest.tree.forest import Forest
from fedforest.tree.workers import ALONE, Workers

REQUESTS = (*messages.REQUESTS, *counting.REQUESTS)


def train_in_process(
    parties: Mapping[str, PartyRows],
    options: HorizontalOptions,
    seed: int | None,
    workers: Workers,
    log: ExchangeLog,
) -> tuple[HorizontalModel, PrivacySpending]:
    """Train over the rows of all parties; with a seed, the parties' entropy comes from it, too."""
    entropies = Entropies(seed)
    plug: Plug = options.aggregation or "plain"
    is_noisy = options.privacy is not None
    order = make_order(tuple(parties), options, draw_seed(seed))
    members = make_members(order.parties, entropies) if options.aggregation else {}
    least = max(LEAST_PARTICIPANTS, options.least)
    each = workers.divided(len(parties))  # parties answer at the same time
    handlers = {
        name: HorizontalParty(
            rows.table,
            PartyLabels(rows.labels, rows.weights, options.is_regression),
            entropies.of(f"{name}/training"),
            partial(
                make_aggregator,
                plug,
                member=members.get(name),
                is_noisy=is_noisy,
                least_participants=least,
            ),
            least_participants=least,
            response_key=entropies.of(f"{name}/responses")(32),
            workers=each,
        )
        for name, rows in parties.items()
    }
    coordinator = entropies.of("/coordinator")
    aggregation = make_aggregation(
        plug, coordinator(16), coordinator, is_noisy=is_noisy, least_participants=least
    )
    transport = connect(handlers, REQUESTS, workers)
    trained = run(train(order, aggregation, workers), transport, log)
    model = HorizontalModel(trained.forest, trained.bins, trained.classes, order.parties)
    spending = describe_spending(
        options,
        trained.forest,
        trained.classes,
        (trained.candidates_per_node, trained.n_trees_begun),
        workers,
    )
    return model, spending


def make_order(parties: tuple[str, ...], options: HorizontalOptions, seed: int) -> TrainingOrder:
    """What the coordinator is told."""
    return TrainingOrder(
        parties,
        options.parameters,
        seed,
        options.privacy,
        Participation(
            options.participation, cast("Scope", options.participation_scope), options.least
        ),
        options.class_weight,
    )


def make_members(parties: tuple[str, ...], entropies: Entropies) -> dict[str, Member]:
    """Everybody's identity, and the others' fingerprints, which nobody could have changed here."""
    identities = {
        party: IdentityKey.from_entropy(entropies.of(f"{party}/identity")) for party in parties
    }
    pins = {party: fingerprint(key.public) for party, key in identities.items()}
    return {
        party: Member(
            party,
            identity,
            {other: pin for other, pin in pins.items() if other != party},
            entropies.of(f"{party}/aggregation"),
        )
        for party, identity in identities.items()
    }


def describe_spending(
    options: HorizontalOptions,
    forest: Forest,
    classes: NDArray[Any] | None,
    asked: tuple[int, int],
    workers: Workers = ALONE,
) -> PrivacySpending:
    """What the training cost the labels' privacy: what was possible, not what happened to occur.

    `asked` is about how many columns in a node, and of how many trees that were begun.
    """
    depth = options.parameters.max_depth
    grown = int(forest.shape.depths(workers).max(initial=0))
    candidates_per_node, n_trees_begun = asked
    queries = Queries(candidates_per_node, grown if depth is None else depth, n_trees_begun)
    n_classes = 0 if classes is None else len(classes)
    if isinstance(options.privacy, LocalDP):
        return spend_local(options.privacy.resolve(n_classes), queries)
    if isinstance(options.privacy, GlobalDP):
        epsilon = options.privacy.resolve(queries)
        return spend_global(epsilon, queries, is_regression=options.is_regression)
    return spend_nothing_private(queries)
