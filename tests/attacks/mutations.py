"""Saved models with one field of `config.json` changed and signed anew: what loading makes of each.

`run` is for a process of its own, whose memory can be watched. It reads FOLDER/model and FOLDER/X.json, and prints a
line of JSON for every change, then the growth of its memory. The extent is "quick" (fields are removed, and numbers get
a few values), "all" (every field gets every value), or the path of another model's `config.json`: a value of each kind
for the fields that it lacks or has with another type, and one for the numbers among the rest.
"""

import copy
import json
import math
import resource
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import natpn
from natpn.model.files import checksum

HUGE = 10**12
QUICK: list[Any] = [HUGE, -1, math.nan]
SOME: list[Any] = [*QUICK, "x", None, []]
ALL: list[Any] = [HUGE, 10**400, -1, 0, 1e308, math.nan, math.inf, "x", "9" * 40, None, True, [], {}, [1e308] * 3]
REMOVED = object()


def sign(place: Path, config: dict[str, Any]) -> None:
    """Write a configuration with the right checksum."""
    plain = {key: value for key, value in config.items() if key != "sha256"}
    (place / "config.json").write_text(json.dumps({**plain, "sha256": checksum(plain)}))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every value is; of a list the first two and the last stand for all."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*path, key))
    if isinstance(value, list):
        for place in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield from paths(value[place], (*path, place))


def changed(config: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the configuration with a value replaced or taken away."""
    config = copy.deepcopy(config)
    holder = config
    for key in path[:-1]:
        holder = holder[key]
    if value is REMOVED:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return config


def fields(config: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield where every value is, and the value."""
    for path in paths(config):
        value: Any = config
        for key in path:
            value = value[key]
        yield path, value


def mutations(config: dict[str, Any], extent: str) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield what to change, and to what."""
    known: set[Any] = set()
    if extent not in ("quick", "all"):
        known = {(path, type(value)) for path, value in fields(json.loads(Path(extent).read_text()))}
    for path, old in fields(config):
        if path[0] in ("sha256", "tensors_sha256"):
            continue
        everything = extent != "quick" and (path, type(old)) not in known
        number = isinstance(old, (int, float)) and not isinstance(old, bool)
        if everything or (extent == "quick" and isinstance(path[-1], str)):
            yield path, REMOVED
        many, few = (ALL if extent == "all" else SOME), (QUICK if extent == "quick" else QUICK[:1])
        for value in many if everything else few if number else []:
            yield path, value


def outcome(place: Path, X: Any) -> tuple[str, str]:
    """Load and predict: "refused" with the message, "answered", or "wrong" with what is."""
    try:
        model = natpn.load(place)
    except ValueError as error:
        text = str(error)
        return ("wrong", text) if "alloc" in text.lower() or "memory" in text.lower() else ("refused", text)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    try:
        with np.errstate(all="ignore"):
            distribution = model.predict_dist(X)
            found = [distribution.familiarity, distribution.novelty_p]
            found.append(model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X))
    except ValueError as error:
        return "refused", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__} in predict: {error}"
    return ("answered", "") if all(np.isfinite(part).all() for part in found) else ("wrong", "not finite")


def run(folder: Path, extent: str) -> None:
    """Print what becomes of every change."""
    warnings.simplefilter("ignore")
    place = folder / "model"
    raw = json.loads((folder / "X.json").read_text())
    X = pd.DataFrame(raw) if isinstance(raw, dict) else np.array(raw)
    config = json.loads((place / "config.json").read_text())
    first = outcome(place, X)
    if first[0] != "answered":
        raise RuntimeError(first[1])
    size = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmSize" in line)
    # What asks for more than 2 GB is told so at once, and the machine stays usable.
    resource.setrlimit(resource.RLIMIT_AS, ((size << 10) + 2**31, resource.RLIM_INFINITY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path, value in mutations(config, extent):
        sign(place, changed(config, path, value))
        start = time.monotonic()
        kind, text = outcome(place, X)
        shown = "removed" if value is REMOVED else f"{value!r:.20}"
        seconds = round(time.monotonic() - start, 3)
        line = {"change": f"{'.'.join(map(str, path))} = {shown}", "kind": kind, "text": text[:300], "seconds": seconds}
        print(json.dumps(line), flush=True)
    sign(place, config)
    print(json.dumps({"megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}))
