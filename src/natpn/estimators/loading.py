"""Read models that `natpn.estimators.saving` wrote, and trust nothing that they say of themselves.

Checksums reveal damage, not intent: whoever changes `config.json` can compute a new checksum. So no number in it is
trusted, and a network is built only as large as the tensors that it has to hold.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from os import PathLike
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from natpn import families
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.classifier import NatPNClassifier
from natpn.estimators.regressor import NatPNRegressor
from natpn.model import ArrayInputs, Calibration, Labels, Model, Network, TableInputs, Targets, Units
from natpn.model.files import SCHEMA, created_at, read
from natpn.model.fitted import members_of
from natpn.model.inputs import KINDS
from natpn.model.memory import ARRAYS, Memory
from natpn.network import Feedback

_LARGEST = 2**53
_LABEL_BYTES = 2**26
_SHORT = 12  # digits of a hash that name a version
# Parameters of families, such as a shape: beyond these their formulas leave the range of float64.
_LEAST, _MOST = 1e-12, 1e12
# A mixture may start with 60 times the components that it kept, and a flow makes masks while it is built.
_GROWTH, _FREE = 64, 10_000_000
_FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.eye, torch.arange, torch.randperm}
_MAY_BE_INFINITE = ("memory.log_evidence", "memory.scores")
CLASSES: dict[str, type[NatPNEstimator]] = {kind.__name__: kind for kind in (NatPNClassifier, NatPNRegressor)}


def load(directory: str | PathLike[str], *, encoder: nn.Module | None = None) -> Any:
    """Read a model that `save` wrote.

    Args:
        directory: The directory.
        encoder: The module that was given as `encoder=`, if one was: code is not saved, only its weights are.

    Returns:
        The fitted `NatPNClassifier` or `NatPNRegressor`.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If the model was cut short, changed, or written by a newer version.
    """
    return load_saved(directory, encoder).estimator


@dataclass(frozen=True)
class Saved:
    """A model with what its files say about it.

    Attributes:
        estimator: The fitted estimator.
        table: What was written with it about the table that it was fitted on.
        version: A hash of its tensors.
        created: When it was fitted, or else the date of its files, in ISO form and UTC.
        natpn: The version of natpn that wrote it, if it says so.
    """

    estimator: NatPNEstimator
    table: dict[str, Any] | None
    version: str
    created: str
    natpn: str | None

    @property
    def target(self) -> str | None:
        """The name of the column that was the target; None if it is not known."""
        return _text(self.table or {}, "target")

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns of the table that were left out."""
        names = (self.table or {}).get("dropped")
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()

    @property
    def unit(self) -> str | None:
        """The unit of the target: what was said in the fit, or else what stood beside its numbers."""
        table = self.table or {}
        written = table.get("written")
        units = written.get("units") if isinstance(written, dict) else None
        beside = _text(units, self.target or "") if isinstance(units, dict) else None
        return _text(table, "unit") or beside


def _text(config: dict[str, Any], key: str) -> str | None:
    """Return a text that is not empty; what was written about a table may be anything."""
    found = config.get(key)
    return found if isinstance(found, str) and found else None


def load_saved(directory: str | PathLike[str], encoder: nn.Module | None = None) -> Saved:
    """Read a model, and what its files say about it."""
    config, content = read(directory)
    try:
        estimator = _rebuild(config, load_tensors(content), encoder)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"{directory}: the model cannot be read, {type(error).__name__}: {error}") from error
    return Saved(
        estimator,
        config["table"],
        config["tensors_sha256"][:_SHORT],
        _text(config["table"] or {}, "created") or created_at(directory),
        _text(config, "natpn"),
    )


def _rebuild(config: dict[str, Any], tensors: dict[str, Tensor], encoder: nn.Module | None) -> NatPNEstimator:
    if config["class"] not in CLASSES:
        raise ValueError(f"The model is a {config['class']!r}; known are {', '.join(CLASSES)}")
    if config["schema"] < SCHEMA:
        _bring_up_to_date(config, tensors)
    check_config(config, tensors)
    parameters = dict(config["parameters"])
    for name, value in parameters.items():
        if isinstance(value, dict):
            parameters[name] = _unplain(name, value, encoder)
    model = CLASSES[config["class"]](**parameters)
    inputs = dict(config["inputs"])
    model.inputs_ = KINDS[inputs.pop("kind")].from_config(inputs)
    family = families.get(config["family"]["name"], **config["family"]["parameters"])
    targets = Labels if isinstance(model, NatPNClassifier) else Units
    model.targets_ = targets.from_config(family, config[targets.key])
    model.family_, model.n_features_in_, model.n_rows_ = family, config["n_features_in"], config["n_rows"]
    if isinstance(model, NatPNClassifier):
        model.classes_ = model.targets_.classes
    if config["feature_names_in"]:
        model.feature_names_in_ = np.array(config["feature_names_in"], dtype=object)
    network = build_network(model, tensors, config["n_rows"], config["n_networks"], config["activation"])
    arrays = {name.removeprefix("calibration."): t.numpy() for name, t in tensors.items() if "calibration." in name}
    groups = None if model.groups is None else model.inputs_.groups_by(model.groups)
    try:
        calibration = Calibration.from_arrays(arrays, groups)
    except ValueError as error:
        raise _damaged(str(error)) from None
    memory = _memory(config, tensors, calibration, model.targets_, network)
    judged = calibration if memory is None else memory.calibration
    loaded = Model.of(model.inputs_, model.targets_, network, model.n_rows_, config["history"], judged)
    model.model_ = replace(loaded, example=config.get("example"), memory=memory)
    return model


def _memory(
    config: dict[str, Any], tensors: dict[str, Tensor], before: Calibration, targets: Targets, network: Network
) -> Memory | None:
    """Return what the model keeps of rows that it learned from after training."""
    said = config.get("memory")
    members = members_of(network)
    if (said is None) != (members[0].feedback is None):
        raise _damaged("its tensors and config.json differ in whether it has learned after training")
    if said is None:
        return None
    arrays = {name: tensors[f"memory.{name}"].numpy() for name in ARRAYS if f"memory.{name}" in tensors}
    size = len(arrays["keys"])
    shapes = {name: values.shape for name, values in arrays.items()}
    wanted: dict[str, tuple[int, ...]] = dict.fromkeys(ARRAYS, (size,)) | {
        "features": (size, len(members), members[0].density.dim)
    }
    wanted["raw"] = (size, len(members), network.family.n_statistics)
    wanted["groups"] = (size, 0 if before.groups is None else 1 + len(before.groups.places))
    wanted["y"] = (size, *targets.trained_family.support.event_shape)
    for name, shape in shapes.items():
        if shape != wanted[name] or not size:
            raise _damaged(f"the tensor memory.{name}: expected shape {wanted[name]}, got {shape}")
    if ("scores" in arrays) != (before.scores is not None) or not (arrays["weight"] > 0).all():
        raise _damaged("memory: its scores or weights are not those of rows that were learned")
    _whole("the number of rows in memory", said["n_rows"])
    total = said["total"]
    if not isinstance(total, (int, float)) or not 0 < total < _LARGEST:
        raise _wrong("how often rows in memory count", total, "a positive number")
    return Memory(before, said["n_rows"], float(total), **arrays)


def _bring_up_to_date(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Translate a model of an earlier schema to the current one, in place.

    Before schema 4 no groups were left out; before schema 3 the default encoder for tables had LeakyReLU, and the onset
    of the evidence's fall was 0.2; before schema 2 evidence fell by a slope, the prior was the paper's, and events
    counted once.
    """
    for name in [name for name in tensors if name.endswith("budget.power")]:
        tensors[name.removesuffix("power") + "rise"] = torch.tensor(0.0)
    if config["schema"] > 2:
        return
    config["activation"] = "leaky_relu"
    config["n_networks"] = config["parameters"]["ensemble_size"]
    for name in [name for name in tensors if name.endswith("budget.power")]:
        tensors[name.removesuffix("power") + "onset"] = torch.tensor(0.2)
        tensors[name.removesuffix("power") + "prior"] = torch.tensor(1e30)  # so large that it has no effect
    if config["schema"] > 1:
        return
    parameters = config["parameters"]
    if parameters["scheme"] != "paper" and parameters["budget"] == "auto":
        parameters["budget"] = "learned"
    if parameters["prior"] is None:
        parameters["prior"] = "paper"
    if config["inputs"]["kind"] == "table" and parameters["scheme"] != "paper":
        for name in [name for name in tensors if name.endswith(".density.scale") and "density.density" not in name]:
            tensors[name.removesuffix("scale") + "weight"] = torch.ones(())


def _unplain(name: str, value: dict[str, Any], encoder: nn.Module | None) -> Any:
    if "family" in value:
        return families.get(value["family"]["name"], **value["family"]["parameters"])
    if "prior" in value:
        return tuple(value["prior"])
    if encoder is None:
        raise ValueError(
            f"The model was fitted with an encoder of its own, a {value['module']}: give it, as in "
            "load(directory, encoder=…)"
        )
    return encoder


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
    example = config.get("example")
    if example is not None and not (isinstance(example, list) and len(example) == config["n_features_in"]):
        raise _wrong("example", example, "a value for each column")
    for value in example or []:
        if value is not None and not isinstance(value, (str, int, float)):
            raise _wrong("example", value, "texts, numbers, truth values or null")
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
    texture = not any(name.endswith("bypass.components") for name in state)
    learned = any("feedback." in name for name in state)
    if not texture and model.encoder == "auto" and len(model.inputs_.encoder_shape) == 3:
        model.encoder = "image"  # the default for pictures, before their densities saw the texture
    with _Bounded(_GROWTH * sum(t.numel() for t in state.values()) + _FREE):
        network = model._build(n_rows, 0, size, activation, _knots(state), texture)
        for member in members_of(network) if learned else []:
            member.feedback = Feedback(member.density.dim, model.family_.n_statistics)
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
        return prod(np.broadcast_shapes(*shapes))  # torch's imports sympy, which takes a second
    except ValueError:  # as of a matrix product
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
        if not calibration and name != "memory.groups" and not tensor.numel():
            raise _damaged(f"the tensor {name} is empty")
        # Held-out rows may have had no evidence at all, that is -inf; nothing else has a reason to be infinite.
        bad = tensor.isnan() if calibration or name in _MAY_BE_INFINITE else ~tensor.isfinite()
        if bool(bad.any()):
            raise _damaged(f"the tensor {name} has {int(bad.sum())} numbers that are NaN or infinite")


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
        if targets.usual is not None:
            _check_numbers("the usual targets", np.array(targets.usual), (2,))
        shape = (prod(targets.family.support.event_shape),)
        _check_numbers("the location of targets", targets.location, shape)
        _check_numbers("the scale of targets", targets.scale, shape, positive=True)
        if targets.exposure is not None:
            targets.family.check_exposure()
            _check_numbers("the mean exposure", np.array([targets.exposure.mean]), (1,), positive=True)
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
