"""The inputs of a graph that takes a table by its columns: one named input each, put together to the matrix `X`.

A column of texts is looked up in a table of codes (`LabelEncoder` of `ai.onnx.ml`); all others are float64. A column
with the name of an output, or of something else in the graph, gets another name, which the metadata say.
"""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from natpn.tabular import Column

_ML = ("ai.onnx.ml", 3)


def input_names(columns: Sequence[Column], taken: Iterable[str]) -> list[str]:
    """Return the name of the input of each column: its own, unless that is empty or taken."""
    used, names = {"", "X", *taken}, []
    for column in columns:
        name = column.name
        while name in used:
            name += "_column"
        used.add(name)
        names.append(name)
    return names


def describe_columns(columns: Sequence[Column], names: Sequence[str]) -> list[dict[str, str]]:
    """Return what each input is, for the metadata."""
    described = []
    for column, name in zip(columns, names, strict=True):
        arithmetic = column.arithmetic
        unit = "" if arithmetic is None else arithmetic.unit
        described.append({"input": name, "column": column.name, "kind": column.kind, "is": unit})
    return described


def take_columns(proto: Any, columns: Sequence[Column], names: Sequence[str]) -> None:
    """Replace the input `X` of an ONNX model by one for each column, in place."""
    onnx = importlib.import_module("onnx")
    helper, kinds, graph = onnx.helper, onnx.TensorProto, proto.graph
    nodes, parts, inputs = [], [], []
    for place, (column, name) in enumerate(zip(columns, names, strict=True)):
        codes = None if column.arithmetic is None else column.arithmetic.codes
        inputs.append(helper.make_tensor_value_info(name, kinds.DOUBLE if codes is None else kinds.STRING, ["rows"]))
        number = name
        if codes is not None:
            known = {text: code for text, code in codes.of.items() if _is_sound(text)}
            code, number = f"natpn.code.{place}", f"natpn.number.{place}"
            look_up = {"keys_strings": list(known), "values_int64s": list(known.values())}
            options: dict[str, Any] = {"default_int64": codes.otherwise, "domain": _ML[0]}
            nodes.append(helper.make_node("LabelEncoder", [name], [code], **look_up, **options))
            nodes.append(helper.make_node("Cast", [code], [number], to=kinds.DOUBLE))
        parts.append(f"natpn.column.{place}")
        nodes.append(helper.make_node("Unsqueeze", [number, "natpn.axis"], [parts[-1]]))
    nodes.append(helper.make_node("Concat", parts, ["X"], axis=1))
    graph.initializer.append(helper.make_tensor("natpn.axis", kinds.INT64, [1], [1]))
    nodes += graph.node
    for field, values in (("input", inputs), ("node", nodes)):
        kept = list(values)
        graph.ClearField(field)
        getattr(graph, field).extend(kept)
    proto.opset_import.append(helper.make_opsetid(*_ML))


def values_of(proto: Any) -> set[str]:
    """Return the names of everything in the graph of an ONNX model but its input."""
    graph = proto.graph
    named = {value.name for value in [*graph.output, *graph.initializer]}
    return named.union(*(node.output for node in graph.node))


def _is_sound(text: str) -> bool:
    """Say whether a text can be written; one with half a character cannot, nor can it come."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
