"""One run of training: what was asked for, what happened, and how to go on after a crash.

A run is a list of phases. After each epoch, and after each phase, all that is needed to go on is written to
`checkpoint_dir`; a kill at any moment leaves a file that is whole, and a file that is no checkpoint is not replaced.
It holds plain tensors, numbers and strings, and is read with `weights_only=True`: nothing in it can run code.
"""

import json
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from natpn import parallel
from natpn.outputs import Kind, check_file, replacing
from natpn.training.data import Source

FILE = "training.pt"


def _is_checkpoint(file: IO[bytes]) -> bool:
    """Say by the names of its parts whether a file is a checkpoint, without unpacking it."""
    try:
        with zipfile.ZipFile(file) as archive:
            index = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            content = archive.read(index)
    except (zipfile.BadZipFile, StopIteration, OSError, EOFError, NotImplementedError):
        return False
    return all(name in content for name in (b"network", b"history", b"finished", b"running"))


CHECKPOINT = Kind("a checkpoint that natpn wrote", _is_checkpoint)


class TrainingError(RuntimeError):
    """Training cannot go on; the network holds the best state so far."""


@dataclass(frozen=True)
class TrainingResult:
    """What came of a run.

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
    train: Source
    validation: Source
    device: torch.device
    seed: int
    precision: parallel.Precision
    directory: Path | None
    fingerprint: str
    progress: bool
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    running: dict[str, Any] | None = None
    started: float = field(default_factory=time.perf_counter)

    def resume(self) -> None:
        """Go on from the checkpoint, if there is one.

        Raises:
            ValueError: If it belongs to another run, or is no checkpoint.
        """
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / FILE
        if not path.exists():
            return
        check_file(path, CHECKPOINT)
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"checkpoint_dir: {self.directory} holds a run with other settings or data "
                f"({state['fingerprint']}, now {self.fingerprint}); choose an empty directory, or "
                f"delete {path} to start again"
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
                "fingerprint": self.fingerprint,
                "network": self.network.state_dict(),
                "history": self.history,
                "finished": self.finished,
                "running": running,
            }
            with replacing(self.directory / FILE, CHECKPOINT) as file:
                torch.save(state, file)
        parallel.wait()

    def result(self) -> TrainingResult:
        """Return what came of it."""
        losses = [entry["best"] for entry in self.history if "best" in entry]
        return TrainingResult(self.history, time.perf_counter() - self.started, losses[-1] if losses else float("nan"))


def fingerprint(**settings: Any) -> str:
    """Return settings as a line of text, to compare runs by."""
    return json.dumps(settings, sort_keys=True, default=str)
