"""Reading models that were written by `natpn.estimators.saving`."""

from os import PathLike
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import nn

from natpn import families
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.checking import build_network, check_config
from natpn.estimators.classifier import NatPNClassifier
from natpn.estimators.regressor import NatPNRegressor
from natpn.model import Calibration, Labels, Model, Units
from natpn.model.files import SCHEMA, read
from natpn.model.inputs import KINDS

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
    return load_with_table(directory, encoder)[0]


def load_with_table(
    directory: str | PathLike[str], encoder: nn.Module | None = None
) -> tuple[NatPNEstimator, dict[str, Any] | None]:
    """Read a model, and what was written with it about the table that it was fitted on."""
    config, content = read(directory)
    try:
        return _rebuild(config, load_tensors(content), encoder), config["table"]
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"{directory}: the model cannot be read, {type(error).__name__}: {error}") from error


def _rebuild(config: dict[str, Any], tensors: dict[str, torch.Tensor], encoder: nn.Module | None) -> NatPNEstimator:
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
    scores = tensors.get("calibration.scores")
    calibration = Calibration(tensors["calibration.log_evidence"].numpy(), None if scores is None else scores.numpy())
    model.model_ = Model.of(model.inputs_, model.targets_, network, model.n_rows_, config["history"], calibration)
    return model


def _bring_up_to_date(config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
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
