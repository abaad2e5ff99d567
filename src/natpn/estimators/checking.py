"""Compare what a saved model says of itself with its tensors, before memory is reserved for it.

Checksums reveal damage, not intent: whoever changes `config.json` can compute a new checksum. So no number in it is
trusted, and a network is built only as large as the tensors that it has to hold.
"""

import re
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from natpn.estimators.base import NatPNEstimator
from natpn.model import ArrayInputs, Labels, Network, TableInputs, Units

_LARGEST = 2**53
_LABEL_BYTES = 2**26
# Parameters of families, such as a shape: beyond these their formulas leave the range of float64.
_LEAST, _MOST = 1e-12, 1e12
# A mixture may start with 60 times the components that it kept, and a flow makes masks while it is built.
_GROWTH, _FREE = 64, 10_000_000
_FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.eye, torch.arange, torch.randperm}


def check_config(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Raise if a number or a list in the configuration has the wrong type or range.

    Raises:
        ValueError: With the field.
    """
    parameters = config["parameters"]
    if not isinstance(parameters, dict):
        raise _wrong("parameters", parameters, "named parameters")
    _whole("latent_dim", parameters["latent_dim"])
    _whole("n_networks", config["n_networks"], high=len(tensors))
    _whole("n_rows", config["n_rows"])
    _whole("n_features_in", config["n_features_in"])
    names, history = config["feature_names_in"], config["history"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise _wrong("feature_names_in", names, "a list of texts")
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise _wrong("history", history, "a list of epochs")
    for name, value in config["family"]["parameters"].items():
        if not isinstance(value, (int, float)) or not _LEAST <= value <= _MOST:
            raise _wrong(f"the parameter {name} of the family", value, f"a number from {_LEAST:g} to {_MOST:g}")
    if "classes" in config:
        _check_labels(config["classes"]["labels"], config["classes"]["dtype"])
    _check_tensors(tensors)


def build_network(
    model: NatPNEstimator, tensors: dict[str, Tensor], n_rows: int, size: int, activation: str
) -> Network:
    """Return the network that a model describes, with the weights that were saved.

    Args:
        model: The estimator, with its inputs and targets.
        tensors: What was saved.
        n_rows: How many rows it was trained on.
        size: How many networks it has.
        activation: Of the default encoder for tables.

    Raises:
        ValueError: If what the model says does not go with the tensors.
    """
    _check_model(model)
    state = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
    latent_dim = int(model.latent_dim)
    members = {match[1] for name in state if (match := re.match(r"members\.(\d+)\.", name))}
    if members != ({str(i) for i in range(size)} if size > 1 else set()):
        raise _damaged(f"n_networks is {size}, but the tensors are of {len(members) or 1} members")
    decoder = state["members.0.decoder.weight" if size > 1 else "decoder.weight"]
    if tuple(decoder.shape) != (model.family_.n_statistics, latent_dim):
        raise _damaged(
            f"latent_dim is {latent_dim} and the family {model.family_!r}, but the decoder has shape "
            f"{tuple(decoder.shape)}"
        )
    with _Bounded(_GROWTH * sum(t.numel() for t in state.values()) + _FREE):
        network = model._build(n_rows, 0, size, activation, _knots(state))
    expected = network.state_dict()
    for name, tensor in state.items():
        if name in expected and tensor.is_floating_point() != expected[name].is_floating_point():
            raise _damaged(f"the tensor {name} is of type {tensor.dtype}, not {expected[name].dtype}")
    try:
        network.load_state_dict(state)
    except RuntimeError as error:  # a page of names
        raise RuntimeError(f"its tensors are not those of the network: {' '.join(str(error).split()):.200} …") from None
    return network


def _knots(state: dict[str, Tensor]) -> int | None:
    """Return how many knots the columns of numbers have; None if there are none."""
    return next((t.shape[-1] for name, t in state.items() if name.endswith("encoding.pieces.knots")), None)


class _Bounded(TorchFunctionMode):
    """Refuse to make tensors above a size.

    Args:
        most: How many numbers a tensor may have.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Check the size of the result, then call the function."""
        if _size(func, args, kwargs or {}) > self._most:
            raise _damaged("its sizes in config.json are far larger than its tensors")
        return func(*args, **(kwargs or {}))


def _size(func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    """Return the size of the result of a factory function or a broadcast; 0 for all other functions."""
    if func in _FACTORIES:
        numbers = list(_whole_numbers([*args, kwargs.get("size", ())]))
        return prod(numbers) * (numbers[0] if func is torch.eye and len(numbers) == 1 else 1)
    shapes = [argument.shape for argument in args if isinstance(argument, Tensor)]
    if len(shapes) < 2:
        return 0
    try:
        return prod(torch.broadcast_shapes(*shapes))
    except RuntimeError:  # as of a matrix product
        return 0


def _whole_numbers(arguments: Iterable[Any]) -> Iterable[int]:
    for argument in arguments:
        if isinstance(argument, (tuple, list)):
            yield from _whole_numbers(argument)
        elif isinstance(argument, int) and not isinstance(argument, bool):
            yield argument


def _check_labels(labels: Any, name: Any) -> None:
    if not isinstance(labels, list) or not all(isinstance(label, (str, int, float)) for label in labels):
        raise _wrong("the labels of classes", labels, "a list of texts, numbers or booleans")
    try:
        kind = np.dtype(name)
    except (TypeError, ValueError):
        raise _wrong("the type of classes", name, "a type of numpy") from None
    # The type states the width of texts, so ten labels can claim ten gigabytes.
    if not isinstance(name, str) or kind.kind not in "biufUO" or kind.itemsize * len(labels) > _LABEL_BYTES:
        raise _wrong("the type of classes", name, "texts, numbers or booleans of ordinary size")


def _check_tensors(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        calibration = name.startswith("calibration.")
        if not calibration and not tensor.numel():
            raise _damaged(f"the tensor {name} is empty")
        # Held-out rows may have had no evidence at all, that is -inf; nothing else has a reason to be infinite.
        bad = tensor.isnan() if calibration else ~tensor.isfinite()
        if bool(bad.any()):
            raise _damaged(f"the tensor {name} has {int(bad.sum())} numbers that are NaN or infinite")
        if calibration and (tensor.ndim != 1 or bool((tensor[1:] < tensor[:-1]).any())):
            raise _damaged(f"the tensor {name} is not a sorted list")


def _check_model(model: NatPNEstimator) -> None:
    """Raise if inputs and targets contradict the rest of the model, or a scale is 0."""
    inputs = model.inputs_
    if isinstance(inputs, TableInputs):
        names, columns = inputs.table.feature_names, len(inputs.table.columns)
        if model.n_features_in_ != columns:
            raise _wrong("n_features_in", model.n_features_in_, f"{columns}, as there are columns")
        if inputs.table.named and list(getattr(model, "feature_names_in_", [])) != names:
            raise _damaged("feature_names_in: expected the names of the columns, got others")
    if isinstance(inputs, ArrayInputs):
        for size in inputs.shape:
            _whole("the shape of inputs", size)
        _check_numbers("the mean of inputs", inputs.mean, inputs.shape)
        _check_numbers("the scale of inputs", inputs.scale, inputs.shape, positive=True)
    targets = model.targets_
    if isinstance(targets, Units):
        shape = (prod(targets.family.support.event_shape),)
        _check_numbers("the location of targets", targets.location, shape)
        _check_numbers("the scale of targets", targets.scale, shape, positive=True)
    elif isinstance(targets, Labels) and len(targets.classes) != targets.family.n_statistics:
        raise _damaged(f"classes: there are {len(targets.classes)} labels for {targets.family!r}")


def _check_numbers(what: str, numbers: Any, shape: tuple[int, ...], positive: bool = False) -> None:
    fits = numbers.ndim == len(shape) and all(a in (1, b) for a, b in zip(numbers.shape, shape, strict=True))
    if not fits or not np.isfinite(numbers).all() or (positive and not (numbers > 0).all()):
        raise _wrong(what, numbers.tolist(), f"finite {'positive ' * positive}numbers of shape {shape}")


def _whole(name: str, value: Any, high: int = _LARGEST) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise _wrong(name, value, f"a whole number from 1 to {high}")


def _wrong(name: str, value: Any, expected: str) -> ValueError:
    return _damaged(f"{name}: expected {expected}, got {value!r:.80}")


def _damaged(text: str) -> ValueError:
    return ValueError(f"The model is damaged, save it again: {text}")
