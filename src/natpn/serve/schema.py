"""The features of a model, for clients and for the form, and the JSON schema of one row.

| kind | one value | what the form is told |
|---|---|---|
| number | a finite number | minimum, maximum, mean, deviation, quantiles, whether all are whole |
| category | a text; a number or a truth value too if training's levels were such | levels with their shares |
| boolean | true or false | the share of true |
| date | a text in ISO form, with a time zone if training's dates had one | earliest, latest |
| empty | anything but a list or an object: training had no value at all | |

In every kind null stands for a missing value. A text may stand for a value of any kind, and is read as in a CSV file
(`natpn.tabular.texts`).
"""

from typing import Any

from natpn.estimators.base import NatPNEstimator
from natpn.estimators.inputs import TableInputs
from natpn.tabular import BooleanColumn, CategoryColumn, Column, DateColumn, NumberColumn
from natpn.tabular.convert import iso_text
from natpn.tabular.texts import number_of_text

SCALARS = ["string", "number", "boolean", "null"]


def columns_of(model: NatPNEstimator) -> list[Column] | None:
    """Return the columns that a model was trained on; None if it was not trained on a table."""
    return model.inputs_.table.columns if isinstance(model.inputs_, TableInputs) else None


def features(columns: list[Column]) -> list[dict[str, Any]]:
    """Describe each feature, with a usual value that a form may begin with."""
    return [
        {"name": column.name, "kind": column.kind, **column.summary, **_extras(column), "usual": usual(column)}
        for column in columns
    ]


def _extras(column: Column) -> dict[str, Any]:
    if isinstance(column, DateColumn):
        # Instants rather than wall clocks, so that they can be sent back as they are.
        return {"earliest": _iso(column.earliest, column), "latest": _iso(column.latest, column)}
    return {}


def usual(column: Column) -> Any:
    """Return a value that is nothing special in the column."""
    if isinstance(column, NumberColumn):
        return column.quantiles[len(column.quantiles) // 2]
    if isinstance(column, CategoryColumn):
        return column.levels[0] if column.levels else next(iter(column.rare), None)
    if isinstance(column, BooleanColumn):
        return column.true > 0.5
    if isinstance(column, DateColumn):
        return _iso((column.earliest + column.latest) / 2, column)
    return None


def row_schema(columns: list[Column]) -> dict[str, Any]:
    """Return the JSON schema of one row."""
    return {
        "type": "object",
        "properties": {column.name: value_schema(column) for column in columns},
        "required": [column.name for column in columns],
        "additionalProperties": False,
        "example": {column.name: usual(column) for column in columns},
    }


def value_schema(column: Column) -> dict[str, Any]:
    """Return the JSON schema of one value."""
    if isinstance(column, NumberColumn):
        text = f"In training from {column.minimum:g} to {column.maximum:g}. null if it is not known."
        return {"type": ["number", "string", "null"], "description": text}
    if isinstance(column, CategoryColumn):
        types = [
            "string",
            *(["number"] if takes_numbers(column) else []),
            *(["boolean"] if takes_truths(column) else []),
        ]
        some = ", ".join(column.levels[:20]) + (", …" if column.n_levels > 20 else "")
        return {"type": [*types, "null"], "description": f"In training: {some}. null if it is not known."}
    if isinstance(column, BooleanColumn):
        return {"type": ["boolean", "string", "null"], "description": "null if it is not known."}
    if isinstance(column, DateColumn):
        return {"type": ["string", "null"], "description": f"{date_form(column)}. null if it is not known."}
    return {"type": SCALARS, "description": "Training had no value here."}


def takes_numbers(column: CategoryColumn) -> bool:
    """Say whether levels are written as numbers, so that a number may stand for one."""
    return any(_is_number(level) for level in [*column.levels, *column.rare])


def takes_truths(column: CategoryColumn) -> bool:
    """Say whether levels are written as truth values."""
    return not {"True", "False"}.isdisjoint([*column.levels, *column.rare])


def date_form(column: DateColumn) -> str:
    """Say how to write a date of the column."""
    if column.zone is None:
        return "A date without a time zone, such as 2024-12-31 or 2024-12-31T23:59:00"
    return "A date with a time zone, such as 2024-12-31T23:59:00+01:00 or 2024-12-31T22:59:00Z"


def _iso(second: float, column: DateColumn) -> str:
    return iso_text(second) + ("" if column.zone is None else "Z")


def _is_number(text: str) -> bool:
    try:
        return number_of_text(text) is not None
    except ValueError:
        return False
