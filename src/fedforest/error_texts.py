"""The texts of errors, by code: a sentence with fields in braces, and advice.

An error that may leave a party is a code and fields. The name of a field decides who may see what
is in it (`FIELDS`), so that no raise site has to think of it: a peer is told the same sentence
with other words where a field stays with its owner. This is the one place where texts are made.
"""

import string
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class Sight(Enum):
    """The readers of a field of an error."""

    OWN = "its owner: it is not sent"
    ASKED = "its owner; a peer that named it itself puts it in again"
    SHARED = "peers, too: it is public, or holds nothing of anybody's data"


class Field(NamedTuple):
    """The readers of a field, and the words that others read instead."""

    sight: Sight
    hidden: str = ""
    quoted: bool = False  # shown as Python writes text
    noun: str = ""  # said before it


_LOGGED = "(named in its log)"
FIELDS: Mapping[str, Field] = {
    # what is whose
    "data_set": Field(Sight.ASKED, f"data set {_LOGGED}", quoted=True, noun="data set "),
    "column": Field(Sight.ASKED, f"column {_LOGGED}", quoted=True, noun="column "),
    "own_column": Field(Sight.OWN, f"column {_LOGGED}", quoted=True, noun="column "),
    "own_columns": Field(Sight.OWN, _LOGGED),
    "where": Field(Sight.OWN, f"column {_LOGGED}"),
    "path": Field(Sight.OWN, f"a file {_LOGGED}"),
    "variable": Field(Sight.OWN, _LOGGED),
    "detail": Field(Sight.OWN, "see its log"),
    "n_rows": Field(Sight.OWN, "some"),
    "n_known": Field(Sight.OWN, "others"),
    "n_unknown": Field(Sight.OWN, "some"),
    "n_classes": Field(Sight.OWN, "too many"),
    "kinds": Field(Sight.OWN, "see its log"),
    # fields that every peer may see
    "statement": Field(Sight.SHARED),  # written in our code, with nothing of the data in it
    "what": Field(Sight.SHARED),
    "peer": Field(Sight.SHARED, quoted=True),
    "receiver": Field(Sight.SHARED, quoted=True),
    "peers": Field(Sight.SHARED),
    "model": Field(Sight.SHARED),
    "withdrawer": Field(Sight.SHARED),
    "moment": Field(Sight.SHARED),
    "n_columns": Field(Sight.SHARED),  # told when a training begins
    "commands": Field(Sight.SHARED),
    "protocol": Field(Sight.SHARED),
    "choices": Field(Sight.SHARED),
    "limit": Field(Sight.SHARED),
    "run": Field(Sight.SHARED),
    "alignment": Field(Sight.SHARED),
    "expected": Field(Sight.SHARED),
    "request": Field(Sight.SHARED),
    "user": Field(Sight.SHARED),
    "role": Field(Sight.SHARED),
    "setting": Field(Sight.SHARED),
    "before": Field(Sight.SHARED),
    "asked": Field(Sight.SHARED),
    "n_bytes": Field(Sight.SHARED),
    "purpose": Field(Sight.SHARED),
    "library": Field(Sight.SHARED),
    "package": Field(Sight.SHARED),
}


class Text(NamedTuple):
    """The sentence and the advice of an error."""

    says: str
    advice: str = ""


_POLICY = "its policy does not allow this {what}: "
STATED = "stated"
TEXTS: Mapping[str, Text] = {
    STATED: Text("{statement}"),
    # messages
    "message.not_valid": Text("a message is not a valid {expected}"),
    "message.too_long": Text(
        "a message of {n_bytes} bytes is longer than the {limit} that are allowed",
        "raise the limit at all roles or train in smaller batches",
    ),
    "message.beyond": Text(
        "a message is longer than the {limit} bytes that are allowed here",
        "raise the limit or train in smaller batches",
    ),
    "message.unknown": Text("{expected} is no request of this protocol"),
    "contract.turn": Text("{request} is not agreed on after {before}"),
    "contract.limit": Text(
        "{request} would ask for {asked} in this run, and {limit} are agreed on",
        "the coordinator asks for more than it declared: install the same release at both ends, "
        "or begin a new run",
    ),
    "extra.missing": Text(
        '{purpose} needs {library}, which is not installed: pip install "{package}"'
    ),
    "run.unusable": Text("what the run proposes cannot be used: {detail}"),
    "model.unknown": Text("there is no model {model} here"),
    "model.withdrawn": Text(
        "model {model} was withdrawn by {withdrawer} on {moment}, for good: it answers "
        "nothing, and no training continues it",
        "train another one",
    ),
    "model.no_origins": Text(
        "model {model} was stored by an earlier development version, which did not note what went "
        "into it",
        "train it anew",
    ),
    "model.taken": Text(
        "run {run} cannot store a model under the id {model}: a model has the id of its own run"
    ),
    "model.unusable": Text("the model cannot be used: {detail}"),
    "run.taken": Text("the id {run} is that of a model of another run", "begin it under a new id"),
    "run.unknown": Text("there is no run {run} underway at this party"),
    "run.restored": Text(
        "run {run} is not under way here: this party was restored from a copy made {moment}",
        "cancel the run, and order it anew",
    ),
    # peers and keys
    "key.not_pinned": Text(
        "no fingerprint of {peers} is pinned here",
        "ask who operates party {peers}, by other means than this federation, and run here: "
        "{commands}",
    ),
    "key.other": Text(
        "party {peer} shows a key that is not the pinned one: somebody may sit in between",
        "compare fingerprints with its operator before anything is sent",
    ),
    "key.not_opened": Text(
        "what party {peer} sealed for {receiver} cannot be opened: it was changed on its way, or "
        "answers another request"
    ),
    "rows.differ": Text(
        "party {peer} took other rows than this one: somebody in between changed what was said, "
        "or its key is another",
        "nothing is aligned",
    ),
    "list.not_own": Text(
        "the list of ids that came as that of party {peer} is not the one it declared in this run",
        "nothing is aligned",
    ),
    "point.invalid": Text(
        "an entry in the list of party {peer} is no point of ristretto255", "nothing is aligned"
    ),
    "common.few": Text(
        "the parties have fewer than {limit} ids in common, and the policy of party {peer} lets "
        "nobody learn which (least_common_ids)"
    ),
    "common.fraction": Text(
        "the parties have less than a fraction of {limit} of their ids in common, and the policy "
        "of party {peer} lets nobody learn which (least_common_fraction)"
    ),
    # parties
    "party.revoked": Text(
        "it was revoked, and does not come back",
        "go on without it where the run can (`fedforest runs resume RUN --without PARTY`), or "
        "cancel the run",
    ),
    # access of users
    "access.role": Text(
        "{user} is a {role} in this federation, who may not ask for {request}",
        "the coordinator's operator changes roles: fedforest coordinator grant {user} ROLE",
    ),
    "access.owner": Text(
        "run {run} is shared with {user}, who may look at it, but not change it",
        "ask its owner",
    ),
    "access.alignment": Text(
        "the standing alignment {alignment} was made by another user than {user}",
        "its maker or an operator removes it",
    ),
    "access.unknown": Text(
        "there is no run or model {run} that {user} may use",
        "its owner shares it: fedforest runs share RUN {user}",
    ),
    "limit.passed": Text(
        "this asks for {asked}, and the coordinator allows {limit}",
        "its operator sets {setting} under [limits] in coordinator.toml",
    ),
    # policy
    "policy.unreadable": Text("its policy cannot be read, so it allows nothing"),
    "policy.restored": Text(
        _POLICY + "it was restored from a copy made {moment}, and does not know what was spent, "
        "withdrawn and erased since",
        "its owner decides: fedforest party settle",
    ),
    "policy.data_set": Text(_POLICY + "the {data_set} is not for use"),
    "policy.protocol": Text(_POLICY + "the {data_set} is not for {protocol} use"),
    "policy.asker": Text(_POLICY + "who asks is not among those who may"),
    "policy.asker_unsigned": Text(
        _POLICY + "users must sign what they ask for with their own key (asker_proof), and for "
        "{user} there is only the coordinator's word",
        "ask with the user's own profile, not by a web token or an earlier release",
    ),
    "policy.asker_not_pinned": Text(
        _POLICY + "the key of user {user} must be pinned there (asker_proof)",
        "tell its owner what `fedforest identity` prints, by other means than this federation, for "
        "`fedforest party trust --user {user} FINGERPRINT`",
    ),
    "policy.asker_other_key": Text(
        _POLICY + "user {user} is pinned there by another key: somebody may ask in its name",
        "tell its owner what `fedforest identity` prints, by other means than this federation",
    ),
    "policy.asker_revoked": Text(_POLICY + "user {user} was revoked, for ever"),
    "policy.asker_proof": Text(
        _POLICY + "what came as the signed order of user {user} proves nothing: {statement}"
    ),
    "policy.column": Text(_POLICY + "{column} is not for use"),
    "policy.labels_unnamed": Text(
        "its policy protects labels but does not say which columns are labels",
        "Its owner names them in policy.toml (label_columns), or says that there are none with [].",
    ),
    "policy.label_column": Text(_POLICY + "{column} is no label (label_columns)"),
    "policy.weight_column": Text(_POLICY + "{column} is no weight (weight_columns)"),
    "policy.alignment": Text(_POLICY + "alignment by ids"),
    "policy.alignment_method": Text(_POLICY + "alignment must be by one of: {choices} (align)"),
    "policy.aligned_ids": Text(
        _POLICY + "a list of fewer than {limit} ids asks who is in another one (least_aligned_ids)"
    ),
    "policy.common_ids": Text(_POLICY + "fewer than {limit} ids in common (least_common_ids)"),
    "policy.common_fraction": Text(
        _POLICY + "less than {limit} of a list in common (least_common_fraction)"
    ),
    "policy.alignments": Text(_POLICY + "at most {limit} alignments a day (alignments_per_day)"),
    "policy.alignments_of_asker": Text(
        _POLICY + "at most {limit} alignments a day of one asker (alignments_per_day_per_asker)"
    ),
    "policy.standing_days": Text(
        _POLICY + "a standing alignment lives for at most {limit} days (standing_days)"
    ),
    "policy.standing_askers": Text(
        _POLICY + "this user makes and extends no standing alignments (standing_askers)"
    ),
    "policy.standing_serving": Text(
        _POLICY + "a standing alignment serves no {asked} here (standing_serving)"
    ),
    "policy.validation": Text(_POLICY + "validation, as scores tell of labels"),
    "policy.alone": Text(_POLICY + "training for each party alone"),
    "policy.complete_model": Text(_POLICY + "a complete model shows its splits (complete_model)"),
    "policy.leaf": Text(
        _POLICY + "a leaf must have at least {limit} rows (min_samples_leaf={limit})"
    ),
    "policy.trees": Text(
        _POLICY + "more than {limit} trees in one run (most_trees)", "Ask for fewer trees."
    ),
    "policy.row_trees": Text(
        _POLICY + "its rows times the trees of one run are more than {limit} (most_row_trees)",
        "Ask for fewer trees.",
    ),
    "policy.memory": Text(
        _POLICY + "the run would need more than {limit} bytes of its memory (most_memory_bytes)"
    ),
    "policy.stored": Text(
        _POLICY + "the run would store more than {limit} bytes there (most_stored_bytes)",
        "End it early, or ask the party to allow more.",
    ),
    "policy.score": Text(_POLICY + "a score over fewer than {limit} rows (min_rows_per_score)"),
    "policy.own_scores": Text(
        _POLICY + "scores over its rows alone, as sums over them must be protected"
    ),
    "policy.scores": Text(_POLICY + "scores on true labels, whose epsilon is limited"),
    "policy.labels": Text(
        _POLICY + "labels must be protected by noise: RandomizedResponse, LocalDP or GlobalDP"
    ),
    "policy.labels_encrypted": Text(_POLICY + "labels must be encrypted (labels=Encrypted())"),
    "policy.epsilon": Text(
        _POLICY + "epsilon of labels must be at most {limit} (largest_label_epsilon)"
    ),
    "policy.ceiling": Text(_POLICY + "it would pass the ceiling of epsilon on labels"),
    "policy.sums": Text(_POLICY + "sums over parties must be formed by: {choices}"),
    "policy.participants": Text(
        _POLICY + "at least {limit} parties must take part in every sum (min_participants={limit})"
    ),
    "policy.scope": Text(
        _POLICY + "participants of protected sums must stay the same for each: {choices} "
        "(participation_scope)"
    ),
    "policy.noise": Text(_POLICY + "noise on label sums must be one of: {choices}"),
    "policy.lookahead": Text(_POLICY + "a lookahead above {limit} (largest_lookahead)"),
    "policy.quota": Text(
        _POLICY + "at most {limit} rows a day for each asker (prediction_rows_per_day)"
    ),
    "policy.quota_total": Text(
        _POLICY + "at most {limit} rows a day of all askers together "
        "(prediction_rows_per_day_total)"
    ),
    # data sets
    "data_set.unknown": Text("there is no {data_set} at this party"),
    "data_set.no_column": Text("{data_set} has no {column}"),
    "data_set.lacks": Text("{data_set} has no column {own_columns}, which the model needs"),
    "data_set.no_id": Text(
        "{data_set} has no id column, and rows are to be matched by ids",
        "its owner names one with `fedforest party data add --id COLUMN --replace`",
    ),
    "ids.shared": Text(
        "{data_set} has several rows with one id, and LocalDP draws the noise of a row by its id",
        "its owner names the columns that tell all rows apart (`fedforest party data add --id "
        "COLUMN --replace`), or none, and then rows are told apart by their content",
    ),
    "data_set.changed": Text(
        "{data_set} has changed since it was added: {detail}. Put it back as it was, or accept it "
        "with `fedforest party data add --replace`"
    ),
    "data_set.entry": Text(
        "{data_set} has no {own_column}, which its entry in the catalogue names",
        "correct the entry with `fedforest party data add --replace`",
    ),
    "data_set.twice": Text("{data_set} has two columns of one name", "rename one by a query"),
    "data_set.unreadable": Text("the file of {data_set} cannot be read ({detail})"),
    "data_set.schema": Text(
        "{path} cannot be read",
        "accept the data set as it is now with `fedforest party data add --replace`",
    ),
    "data_set.format": Text(
        "{data_set} is no .csv, .tsv or .parquet file and no DuckDB or SQLite database",
        "convert it to one of these",
    ),
    "data_set.tables": Text("{data_set} is a file without tables", "name none"),
    "database.unreadable": Text(
        "the database of {data_set} cannot be read ({detail})",
        "see whether it is there, and its table or query with a client of your own",
    ),
    "database.variable": Text(
        "{data_set} needs the environment variable {variable}, which is not set",
        "set it to the URI of the database where the party is started",
    ),
    "cluster.lost": Text(
        "workers of the cluster were lost, and with them shards of the table",
        "start them again; then go on with a paused run (`fedforest runs resume`), and ask again "
        "for anything else, such as a prediction",
    ),
    "storage.full": Text(
        "{path} cannot be written: no space is left on its disk",
        "make room there; then go on with a paused run (`fedforest runs resume`), and ask again "
        "for anything else, such as a prediction",
    ),
    "storage.failed": Text(
        "{path} cannot be written: {detail}",
        "mend permissions or the disk there; then go on with a paused run (`fedforest runs "
        "resume`), and ask again for anything else, such as a prediction",
    ),
    "file.open": Text("the file {path} may be read by others than its owner", "chmod 600 it"),
    "file.unreadable": Text("the file {path} cannot be read: {detail}"),
    "data_set.other_now": Text(
        "{data_set} is not what it was when run {run} began: its source was written anew, or rows "
        "of it were erased; nothing of both was mixed",
        "put it back as it was and resume the run, or cancel the run and begin it anew",
    ),
    "data_set.written": Text(
        "the file of {data_set} was written while it was read",
        "put whole files in its place (write beside it, then rename), and try again",
    ),
    "erased.damaged": Text(
        "the file {path}, which says what rows were erased, is damaged", "restore it from a copy"
    ),
    "erased.no_id": Text(
        "rows of the table of {data_set} were erased, and it has no column by which to find them",
        "its owner adds the id columns of the data set that they were erased from to its query",
    ),
    "erased.order": Text(
        "rows of {data_set} were erased, so its rows are in no order that other parties know",
        "align rows by their ids (align = true), or have the owner remove the rows from the source",
    ),
    # columns and ids
    "column.kind": Text(
        "{where} holds {kinds}, neither numbers nor text",
        "leave it out (--exclude), or say what it is (--type COLUMN=number or COLUMN=category)",
    ),
    "column.no_number": Text(
        "{where} is to be a number, and some of its values are none",
        "name those that stand for missing ones (--missing), or make it a category "
        "(--type COLUMN=category)",
    ),
    "column.no_category": Text("{where} cannot be read as categories", "leave it out"),
    "column.unfit": Text("{where} {statement}"),
    "column.was_numeric": Text("{own_column} was numeric in training, not text"),
    "column.holds_text": Text("{own_column} was numeric in training, but now holds text"),
    "column.too_large": Text("{own_column} holds numbers too large to standardise", "rescale it"),
    "column.infinite": Text(
        "{own_column} contains infinity", "a linear model needs finite numbers"
    ),
    "column.length": Text("{own_column} has {n_rows} rows, the first column has {n_known}"),
    "columns.missing": Text("the table lacks these columns of training: {own_columns}"),
    "columns.extra": Text("the table has columns that training had not: {own_columns}"),
    "columns.repeated": Text("column names must differ, but {own_columns} is repeated"),
    "columns.count": Text("the table has {n_columns} columns, but training had {limit}"),
    "ids.rules": Text(
        "parties {peers} write ids by different rules ({choices})",
        "agree on rules, and give them with `fedforest party data add --replace` (--id, --id-case, "
        "--id-unicode, --id-numbers, --id-trim)",
    ),
    "ids.repeated": Text(
        "{data_set} has {n_rows} rows that share an id with another, and its entry refuses that",
        "remove them, or choose with --id-duplicates that they are left out, or the first is kept",
    ),
    "ids.empty": Text("{where} is empty in some rows", "give every row an id, or leave them out"),
    "ids.kind": Text("{where} is neither text nor whole numbers nor dates", "convert it"),
    "ids.not_whole": Text("{where} holds numbers that are not whole", "use whole numbers or text"),
    # labels and weights
    "target.missing": Text("The target is missing in {n_rows} row(s)", "drop them first."),
    "target.not_finite": Text(
        "The target is NaN or infinite in {n_rows} row(s)", "drop or mend them first."
    ),
    "target.mixed": Text(
        "The target mixes labels of different types ({kinds})", "make them all one type."
    ),
    "target.classes": Text(
        "The target has {n_classes} classes; at most {limit} are supported. "
        "If it is a quantity, train a regressor instead."
    ),
    "target.two_classes": Text(
        "a linear model tells two classes apart; the labels have {n_classes}"
    ),
    "target.unknown_type": Text(
        "Unknown label type: {kinds}. Class labels are text, whole numbers or booleans, not stored "
        "as objects; for quantities train a regressor instead."
    ),
    "target.unknown_classes": Text(
        "class_weight names {n_unknown} class(es) that the labels do not have."
    ),
    "votes.other_rows": Text(
        "X has {n_rows} rows, but the out-of-bag votes of earlier fits are about {n_known}; a warm "
        "start with oob_score needs the same rows. Set warm_start=False to start anew."
    ),
    "weights.negative": Text("sample_weight is negative in {n_rows} rows."),
    # alignments and validation
    "alignment.unknown": Text("this party has no rows of alignment {alignment}", "align anew"),
    "alignment.damaged": Text("the rows of alignment {alignment} are damaged", "align anew"),
    "alignment.other": Text("alignment {alignment} is about another data set than {data_set}"),
    "alignment.ids_changed": Text(
        "the ids of {data_set} have changed since alignment {alignment}", "align anew"
    ),
    "standing.unknown": Text(
        "this party has no standing alignment {alignment}: it was removed, or never made here",
        "make it anew",
    ),
    "standing.damaged": Text("the standing alignment {alignment} is damaged", "make it anew"),
    "standing.other": Text(
        "the standing alignment {alignment} was made of another data set than {data_set}",
        "extend it with that one",
    ),
    "standing.place": Text(
        "rows are asked for that are not in the common order of standing alignment {alignment}"
    ),
    "standing.gone": Text(
        "some of the rows asked for are no longer in the {data_set}, or their ids are not unique",
        "ask for others, or extend the standing alignment",
    ),
    "standing.id_columns": Text("an id of the {data_set} has {limit} column(s)"),
    "standing.expired": Text("the time of standing alignment {alignment} is over", "make it anew"),
    "validation.too_few": Text("of {n_rows} row(s) none can be held out for validation"),
}

# Of an error without a code a peer is told no word of it, but what its class stands for.
PUBLIC_TEXT_OF_CLASS: Mapping[str, str] = {
    "FederationError": "it cannot do what it was asked, see its log",
    "ConfigurationError": "a setting of the run or of the party does not fit, see its log",
    "DataError": "its data cannot be used for this, see its log",
    "UnknownColumn": "its data set lacks a column that was asked for, see its log",
    "ModelFileError": "what it keeps of the model cannot be used, see its log",
    "DamagedModelError": "what it keeps of the model is damaged, see its log",
    "NewerModelError": "what it keeps of the model is of a newer release; upgrade the party",
    "ProtocolError": "the request does not follow the protocol, see its log",
    "LocalProtocolError": "it broke the protocol itself, which is a mistake in it, see its log",
    "RemoteProtocolError": "the request does not follow the protocol, see its log",
    "PartyError": "a party that it needs is not there, see its log",
    "PartyLost": "it stopped answering, see its log",
    "PredictionForgotten": "the prediction is unknown here, perhaps since a restart; begin it "
    "again",
    "TooFewParties": "too few parties take part, see its log",
    "PolicyRefusal": "its policy does not allow this, see its log",
    "AccessRefused": "the user may not ask for this, see its log",
    "PrivacyError": "more would be released than is allowed, see its log",
    "BudgetExhausted": "the budget of privacy does not allow this, see its log",
    "MaskingError": "masks, shares or keys do not fit together, see its log",
    "StorageError": "a file cannot be written or read, see its log",
    "DamagedJournalError": "its journal of the run is damaged, see its log; begin it anew",
    "ShardsLost": "its cluster lost its workers, see its log",
    "ReplayError": "what it answered before it cannot answer again, see its log",
    "TransportError": "a message could not be carried, see its log",
    "VersionMismatch": "the two ends are of different releases; install the same at both",
}

# The advice of the reference for errors of a class, where an error brings none of its own.
CURE_OF_CLASS: Mapping[str, str] = {
    "ConfigurationError": "change the setting that `key` names",
    "DataError": "mend the table, or leave the column or rows out",
    "UnknownColumn": "name a column that the data set has: `fedforest party data show`",
    "ModelFileError": "take the file from its owner again",
    "DamagedModelError": "take the file from its owner again, or train anew",
    "NewerModelError": "install the release that wrote it, or a newer one",
    "ProtocolError": "install the same release at both ends; if it comes back, report it",
    "LocalProtocolError": "report it with the log: it is a mistake of this program",
    "RemoteProtocolError": "install the same release at both ends; ask the party that is named",
    "PartyError": "see which party is named, and its log",
    "PartyLost": "start the party again; the run goes on by itself or by `fedforest runs resume`",
    "PredictionForgotten": "order the prediction again",
    "TooFewParties": "start the parties that are missing, or ask for fewer (`min_participants`)",
    "AccessRefused": "ask the coordinator's operator for the role, or the owner of the run",
    "PolicyRefusal": "change the run as the text says, or have the owner change `policy.toml`",
    "PrivacyError": "ask for less: fewer trees, less depth, or a larger epsilon",
    "BudgetExhausted": "the budget of the table is spent: its owner may raise the ceiling",
    "MaskingError": "compare pins of all parties, then begin the run anew",
    "StorageError": "make room or mend permissions; then resume a paused run, or ask again",
    "DamagedJournalError": "cancel the run and begin it anew; other runs are not affected",
    "ShardsLost": "start the workers of the cluster again; then resume a paused run, or ask again",
    "ReplayError": "put table, settings and release back, then `fedforest runs resume`",
    "TransportError": "see whether address, port and network are right",
    "VersionMismatch": "install the same release at both ends",
}


def fields_of(code: str) -> set[str]:
    """The names of the fields that the text of a code has."""
    parts = string.Formatter().parse("".join(TEXTS[code]))
    return {name for _, name, _, _ in parts if name}


def select_shared(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a peer may see."""
    return {name: value for name, value in fields.items() if FIELDS[name].sight is Sight.SHARED}


def render(code: str, fields: Mapping[str, Any]) -> Text:
    """The text of a code; other words stand for fields that are not given."""
    shown = {
        name: _show(FIELDS[name], fields[name]) if name in fields else FIELDS[name].hidden
        for name in fields_of(code)
    }
    says, advice = TEXTS[code]
    return Text(says.format_map(shown), advice.format_map(shown))


def _show(field: Field, value: Any) -> str:
    if isinstance(value, Mapping):  # names by what they are used as: one of them is meant
        return field.noun + " or ".join(f"{name!r} ({use})" for use, name in value.items())
    return field.noun + (repr(value) if field.quoted else str(value))


def join(text: Text) -> str:
    """Join both to one sentence."""
    return f"{text.says}; {text.advice}" if text.advice else text.says
