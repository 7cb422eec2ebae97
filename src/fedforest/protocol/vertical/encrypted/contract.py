"""The contract of a vertical training with encrypted labels, given what was declared.

The parties hold what follows from the growing trees themselves, as where labels are encoded.
"""

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.contract import BEGINNING, Clause, once, unlimited
from fedforest.protocol.vertical.contract import (
    AS_LONG,
    VerticalDeclared,
    check_bins,
    check_trees,
    count_trees,
)
from fedforest.protocol.vertical.encrypted.messages import (
    ApplyCuts,
    ChooseCuts,
    EncryptLabels,
    EndTraining,
    JudgeChildren,
    JudgeRoots,
    OfferCuts,
    TakeCiphertexts,
)
from fedforest.protocol.vertical.messages import BinColumns, FinishTrees, StartTrees

GROWING = (StartTrees, JudgeRoots, OfferCuts, ApplyCuts, ChooseCuts, JudgeChildren, FinishTrees)
MET = (BinColumns, MeetPeers)  # who is alone meets nobody
READY = (EncryptLabels, TakeCiphertexts)

CONTRACT: tuple[Clause[VerticalDeclared], ...] = (
    Clause(BinColumns, (BEGINNING,), once, "once", fits=check_bins),
    Clause(Introduce, (BinColumns,), once, "once"),
    Clause(MeetPeers, (Introduce,), once, "once"),
    Clause(EncryptLabels, MET, once, "once, at the label party"),
    Clause(TakeCiphertexts, (MeetPeers,), once, "once, at a party with columns"),
    Clause(
        StartTrees,
        (*READY, FinishTrees),
        lambda declared: declared.n_trees,
        "the trees declared",
        count_trees,
        check_trees,
    ),
    Clause(JudgeRoots, (StartTrees,), unlimited, "once a batch of trees, at the label party"),
    Clause(OfferCuts, (StartTrees, OfferCuts, ApplyCuts), unlimited, AS_LONG),
    Clause(
        ChooseCuts,
        (JudgeRoots, JudgeChildren),
        unlimited,
        "as long as trees have open nodes, at the label party",
    ),
    Clause(ApplyCuts, (OfferCuts,), unlimited, "once a step, at a party that won"),
    Clause(JudgeChildren, (ChooseCuts,), unlimited, "once a step, at the label party"),
    Clause(
        FinishTrees,
        (StartTrees, OfferCuts, ApplyCuts, JudgeRoots, JudgeChildren),
        unlimited,
        "once a batch of trees",
    ),
    # a run that ends early gives up the trees that still grow
    Clause(EndTraining, (*READY, *GROWING), once, "once, at the end"),
)
