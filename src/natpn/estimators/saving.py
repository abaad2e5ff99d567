"""Write models: a directory with `config.json`, `model.safetensors` and a card, and nothing that can run code.

`config.json` holds the schema version, the class, its parameters, what was learned about inputs and targets, and what
is known about the table that the model was fitted on. `README.md` is its card (`natpn.estimators.model_card`).
`natpn.model.files` puts all files in their place.
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

from natpn.encoders import ChainEncoder
from natpn.estimators.model_card import model_card
from natpn.evidence import Evidence
from natpn.families import Family, name_of
from natpn.model import Model
from natpn.model.files import SCHEMA, write
from natpn.model.memory import ARRAYS
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
    write(directory, _config(model) | {"table": table}, save_tensors(_tensors(model.model_)), model_card(model, table))


def _config(estimator: Any) -> dict[str, Any]:
    model: Model = estimator.model_
    return {
        "schema": SCHEMA,
        "natpn": version("natpn"),
        "class": type(estimator).__name__,
        "parameters": {name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()},
        "inputs": {"kind": model.inputs.kind, **model.inputs.to_config()},
        "family": _family(model.family),
        "activation": _activation(model.network),
        "n_networks": len(model.members),
        "n_rows": model.n_rows,
        **({} if model.memory is None else {"memory": {"n_rows": model.memory.n_rows, "total": model.memory.total}}),
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": getattr(estimator, "feature_names_in_", np.array([])).tolist() or None,
        "history": model.history[-1:],
        "example": model.example,
        model.targets.key: model.targets.to_config(),
    }


def _tensors(model: Model) -> dict[str, torch.Tensor]:
    tensors = {f"network.{name}": t.contiguous().cpu() for name, t in model.network.state_dict().items()}
    # Weights were trained in float32 and widened; narrowing them is exact. The prior is wide from the start.
    narrow = {k: t.float() if t.dtype == torch.float64 and "prior" not in k else t for k, t in tensors.items()}
    tensors = {k: n if torch.equal(n.to(tensors[k].dtype), tensors[k]) else tensors[k] for k, n in narrow.items()}
    memory = model.memory
    calibration = model.calibration if memory is None else memory.before
    for name, values in calibration.to_arrays().items():
        tensors[f"calibration.{name}"] = torch.from_numpy(np.ascontiguousarray(values))
    for name in () if memory is None else ARRAYS:
        kept = getattr(memory, name)
        if kept is not None:
            tensors[f"memory.{name}"] = torch.from_numpy(np.ascontiguousarray(kept))
    return tensors


def _activation(network: nn.Module) -> str:
    """Return the activation of the encoder for tables; the current default if there is no such encoder."""
    found = (module.activation for module in network.modules() if isinstance(module, ChainEncoder))
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
        return type(value).__name__.lower()  # the name is enough: a loaded model is not trained again
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
