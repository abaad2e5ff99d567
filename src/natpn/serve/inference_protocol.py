"""The Open Inference Protocol, version 2, beside the routes of our own: what KServe, Triton and MLServer speak.

A table is one tensor for each column, of shape [rows] or [rows, 1]; other inputs are one tensor of any name whose first
dimension is the rows. Answers are one tensor for each number that `POST /predict` gives: probabilities of classes have
shape [rows, classes], in the order of `classes` in `GET /model`. null is a missing value, as everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from natpn.serve.request_rows import Reader, RequestError, Row
from natpn.tabular import Column
from natpn.tabular.texts import brief

KINDS = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP32", "FP64", "BYTES"]
_TENSOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        "datatype": {"type": "string", "enum": KINDS},
        "data": {"type": "array"},
    },
    "required": ["name", "shape", "datatype", "data"],
}
REQUEST = {
    "requestBody": {
        "required": True,
        "description": "A tensor for each column of the table, or one for inputs that are arrays.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "inputs": {"type": "array", "items": _TENSOR, "minItems": 1},
                        "outputs": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"name": {"type": "string"}},
                                "required": ["name"],
                            },
                        },
                    },
                    "required": ["inputs"],
                }
            }
        },
    }
}


class InferenceProtocol:
    """Tensors in, tensors out.

    Args:
        name: What the model is called in paths.
        version: That of the library.
        columns: The columns of a table; None if inputs are arrays.
        shape: The shape of one input.
        reader: What checks rows.
    """

    def __init__(
        self, name: str, version: str, columns: list[Column] | None, shape: tuple[int, ...], reader: Reader
    ) -> None:
        self.name, self._version, self._columns, self._shape, self._reader = name, version, columns, shape, reader

    def server(self) -> dict[str, Any]:
        """Describe the server."""
        return {"name": "natpn", "version": self._version, "extensions": []}

    def metadata(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """Describe the model, given an answer of it."""
        inputs = [{"name": "x", "datatype": "FP64", "shape": [-1, *self._shape]}]
        if self._columns is not None:
            inputs = [{"name": c.name, "datatype": _KIND.get(c.kind, "BYTES"), "shape": [-1]} for c in self._columns]
        outputs = [
            {name: tensor[name] for name in ("name", "datatype")} | {"shape": [-1, *tensor["shape"][1:]]}
            for tensor in _tensors([example])
        ]
        return {"name": self.name, "versions": ["1"], "platform": "natpn", "inputs": inputs, "outputs": outputs}

    def check(self, name: str) -> None:
        """Raise if another model is asked for."""
        if name != self.name:
            raise RequestError(404, f"There is no model {brief(name)}. This server has {brief(self.name)}.")

    def read(self, body: bytes) -> tuple[list[Row], dict[str, Any]]:
        """Return the rows of a request, and what else it says."""
        asked = self._reader.parse_tensors(body)
        if type(asked) is not dict or type(asked.get("inputs")) is not list or not asked["inputs"]:
            raise RequestError(422, 'inputs: expected a list of tensors. Send {"inputs": [{"name": …}, …]}.', "inputs")
        tensors = dict(map(_read, asked["inputs"]))
        if len(tensors) < len(asked["inputs"]):
            raise RequestError(422, "inputs: two tensors have the same name. Send each column once.", "inputs")
        if self._columns is None:
            if len(tensors) > 1:
                raise RequestError(422, f"inputs: expected one tensor, got {len(tensors)}.", "inputs")
            rows = list(next(iter(tensors.values())))
            given: list[Any] = [row.tolist() for row in rows]
        else:
            long = next((name for name, values in tensors.items() if values.size != len(values)), None)
            if long is not None:
                raise RequestError(422, f"{brief(long)}: expected shape [rows] or [rows, 1].", long)
            if len({len(values) for values in tensors.values()}) > 1:
                raise RequestError(
                    422, "inputs: tensors have different numbers of rows. Send as many of each.", "inputs"
                )
            columns = [values.reshape(-1).tolist() for values in tensors.values()]
            given = [dict(zip(tensors, values, strict=True)) for values in zip(*columns, strict=True)]
        return self._reader.rows(given), asked

    def answer(self, records: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return answers as tensors, those that were asked for."""
        tensors = _tensors(records)
        wanted = asked.get("outputs")
        if wanted:
            known = {tensor["name"]: tensor for tensor in tensors}
            names = [output.get("name") if type(output) is dict else None for output in wanted]
            wrong = next((name for name in names if name not in known), None)
            if wrong is not None or None in names:
                raise RequestError(
                    422, f"outputs: there is no {brief(wrong)}. There are {', '.join(known)}.", "outputs"
                )
            tensors = [known[name] for name in names]
        found = {"model_name": self.name, "model_version": "1", "outputs": tensors}
        return found | ({"id": asked["id"]} if type(asked.get("id")) is str else {})


_KIND = {"number": "FP64", "boolean": "BOOL"}  # other columns are texts


def _read(tensor: Any) -> tuple[str, Any]:
    """Return name and values of a tensor, in its shape."""
    if type(tensor) is not dict or type(tensor.get("name")) is not str:
        raise RequestError(422, "inputs: expected tensors with name, shape, datatype and data.", "inputs")
    name, shape, data = tensor["name"], tensor.get("shape"), tensor.get("data")
    if type(data) is not list or type(shape) is not list or not all(type(n) is int and n >= 0 for n in shape):
        raise RequestError(422, f"{brief(name)}: expected a shape of whole numbers, and data as a list.", name)
    if tensor.get("datatype") not in KINDS:
        raise RequestError(422, f"{brief(name)}: expected a datatype such as FP64 or BYTES.", name)
    try:
        values = np.array(_flat(data), object).reshape(shape)
    except (ValueError, OverflowError):
        raise RequestError(
            422, f"{brief(name)}: the data are not of shape {shape}. Correct one of them.", name
        ) from None
    if not shape or not len(values):
        raise RequestError(422, f"{brief(name)}: it has no rows. Send at least one.", name)
    return name, values


def _flat(data: list[Any]) -> list[Any]:
    """Return the values of nested lists, which may be flat already."""
    while any(type(part) is list for part in data):
        data = [value for part in data for value in (part if type(part) is list else [part])]
    return data


def _tensors(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records, one a row, as tensors by name."""
    found = []
    for name in records[0]:
        values = [record[name] for record in records]
        if isinstance(values[0], dict):  # probabilities by label
            values = [list(value.values()) for value in values]
        shape = [len(values)]
        if isinstance(values[0], list):
            shape.append(len(values[0]))
            values = [number for value in values for number in value]
        kinds = {bool: "BOOL", str: "BYTES", int: "INT64"}
        kind = kinds.get(next((type(value) for value in values if value is not None), float), "FP64")
        found.append({"name": name, "datatype": kind, "shape": shape, "data": values})
    return found
