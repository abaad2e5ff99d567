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

from natpn.model import Model, TableInputs
from natpn.tabular import Column


def columns_of(model: Model) -> list[Column] | None:
    """Return the columns that a model was trained on; None if it was not trained on a table."""
    return model.inputs.table.columns if isinstance(model.inputs, TableInputs) else None


def features(columns: list[Column]) -> list[dict[str, Any]]:
    """Describe each feature, with a usual value that a form may begin with."""
    return [{"name": column.name, "kind": column.kind, **column.described, "usual": column.usual} for column in columns]


def row_schema(columns: list[Column]) -> dict[str, Any]:
    """Return the JSON schema of one row."""
    return {
        "type": "object",
        "properties": {column.name: column.schema for column in columns},
        "required": [column.name for column in columns],
        "additionalProperties": False,
        "example": {column.name: column.usual for column in columns},
    }
