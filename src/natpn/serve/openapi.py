"""The words and schemas of the OpenAPI description that FastAPI cannot guess.

The values of a row, and what `GET /model` tells a form about them:

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

from natpn.tabular import Column

DESCRIPTION = """Predictions of a Natural Posterior Network, with how much it knows.

JSON has no infinity: where a bound of an interval is infinite or an uncertainty has no finite value, there is null.
Every error is `{"error": sentence with the cure, "field": feature or null, "row": row counted from 0 or null}`."""

_NUMBER = {"type": ["number", "null"]}
ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["prediction", "aleatoric", "epistemic", "familiarity", "novelty_p", "novel"],
    "properties": {
        "prediction": {
            "type": ["number", "string", "boolean", "array", "null"],
            "description": "The predictive mean (the median for lognormal), or the most probable class.",
        },
        "lower": {**_NUMBER, "description": "Lower end of the 90 % interval; null means −∞."},
        "upper": {**_NUMBER, "description": "Upper end of the 90 % interval; null means ∞."},
        "probabilities": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "Classes: the probability of each label.",
        },
        "aleatoric": {**_NUMBER, "description": "The noise in the data, an entropy in nats; null if it is infinite."},
        "epistemic": {**_NUMBER, "description": "What is not known: −log of all pseudo-observations."},
        "familiarity": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "The weight of the data in the answer: 1 means that the data speak, 0 that the prior does.",
        },
        "novelty_p": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "The share of held-out training rows that were as unfamiliar.",
        },
        "novel": {"type": "boolean", "description": "Whether novelty_p is below 0.05."},
        "most_unusual": {"type": ["string", "null"], "description": "With curve=true: the most unusual feature."},
        "curve": {
            "type": ["object", "null"],
            "description": "With curve=true: points of the predictive density (or probabilities) and of the prior's.",
        },
    },
}
ANSWERS: dict[str, Any] = {
    "type": "object",
    "required": ["rows"],
    "properties": {"rows": {"type": "array", "items": ANSWER}},
}
ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error", "field", "row"],
    "properties": {
        "error": {"type": "string"},
        "field": {"type": ["string", "null"]},
        "row": {"type": ["integer", "null"]},
    },
}


def predict_operation(
    columns: list[Column] | None, shape: tuple[int, ...], max_rows: int, max_body: int
) -> dict[str, Any]:
    """Return what `POST /predict` takes and answers."""
    one = _nested(shape) if columns is None else _row_schema(columns)
    many = {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {"rows": {"type": "array", "items": one, "minItems": 1, "maxItems": max_rows}},
    }
    content: dict[str, Any] = {"application/json": {"schema": {"anyOf": [one, many]}}}
    if columns is not None:
        header = ",".join(column.name for column in columns)
        content["text/csv"] = {"schema": {"type": "string", "description": f"A header and rows: {header}"}}
    return {
        "parameters": [
            {
                "name": "curve",
                "in": "query",
                "required": False,
                "description": "Add points of the distribution, for at most 100 rows.",
                "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
            }
        ],
        "requestBody": {
            "required": True,
            "description": f"One row, or many as rows; at most {max_rows} rows and {max_body} bytes."
            " null is a missing value.",
            "content": content,
        },
    }


def responses(
    *statuses: int, schema: dict[str, Any], media: str = "application/json"
) -> dict[int | str, dict[str, Any]]:
    """Return the answers of an operation: the good one, and errors."""
    words = {400: "Not JSON, or no CSV", 401: "The token is missing or wrong", 408: "The body took too long",
             413: "Too large", 415: "Another content type", 422: "A feature is missing, unknown or of a wrong type",
             503: "Too many requests are open"}  # fmt: skip
    bad: dict[int | str, dict[str, Any]] = {
        status: {"description": words[status], "content": {"application/json": {"schema": ERROR}}}
        for status in statuses
    }
    return {200: {"description": "The answer", "content": {media: {"schema": schema}}}, **bad}


def _nested(shape: tuple[int, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "number"}
    for size in reversed(shape):
        schema = {"type": "array", "items": schema, "minItems": size, "maxItems": size}
    return schema


def _row_schema(columns: list[Column]) -> dict[str, Any]:
    """Return the JSON schema of one row."""
    return {
        "type": "object",
        "properties": {column.name: column.schema for column in columns},
        "required": [column.name for column in columns],
        "additionalProperties": False,
        "example": {column.name: column.usual for column in columns},
    }
