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


def _object(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or list(properties), **more}


_NUMBER = {"type": ["number", "null"]}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "prediction": (
        {"type": ["number", "string", "boolean", "array", "null"]},
        "The predictive mean (the median for lognormal), or the most probable class.",
    ),
    "lower": (_NUMBER, "Lower end of the interval; null means −∞."),
    "upper": (_NUMBER, "Upper end of the interval; null means ∞."),
    "probabilities": (
        {"type": "object", "additionalProperties": {"type": "number"}},
        "Classes: the probability of each label.",
    ),
    "aleatoric": (_NUMBER, "The noise in the data, an entropy in nats; null if it is infinite."),
    "epistemic": (_NUMBER, "What is not known: −log of all pseudo-observations."),
    "familiarity": (
        _SHARE,
        "The weight of the data in the answer: 1 means that the data speak, 0 that the prior does.",
    ),
    "novelty_p": (_SHARE, "The share of held-out training rows that were as unfamiliar."),
    "novel": ({"type": "boolean"}, "Whether novelty_p is below 0.05."),
    "surprise": ({"type": "number"}, "With explain=true: how far the row is from ordinary ones, 0; 1 is rare."),
    "adds": (
        {"type": "object", "additionalProperties": {"type": "number"}},
        "With explain=true: what each feature adds to the surprise.",
    ),
    "most_unusual": (
        {"type": ["string", "null"]},
        "With curve=true or explain=true: the feature that adds the most to the surprise.",
    ),
    "familiar": (
        {"type": ["string", "null"]},
        "With explain=true: a value that would be more familiar there, as text; null if none is known.",
    ),
    "reason": ({"type": "string"}, "With curve=true or explain=true: why the row is novel, empty if it is not."),
    "curve": (
        {"type": ["object", "null"]},
        "With curve=true: points of the predictive density (or probabilities) and of the prior's.",
    ),
}
ANSWER = _object(
    {name: {**kind, "description": text} for name, (kind, text) in _FIELDS.items()},
    ["prediction", "aleatoric", "epistemic", "familiarity", "novelty_p", "novel"],
)
ANSWERS = _object({"rows": {"type": "array", "items": ANSWER}})
_ERROR = _object(
    {"error": {"type": "string"}, "field": {"type": ["string", "null"]}, "row": {"type": ["integer", "null"]}}
)
_STATUSES = {
    400: "Not JSON, or no CSV",
    401: "The token is missing or wrong",
    404: "There is no such model",
    408: "The body took too long",
    413: "Too large",
    415: "Another content type",
    422: "A feature is missing, unknown or of a wrong type",
    503: "Too many requests are open",
}


def predict_operation(
    columns: list[Column] | None, shape: tuple[int, ...], max_rows: int, max_body: int
) -> dict[str, Any]:
    """Return what `POST /predict` takes and answers."""
    one = _nested(shape)
    csv: dict[str, Any] = {}
    if columns is not None:
        usual = {column.name: column.usual for column in columns}
        one = _object({column.name: column.schema for column in columns}, additionalProperties=False, example=usual)
        header = ",".join(column.name for column in columns)
        csv["text/csv"] = {"schema": {"type": "string", "description": f"A header and rows: {header}"}}
    rows = {"type": "array", "items": one, "minItems": 1, "maxItems": max_rows}
    many = _object({"rows": rows}, additionalProperties=False)
    return {
        "parameters": [
            {
                "name": "curve",
                "in": "query",
                "required": False,
                "description": "Add points of the distribution, for at most 100 rows.",
                "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
            },
            {
                "name": "explain",
                "in": "query",
                "required": False,
                "description": "Say what each feature adds to the surprise. Not together with curve.",
                "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
            },
            {
                "name": "coverage",
                "in": "query",
                "required": False,
                "description": "Probability with which the interval holds the target.",
                "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.9},
            },
            {
                "name": "id",
                "in": "query",
                "required": False,
                "description": "A column of a CSV that names the rows; answers have it as a field.",
                "schema": {"type": "string"},
            },
            {
                "name": "drop",
                "in": "query",
                "required": False,
                "description": "Columns of a CSV to leave out.",
                "schema": {"type": "array", "items": {"type": "string"}},
            },
        ],
        "requestBody": {
            "required": True,
            "description": f"One row, or many as rows; at most {max_rows} rows and {max_body} bytes."
            " null is a missing value.",
            "content": {"application/json": {"schema": {"anyOf": [one, many]}}} | csv,
        },
    }


def feedback_operation(columns: list[Column] | None, max_rows: int, max_body: int) -> dict[str, Any]:
    """Return what `POST /feedback` takes."""
    row = _object({column.name: column.schema for column in columns or []}, additionalProperties=False)
    rows = {"type": "array", "items": row, "minItems": 1, "maxItems": max_rows}
    schema = _object({"rows": rows, "targets": {"type": "array", "description": "The truth of each row."}})
    return {
        "requestBody": {
            "required": True,
            "description": f"Rows and their truth; at most {max_rows} rows and {max_body} bytes.",
            "content": {"application/json": {"schema": schema}},
        }
    }


def responses(
    *statuses: int, schema: dict[str, Any], media: str = "application/json"
) -> dict[int | str, dict[str, Any]]:
    """Return the answers of an operation: the good one, and errors."""
    bad: dict[int | str, dict[str, Any]] = {
        status: {"description": _STATUSES[status], "content": {"application/json": {"schema": _ERROR}}}
        for status in statuses
    }
    return {200: {"description": "The answer", "content": {media: {"schema": schema}}}, **bad}


def _nested(shape: tuple[int, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "number"}
    for size in reversed(shape):
        schema = {"type": "array", "items": schema, "minItems": size, "maxItems": size}
    return schema
