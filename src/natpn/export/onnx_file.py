"""Write a model as one ONNX file: the graph of `natpn.export.graph_module`, and in its metadata what it means."""

import contextlib
import importlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import IO, Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from natpn.estimators.base import NatPNEstimator
from natpn.export.column_inputs import describe_columns, input_names, take_columns, values_of
from natpn.export.graph_module import LEVELS, Answers, describe_outputs, left_out, other_columns, takes_columns
from natpn.export.operators import operators
from natpn.families import name_of
from natpn.model import Labels, Model, TableInputs, Units
from natpn.outputs import Kind, check_file, replacing

_EXAMPLE_ROWS = 3
_LARGEST = 2**31 - 1  # bytes of a file of Protocol Buffers


def export_onnx(model: NatPNEstimator, path: str | PathLike[str]) -> list[str]:
    """Write a fitted estimator as an ONNX file; one that natpn wrote is replaced, another file is not.

    The graph takes `X`, float64 of shape (rows, …) in the units of the training data, missing numbers as NaN. Of a
    table with categories or dates it takes the columns, one input each, by name: texts as texts, dates as seconds since
    1970. Inputs and outputs are described in the metadata of the file. A table with a column that no graph can read is
    taken as `natpn.tabular.TableTransform` encodes it; the transform is in the metadata too.

    Args:
        model: A fitted `NatPNClassifier` or `NatPNRegressor`.
        path: Where to write.

    Returns:
        Sentences about what the model can and the file cannot.

    Raises:
        ImportError: If onnx, onnxruntime or onnxscript is not installed.
        ValueError: If there is a file that natpn did not write, or a part of the model, such as an encoder that was
            given as a module, cannot be translated.
        OSError: If the file cannot be written; what was there stays.
    """
    onnx = _import_onnx()
    check_is_fitted(model)
    place = Path(path)
    _check_place(place)
    fitted = model.model_
    if fitted.targets.exposure is not None:
        raise ValueError("model: a graph takes no exposures, and the model needs them; load it in Python instead")
    if fitted.memory is not None:
        raise ValueError(
            "model: a graph has no place for what the model learned after its fit; export it as it was before, or fit "
            "again with all rows"
        )
    sentences = [*_about_columns(fitted), *left_out(fitted)]
    proto = _translate(Answers(fitted))
    names = None
    if takes_columns(fitted.inputs):
        columns = fitted.inputs.columns or []
        names = input_names(columns, values_of(proto))
        take_columns(proto, columns, names)
    about = _metadata(fitted, sentences, names) | {"natpn": version("natpn"), "estimator": type(model).__name__}
    onnx.helper.set_model_props(proto, about)
    content = proto.SerializeToString()
    if len(content) > _LARGEST:
        raise ValueError(f"model: it takes {len(content):,} bytes, and an ONNX file holds at most {_LARGEST:,}")
    with replacing(place, ONNX) as file:
        file.write(content)
    return sentences


def _import_onnx() -> Any:
    try:
        importlib.import_module("onnxscript")
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError(
            f"The export to ONNX needs the package {error.name!r}; in a clone of natpn, run: pip install '.[onnx]'",
            name=error.name,
        ) from error


def _is_ours(file: IO[bytes]) -> bool:
    """Say whether a file is an ONNX model with the metadata that natpn writes."""
    try:
        proto = _import_onnx().load(file, load_external_data=False)
    except Exception:  # the libraries raise many kinds of errors for a file that is no model
        return False
    return {"natpn", "estimator"} <= {entry.key for entry in proto.metadata_props}


ONNX = Kind("an ONNX file that natpn wrote", _is_ours)


def _check_place(place: Path) -> None:
    """Raise before the work if the file cannot be written, or is not ours."""
    if place.is_dir():
        raise IsADirectoryError(f"{place}: it is a directory; name a file, such as {place / 'model.onnx'}")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{place}: there is no directory {place.parent}; make it first")
    if not os.access(place.parent, os.W_OK):
        raise PermissionError(f"{place}: the directory {place.parent} cannot be written; choose another")
    check_file(place, ONNX)


def _about_columns(model: Model) -> list[str]:
    others = other_columns(model.inputs)
    kinds = ", ".join(f"{column.name!r} is a {column.kind}" for column in others[:5])
    more = f" and {len(others) - 5} more are none" if len(others) > 5 else ""
    sentence = (
        f"Column {kinds}{more}: a graph cannot read it, so X is the table as TableTransform encodes it, "
        f"{model.inputs.shape[0]} columns; the transform is in the metadata, under 'inputs'."
    )
    return [sentence] if others else []


def _metadata(model: Model, sentences: list[str], names: list[str] | None = None) -> dict[str, str]:
    """Return what the numbers mean, as texts and JSON; `names` are those of the inputs, if there is one a column."""
    encoded = bool(other_columns(model.inputs))
    inputs: dict[str, Any] = {
        "name": "X",
        "dtype": "float64",
        "kind": "encoded table" if encoded else model.inputs.kind,
        "missing": "NaN" if isinstance(model.inputs, TableInputs) and not encoded else "not allowed",
    }
    if isinstance(model.inputs, TableInputs):
        inputs["feature_names"] = model.inputs.table.feature_names
    if names is not None:
        inputs = {"kind": "columns", "columns": describe_columns(model.inputs.columns or [], names)}
    if encoded:
        inputs["transform"] = model.inputs.to_config()
    values: dict[str, Any] = {
        "inputs": inputs,
        "outputs": describe_outputs(model),
        "family": {"name": name_of(model.family), "parameters": dict(vars(model.family))},
        "quantile_levels": LEVELS,
        "left_out": sentences,
    }
    targets = model.targets
    if isinstance(targets, Units):
        values["units"] = {"of": "all outputs are in the units of the training targets", **targets.to_config()}
    if isinstance(targets, Labels):
        values["classes"] = targets.classes.tolist()
    return {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in values.items()}


@torch.no_grad()
def _translate(answers: Answers) -> Any:
    """Return the module as an ONNX model."""
    example = torch.zeros(_EXAMPLE_ROWS, *answers.input_shape, dtype=torch.float64)
    rows = torch.export.Dim("rows")
    with _quietly():
        try:
            graph = torch.export.export(answers, (example,), dynamic_shapes=({0: rows},), strict=False)
            graph = graph.run_decompositions(operators())
            program: Any = torch.onnx.export(
                graph,
                dynamo=True,
                optimize=False,
                verbose=False,
                input_names=["X"],
                output_names=answers.outputs,
                custom_translation_table={torch.ops.aten.scalar_tensor.default: _exact_scalar},
            )
            # Not `optimize=True`: its rewriting gives two bounds of one tensor the same name, and drops one of them.
            optimizer = importlib.import_module("onnxscript.optimizer")
            optimizer.fold_constants(program.model)
            optimizer.remove_unused_nodes(program.model)
        except Exception as error:  # torch raises many kinds
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            parts = _parts(answers.network)
            raise ValueError(f"model: torch cannot translate a part of it, {parts}: {reason}") from error
    proto = program.model_proto
    _forget_the_code(proto)
    _name_the_rows(proto.graph)
    return proto


def _exact_scalar(s: float, dtype: int = -1, layout: str = "", device: str = "", pin_memory: bool = False) -> Any:
    """Translate a number exactly: torch's own translation rounds it to float32 first."""
    onnx, opset = _import_onnx(), importlib.import_module("onnxscript").opset20
    kind = onnx.TensorProto.FLOAT if dtype == -1 else dtype
    return opset.Constant(value=onnx.helper.make_tensor("number", kind, [], [s]))


def _parts(network: nn.Module) -> str:
    members = getattr(network, "members", None)
    first = members[0] if isinstance(members, nn.ModuleList) else network
    names = (type(getattr(first, part, None)).__name__ for part in ("encoder", "density"))
    return "which has the encoder {} and the density {}".format(*names)


def _forget_the_code(proto: Any) -> None:
    """Remove the translation's notes about lines of code: half of a small file, with paths of this machine."""
    main = proto.graph
    for graph in [main, *proto.functions]:
        for part in [graph, *graph.node, *graph.value_info]:
            part.ClearField("metadata_props")
            part.ClearField("doc_string")
    for value in [*main.input, *main.output, *main.initializer]:
        value.ClearField("metadata_props")


def _name_the_rows(graph: Any) -> None:
    """Name the free dimension."""
    symbol = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == symbol:
                dim.dim_param = "rows"


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence torch's remarks about its own deprecations and about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
