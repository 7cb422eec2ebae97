"""The form of a new run: it writes the run.toml that a user would write (docs/how-to/runs.md).

What is written is read by the same reader as files of users, so there is one place that checks it.
"""

import json
from collections.abc import Mapping
from typing import Any

# Fields of the form, as they are sent; `data.PARTY` and `MORE` come to them.
DEFAULTS: Mapping[str, str] = {
    "name": "",
    "protocol": "vertical",
    "task": "classification",
    "label": "",
    "label_party": "",
    "protection": "encoded",
    "label_epsilon": "2.0",
    "align": "keyed-hash",
    "aggregation": "Masked",
    "threshold": "2",
    "privacy": "",
    "privacy_epsilon": "2.0",
    "trees": "100",
    "max_depth": "",
    "min_samples_leaf": "5",
    "validation": "20",
    "alone": "on",
    "oob": "",
    "seed": "",
    "more": "",
}
PARTY = "data."
AS_FILE = "text"  # the field with a whole file, which takes the place of all others


def write_run_file(form: Mapping[str, str]) -> str:
    """Return the run.toml that a form describes."""
    if form.get(AS_FILE, "").strip():
        return form[AS_FILE].replace("\r\n", "\n")
    is_vertical = form.get("protocol") != "horizontal"
    return (
        "\n\n".join(
            part
            for part in (
                _write_head(form, is_vertical=is_vertical),
                _write_parties(form),
                _write_label(form, is_vertical=is_vertical),
                _write_validation(form),
                "" if is_vertical else _write_privacy(form),
                _write_parameters(form, is_vertical=is_vertical),
            )
            if part
        )
        + "\n"
    )


def _write_head(form: Mapping[str, str], *, is_vertical: bool) -> str:
    lines = [f"protocol = {quote(form.get('protocol', ''))}"]
    if form.get("name"):
        lines.insert(0, f"name = {quote(form['name'])}")
    if form.get("task") == "regression":
        lines.append('task = "regression"')
    if is_vertical and form.get("align"):
        lines.append(f"align = {quote(form['align'])}")
    if not is_vertical:
        lines.append(f"aggregation = {_write_aggregation(form)}")
    if form.get("alone") and form.get("validation"):
        lines.append("alone = true")
    if form.get("seed"):
        lines.append(f"seed = {_number(form['seed'])}")
    return "\n".join(lines)


def _write_aggregation(form: Mapping[str, str]) -> str:
    name = form.get("aggregation", "plain")
    if name != "Shamir":
        return quote(name)
    return f"{{ name = {quote(name)}, threshold = {_number(form.get('threshold', ''))} }}"


def _write_parties(form: Mapping[str, str]) -> str:
    given = {name.removeprefix(PARTY): data for name, data in form.items() if name[:5] == PARTY}
    lines = [f"{quote(party)} = {quote(data)}" for party, data in given.items() if data.strip()]
    return "\n".join(["[parties]", *lines])


def _write_label(form: Mapping[str, str], *, is_vertical: bool) -> str:
    lines = ["[label]", f"column = {quote(form.get('label', ''))}"]
    if is_vertical and form.get("label_party"):
        lines.append(f"party = {quote(form['label_party'])}")
    protection = form.get("protection", "encoded")
    if is_vertical and protection != "encoded":
        lines.append(f"protection = {quote(protection)}")
        if protection == "RandomizedResponse":
            lines.append(f"epsilon = {_number(form.get('label_epsilon', ''))}")
    return "\n".join(lines)


def _write_validation(form: Mapping[str, str]) -> str:
    percent = form.get("validation", "")
    if not percent:
        return ""
    try:
        share = f"{float(percent) / 100.0:g}"
    except ValueError:
        share = quote(percent)
    return f"[validation]\nshare = {share}"


def _write_privacy(form: Mapping[str, str]) -> str:
    if not form.get("privacy"):
        return ""
    epsilon = _number(form.get("privacy_epsilon", ""))
    return f"[privacy]\nname = {quote(form['privacy'])}\nepsilon = {epsilon}"


def _write_parameters(form: Mapping[str, str], *, is_vertical: bool) -> str:
    lines = ["[parameters]"]
    names = {"trees": "n_estimators", "max_depth": "max_depth", "min_samples_leaf": ""}
    for field, name in names.items():
        if form.get(field):
            lines.append(f"{name or field} = {_number(form[field])}")
    if is_vertical and form.get("oob"):
        lines.append("oob_score = true")
    if form.get("more", "").strip():
        lines.append(form["more"].replace("\r\n", "\n").strip())
    return "\n".join(lines)


def quote(text: str) -> str:
    """Return a text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(text: str) -> str:
    """Return a number as it was typed; anything else as a text, which the reader refuses."""
    try:
        float(text)
    except ValueError:
        return quote(text)
    is_plain = text.isascii() and set(text) <= set("0123456789.+-eE")
    return text if is_plain else quote(text)


def read_order(order: Mapping[str, Any], protocol: str) -> dict[str, str]:
    """Return the fields that describe an earlier run, as far as the form has them."""
    parameters = order.get("parameters") or {}
    fields = dict(DEFAULTS) | {
        "name": str(order.get("name", "")),
        "protocol": protocol,
        "task": str(parameters.get("task", "classification")),
        "label": str(order.get("label", "")),
        "label_party": str(order.get("label_party", "")),
        "trees": str(parameters.get("n_estimators", "")),
        "max_depth": _text(parameters.get("max_depth")),
        "min_samples_leaf": _text(parameters.get("min_samples_leaf")),
        "oob": "on" if order.get("out_of_bag") else "",
        "alone": "on" if order.get("alone") else "",
        "validation": _percent(order.get("validation")),
        "align": _alignment(order.get("align")),
    }
    if order.get("encrypts_labels"):
        fields["protection"] = "Encrypted"
    elif order.get("label_epsilon") is not None:
        fields |= {
            "protection": "RandomizedResponse",
            "label_epsilon": f"{order['label_epsilon']:g}",
        }
    if protocol == "horizontal":
        sums = order.get("aggregation") or {}
        fields["aggregation"] = str(sums.get("name", "plain"))
        fields["threshold"] = _text(sums.get("settings", {}).get("threshold", 2))
        noise = order.get("privacy") or {}
        fields["privacy"] = str(noise.get("name", ""))
        if "epsilon" in noise.get("settings", {}):
            fields["privacy_epsilon"] = f"{noise['settings']['epsilon']:g}"
    return fields | {f"{PARTY}{party}": str(data) for party, data in order["data"].items()}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _percent(validation: Any) -> str:
    share = validation.get("share") if isinstance(validation, dict) else None
    return f"{100.0 * share:g}" if isinstance(share, int | float) else ""


def _alignment(align: object) -> str:
    if isinstance(align, str):
        return align
    return "keyed-hash" if align is True else ""
