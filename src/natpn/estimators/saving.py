"""Writing models: a directory with `config.json` and `model.safetensors`, and nothing that can run code.

`config.json` holds the schema version, the class, its parameters, what was learned about inputs and targets, and what
is known about the table that the model was fitted on. `natpn.estimators.placing` puts both files in their place.
"""

import os
from dataclasses import fields
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from sklearn.utils.validation import check_is_fitted
from torch import nn

from natpn.encoders import TabularEncoder
from natpn.estimators.placing import SCHEMA, write
from natpn.evidence import Evidence
from natpn.families import Family, name_of
from natpn.network.default import ACTIVATION
from natpn.training import Scheme


def save(model: Any, directory: str | PathLike[str], table: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a directory; a model that is there is replaced, and whatever else is there stays.

    Args:
        model: The model.
        directory: The directory.
        table: What is known about the table that the model was fitted on, as JSON can hold it.

    Raises:
        ValueError: If the directory holds something else and no model, or the model has parts that cannot be written.
        OSError: If it cannot be written; what was there stays.
    """
    check_is_fitted(model)
    write(directory, _config(model) | {"table": table}, save_tensors(_tensors(model)))


def _config(model: Any) -> dict[str, Any]:
    config = {
        "schema": SCHEMA,
        "natpn": version("natpn"),
        "class": type(model).__name__,
        "parameters": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "inputs": {"kind": model.inputs_.kind, **model.inputs_.to_config()},
        "family": _family(model.family_),
        "activation": _activation(model.network_),
        "n_networks": model.n_networks_,
        "n_rows": model.n_rows_,
        "n_features_in": model.n_features_in_,
        "feature_names_in": getattr(model, "feature_names_in_", np.array([])).tolist() or None,
        "history": model.history_[-1:],
    }
    if hasattr(model, "units_"):
        config["units"] = model.units_.to_config()
    if hasattr(model, "classes_"):
        kind = model.classes_.dtype
        config["classes"] = {"dtype": kind.str if kind.kind != "O" else "object", "labels": model.classes_.tolist()}
        if any(not isinstance(label, (str, int, float, bool)) for label in model.classes_.tolist()):
            raise ValueError("The labels cannot be written: expected texts, numbers or booleans")
    return config


def _tensors(model: Any) -> dict[str, torch.Tensor]:
    tensors = {f"network.{name}": t.contiguous().cpu() for name, t in model.network_.state_dict().items()}
    # Weights were trained in float32 and widened; narrowing them is exact. The prior is wide from the start.
    narrow = {k: t.float() if t.dtype == torch.float64 and "prior" not in k else t for k, t in tensors.items()}
    tensors = {k: n if torch.equal(n.to(tensors[k].dtype), tensors[k]) else tensors[k] for k, n in narrow.items()}
    tensors["calibration.log_evidence"] = torch.from_numpy(model.calibration_.log_evidence)
    if model.calibration_.scores is not None:
        tensors["calibration.scores"] = torch.from_numpy(model.calibration_.scores)
    return tensors


def _activation(network: nn.Module) -> str:
    """Return the activation of a network's tables; of one that is not for tables, today's."""
    found = (module.activation for module in network.modules() if isinstance(module, TabularEncoder))
    return next(found, ACTIVATION)


def _family(family: Family) -> dict[str, Any]:
    chosen = [f.name for f in fields(family) if f.init]  # type: ignore[arg-type]
    return {"name": name_of(family), "parameters": {parameter: getattr(family, parameter) for parameter in chosen}}


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if name == "encoder" and not isinstance(value, str):
        return {"module": type(value).__name__ if isinstance(value, nn.Module) else "function"}
    if isinstance(value, nn.Module):
        raise ValueError(f"{name}: a density that was given as a module cannot be saved; name it instead")
    if isinstance(value, Scheme):
        return type(value).__name__.lower()  # how it was trained; a model that is loaded is not trained again
    if isinstance(value, Family):
        return {"family": _family(value)}
    if isinstance(value, Evidence):
        return {"prior": [value.chi.tolist(), float(value.log_n.exp())]}
    if isinstance(value, tuple) and name == "prior":
        return {"prior": [np.asarray(value[0], float).tolist(), float(value[1])]}
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value
