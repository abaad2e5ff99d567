"""One run of training: what was asked for, what happened, and how to go on after a crash.

A run is a list of phases. After each epoch, and after each phase, all that is needed to go on is written to
`checkpoint_dir`; a kill at any moment leaves a file that is whole. It holds plain tensors, numbers and strings, and
is read with `weights_only=True`: nothing in it can run code. It starts with a mark and a hash of the rest, and names
the run by all that decides its result: a file that is damaged, of another run, or no checkpoint is refused and not
replaced.
"""

import hashlib
import io
import json
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from natpn import parallel
from natpn.families import Family
from natpn.outputs import Kind, replacing
from natpn.training.batches import Data, RowSource, digest, fingerprint

FILE = "training.pt"
_FORM = 3  # of what checkpoints hold: one of another form is another run's
_MARK = b"natpn checkpoint\n"


CHECKPOINT = Kind("a checkpoint that natpn wrote", lambda file: file.read(len(_MARK)) == _MARK)


class TrainingError(RuntimeError):
    """Training cannot continue; the network holds the best state so far."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run.

    Attributes:
        history: One entry an epoch: phase, epoch, loss, validation_loss and whatever else the phase reports.
        seconds: Time it took, of this process since it was (re)started.
        validation_loss: The best validation loss of the last phase that had one.
    """

    history: list[dict[str, Any]]
    seconds: float
    validation_loss: float


@dataclass
class Session:
    """The common part of a run, handed from phase to phase."""

    network: nn.Module
    train: RowSource
    validation: RowSource
    device: torch.device
    seed: int
    precision: parallel.Precision
    directory: Path | None
    identity: dict[str, str]
    progress: bool
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    running: dict[str, Any] | None = None
    started: float = field(default_factory=time.perf_counter)

    def resume(self) -> None:
        """Go on from the checkpoint, if there is one; raise if it is damaged, of another run, or no checkpoint."""
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / FILE
        if not path.exists():
            return
        state = self._read(path)
        # Of a loader every process has another share, so only the first one compares.
        other = [part for part, value in self.identity.items() if state["identity"].get(part) != value]
        if other and parallel.rank() == 0:
            raise ValueError(
                f"checkpoint_dir: expected a run like this one, got {path} of a run with other {', '.join(other)}; "
                "choose an empty directory, or delete the file to start again"
            )
        self.network.load_state_dict(state["network"])
        self.history, self.finished, self.running = state["history"], state["finished"], state["running"]

    def is_finished(self, phase: str) -> bool:
        """Say whether a phase is done, so that its result is in the network."""
        return phase in self.finished

    def take_running(self, phase: str) -> dict[str, Any] | None:
        """Return the state in which a phase was interrupted, if it was."""
        state, self.running = self.running, None
        return state if state is not None and state["phase"] == phase else None

    def finish(self, phase: str) -> None:
        """Mark a phase as done and write it down."""
        self.finished.append(phase)
        self.save(None)

    def save(self, running: dict[str, Any] | None) -> None:
        """Write a checkpoint, with the state of a phase that is running."""
        if self.directory is None:
            return
        if parallel.rank() == 0:
            state = {
                "identity": self.identity,
                "network": self.network.state_dict(),
                "history": self.history,
                "finished": self.finished,
                "running": running,
            }
            content = io.BytesIO()
            torch.save(state, content)
            try:
                with replacing(self.directory / FILE, CHECKPOINT) as file:
                    file.write(_header(content.getbuffer()))
                    file.write(content.getbuffer())
            except OSError as error:
                # What is trained is worth more than the checkpoint, and the last one is still there.
                warnings.warn(
                    f"checkpoint_dir: {self.directory} cannot be written to ({error.strerror or error}); training goes "
                    "on, but after a crash it would start from the last checkpoint that could be written",
                    stacklevel=2,
                )
        parallel.wait()

    def _read(self, path: Path) -> dict[str, Any]:
        content = path.read_bytes()
        mark, _, payload = content.partition(b"\n\n")
        if mark + b"\n\n" != _header(payload):
            raise ValueError(
                f"checkpoint_dir: expected a whole checkpoint, got {path}, which is damaged or was not written by this "
                "version of natpn; delete the file to start again, or choose an empty directory"
            )
        state: dict[str, Any] = torch.load(io.BytesIO(payload), map_location=self.device, weights_only=True)
        return state

    def result(self) -> TrainingResult:
        """Return the result of the run so far."""
        losses = [entry["best"] for entry in self.history if "best" in entry]
        return TrainingResult(self.history, time.perf_counter() - self.started, losses[-1] if losses else float("nan"))


def identify(network: nn.Module, train: Data, validation: Data | Tensor, **settings: Any) -> dict[str, str]:
    """Return all that decides the result of a run, part by part: the network before training, data and settings."""
    built = [
        (name, key, repr(value))
        for name, module in network.named_modules()
        for key, value in sorted(vars(module).items())
        if isinstance(value, (int, float, str, Family)) and key != "training"
    ]
    # buffers that are not part of the state decide too, such as inputs that a loss holds
    tensors = {**dict(network.named_buffers()), **network.state_dict()}
    weights = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}
    return {
        "settings": json.dumps({"form": _FORM, **settings}, sort_keys=True, default=str),
        "network": digest([repr(network), json.dumps(built), *weights], weights.values()),
        "training data": fingerprint(train),
        "validation data": fingerprint(validation),
    }


def _header(payload: bytes | memoryview) -> bytes:
    """Return what a checkpoint starts with."""
    return _MARK + hashlib.sha256(payload).hexdigest().encode() + b"\n\n"
