"""How many files of the library each usual call passes through, and how deeply its calls are nested.

    python tools/trace.py

A file counts if one of its functions is called; imports do not count.
"""

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
from click.testing import CliRunner
from fastapi.testclient import TestClient

import natpn
from natpn.cli.commands import cli
from natpn.serve import create_app

OURS = str(Path(natpn.__file__).parent)


class Tracer:
    """Sees every call of a function of the library, in all threads that start after it."""

    def __init__(self) -> None:
        self.clear()
        threading.setprofile(self)
        sys.setprofile(self)

    def clear(self) -> None:
        """Start again."""
        self.files: set[str] = set()
        self.deepest = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Look at one call."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(OURS) or code.co_name == "<module>":
            return
        self.files.add(code.co_filename)
        depth, above = 0, frame
        while above is not None:
            depth += above.f_code.co_filename.startswith(OURS)
            above = above.f_back
        self.deepest = max(self.deepest, depth)

    def tell(self, name: str) -> None:
        """Print the counts, and start again."""
        print(f"{name:24}{len(self.files):4} files,{self.deepest:3} calls deep")
        self.clear()


def trace() -> None:
    """Print a line for each call."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.uniform(30, 150, 120), "district": rng.choice(["hills", "harbour"], 120)})
    rent = 200 + 9 * frame["area"] + rng.normal(size=120)
    tracer = Tracer()
    model = natpn.NatPNRegressor(max_epochs=2, random_state=0).fit(frame, rent)
    tracer.tell("fit(frame, y)")
    model.predict_frame(frame)
    tracer.tell("predict_frame(frame)")
    with TestClient(create_app(model), "http://localhost") as client:
        tracer.clear()
        client.post("/predict", json={"area": 80.0, "district": "hills"}).raise_for_status()
        tracer.tell("POST /predict")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "rents.csv")
        frame.assign(rent=rent).to_csv(path, index=False)
        tracer.clear()
        options = ["--target", "rent", "--out", str(Path(place, "model")), "--max-epochs", "2"]
        CliRunner().invoke(cli, ["fit", str(path), *options], catch_exceptions=False)
        tracer.tell("natpn fit")


if __name__ == "__main__":
    trace()
