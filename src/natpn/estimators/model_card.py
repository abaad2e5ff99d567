"""The card of a saved model, `README.md`: what it predicts and from what, for people and for the Hugging Face hub.

It says nothing of the training rows that `config.json` does not have, but for the scores of held-out rows, which only a
model that was just fitted knows. It depends on the model alone, so the same fit writes the same card.
"""

import math
from typing import Any

import numpy as np

from natpn.families import name_of
from natpn.model import ClassDistribution, Model, PredictiveDistribution, TableInputs

_SCORED = 1_000  # held-out rows, evenly spaced: quantiles of counts take a while
_COLUMNS = 100
_COVERAGE = 0.9


def model_card(estimator: Any, table: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """Return the head of the card, by key, and its text in Markdown.

    Args:
        estimator: The fitted estimator.
        table: What is known about the table that it was fitted on.
    """
    model: Model = estimator.model_
    classes = model.family.is_classes
    notes = table or {}
    target, unit = notes.get("target"), notes.get("unit")
    title = f"Prediction of {_text(target)}" if target else type(estimator).__name__
    head = {
        "library_name": "natpn",
        "pipeline_tag": _task(model),
        "tags": ["natpn", "uncertainty", "tabular" if isinstance(model.inputs, TableInputs) else "arrays"],
    }
    what = model.family.predicts or model.family.support.expected
    labels = ": " + _listed(map(str, model.targets.to_config()["labels"])) if classes else ""
    parts = [
        f"# {title}",
        f"A `{type(estimator).__name__}` of natpn. It predicts {what}{labels}{f', in {_text(unit)}' if unit else ''}, "
        "as a full distribution, and says for each row how much it knows about rows like it.",
        f"- Training rows: {model.n_rows:,}\n- Family: `{name_of(model.family)}`\n- Networks: {len(model.members)}",
        "## Inputs",
        _inputs(model),
        "## How well it does",
        _scores(estimator),
        "## How to use it",
        _USE,
        "## Limits",
        _LIMITS.format("" if model.example is None else ", and one of its rows (`save(example=False)` leaves it out)"),
    ]
    return head, "\n\n".join(parts) + "\n"


_USE = """\
```python
from natpn import load

model = load("path/to/this/directory")  # or load(huggingface_hub.snapshot_download("owner/name"))
model.predict_frame(rows)
```

`rows` is a data frame with the columns above, in any order. Nothing in these files can run code. The command line reads
them, too: `natpn predict`, `natpn serve`."""

_LIMITS = """\
- Answers hold for rows like those of training. `familiarity` near 0, or `novel`, means that the answer is mostly the
  prior: what one would say of any row.
- Intervals cover as often as they say on rows like those of training, not on each group of them.
- It has learned what goes together, not what causes what.
- `config.json` holds names of columns and categories, ranges and quantiles of the training table{}: look at it before
  you publish the model."""


def _task(model: Model) -> str:
    """Return the hub's name for what the model does."""
    if model.family.is_classes:
        return "image-classification" if len(model.inputs.shape) == 3 else "tabular-classification"
    return "tabular-regression"


def _inputs(model: Model) -> str:
    columns = model.inputs.columns
    if columns is None:
        return f"Arrays of the shape {model.inputs.shape}, one for each row."
    lines = ["| column | kind | in training | missing |", "|---|---|---|---|"]
    for column in columns[:_COLUMNS]:
        lines.append(f"| {_text(column.name)} | {column.kind} | {_text(column.facts)} | {100 * column.missing:.2g} % |")
    if len(columns) > _COLUMNS:
        lines.append(f"| … and {len(columns) - _COLUMNS:,} more | | | |")
    exposure = model.targets.exposure
    if exposure is not None:
        where = "`exposure=`" if exposure.column is None else f"the column {_text(exposure.column)}, or `exposure=`"
        lines += ["", f"Counts are those of an exposure, which each row has: {where}."]
    return "\n".join(lines)


def _scores(estimator: Any) -> str:
    rows = getattr(estimator, "held_out_rows_", None)
    if rows is None or not len(rows[1]):
        return "Not known: the model was saved without the rows that were held out from its training."
    x, truth, folds = rows
    some = np.arange(len(truth)) if len(truth) <= _SCORED else np.arange(_SCORED) * len(truth) // _SCORED
    x, truth, folds = x[some], truth[some], None if folds is None else folds[some]
    exposed = estimator.held_out_exposure_
    exposure = None if exposed is None else exposed[some]
    model: Model = estimator.model_
    owners = [(model, np.ones(len(truth), bool))]
    if folds is not None:
        owners = [(model.member(i), folds == i) for i in range(len(model.members))]
    owners = [(member, own) for member, own in owners if own.any()]
    answers = [member.answer_encoded(x[own], None if exposure is None else exposure[own]) for member, own in owners]
    found = [_of_answers(part, truth[own]) for part, (_, own) in zip(answers, owners, strict=True)]
    sizes = [int(own.sum()) for _, own in owners]
    means = {name: float(np.average([one[name] for one in found], weights=sizes)) for name in found[0]}
    by_whom = " by one of its networks; together they mostly do better" if folds is not None else ""
    lines = [f"On {len(truth):,} rows that were held out from training{by_whom}:"]
    return "\n".join([*lines, "", *(f"- {name}: {value:.4g}" for name, value in means.items() if math.isfinite(value))])


def _of_answers(answers: PredictiveDistribution, truth: Any) -> dict[str, float]:
    found = {"mean negative log-likelihood": -float(answers.log_prob(truth).mean())}
    if isinstance(answers, ClassDistribution):
        return {"accuracy": float(np.mean(answers.mode() == truth)), **found}
    values = np.asarray(truth, float)
    if values.ndim > 1:
        return found
    low, high = answers.interval(_COVERAGE).T
    return {
        "mean absolute error": float(np.abs(values - answers.centre()).mean()),
        f"share inside the {100 * _COVERAGE:g} % interval": float(((low <= values) & (values <= high)).mean()),
        **found,
    }


def _listed(names: Any) -> str:
    some = [_text(name) for name in names]
    return ", ".join(some[:20]) + (f", … ({len(some):,} in all)" if len(some) > 20 else "")


def _text(value: Any) -> str:
    """Return a name as Markdown shows it, in one line; it cannot end a cell or start a tag, a link or a code block."""
    plain = " ".join(str(value).split())[:80]
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]<>#|!~$" else sign for sign in plain) or "(no name)"
