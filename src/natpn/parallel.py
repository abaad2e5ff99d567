"""Devices, precision and ranks: the only module that knows of `torch.distributed`.

Started by `torchrun`, every process calls `start()` and works on its share of the rows; the sums below then run over
all processes. In a single process all of it does nothing, so callers need not check.
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

Precision = Literal["float32", "bfloat16"]
T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)


JOIN_SECONDS = "NATPN_JOIN_SECONDS"
_JOIN = 60.0
# One process may have much to do while the others wait for it, as where the first writes a checkpoint.
_TOGETHER = timedelta(minutes=30)


def start(device: torch.device) -> None:
    """Join the other processes if `torchrun` started this one and it has not joined yet.

    All have to join within 60 s, or within the seconds that the environment variable NATPN_JOIN_SECONDS gives. After
    that, whatever they do together fails if one of them is missing for 30 minutes.

    Raises:
        TimeoutError: If a process does not join in time.
        ValueError: If an environment variable is missing or wrong.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    if not size.isdigit():
        raise ValueError(f"WORLD_SIZE: expected the number of processes, got {size!r}; unset it to work alone")
    if int(size) == 1 or dist.is_initialized():
        return
    limit = _join_seconds()
    try:
        store, rank, world = next(rendezvous("env://", timeout=limit))
        store.set(f"natpn/{rank}", "here")
        store.wait([f"natpn/{other}" for other in range(world)], limit)
    except RuntimeError:  # torch's own, for a store that is not there or a key that does not come
        raise TimeoutError(
            f"WORLD_SIZE: expected {size} processes, but some did not come within {limit.total_seconds():g} s; start "
            f"all of them, as torchrun does, with the same MASTER_ADDR and MASTER_PORT, set {JOIN_SECONDS} to wait "
            "longer, or unset WORLD_SIZE to work alone"
        ) from None
    store.set_timeout(_TOGETHER)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=_TOGETHER)


def _join_seconds() -> timedelta:
    given = os.environ.get(JOIN_SECONDS, str(_JOIN))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise ValueError(f"{JOIN_SECONDS}: expected seconds up to a day, such as 60, got {given!r}")
    return timedelta(seconds=seconds)


def stop() -> None:
    """Leave the other processes, if this one has joined any."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def world_size() -> int:
    """Return how many processes work together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def choose_device(name: str | torch.device | None, module: nn.Module) -> torch.device:
    """Return the device to work on.

    Args:
        name: A device, "auto" for this process's GPU if there is one, or None for where the module is.
        module: The module that will work there.

    Raises:
        ValueError: If there is no such device.
    """
    if name is None:
        tensor = next(module.parameters(), None)
        return torch.device("cpu") if tensor is None else tensor.device
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"device: expected 'auto', 'cpu', 'cuda' or 'cuda:<number>', got {name!r}; use 'auto' if in doubt"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: {name!r} was asked for, but torch sees no GPU here; use 'auto' or 'cpu'")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(
            f"device: {name!r} was asked for, but torch sees {count} GPUs here, counted from 0; use 'auto' or "
            "a smaller number"
        )
    try:
        torch.zeros(1, device=device).item()  # fails for "meta", which has no numbers, and for what is not there
    except (RuntimeError, AssertionError, ImportError):
        raise ValueError(f"device: {name!r} was asked for, but torch cannot use it here; use 'auto' or 'cpu'") from None
    return device


@contextlib.contextmanager
def autocast(device: torch.device, precision: Precision) -> Iterator[None]:
    """Run matrix products in bfloat16 if asked to; code that needs full precision casts back by itself."""
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision: expected 'float32' or 'bfloat16', got {precision!r}")
    if precision == "float32":
        yield
        return
    with torch.autocast(device.type, torch.bfloat16):
        yield


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's own random numbers inside the block and restore them after it."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


def random_state(device: torch.device) -> list[Tensor]:
    """Return the state of torch's own random numbers."""
    state = [torch.get_rng_state()]
    return [*state, torch.cuda.get_rng_state(device)] if device.type == "cuda" else state


def set_random_state(state: list[Tensor], device: torch.device) -> None:
    """Continue from a state that `random_state` returned."""
    torch.set_rng_state(state[0].cpu())
    if device.type == "cuda" and len(state) > 1:
        torch.cuda.set_rng_state(state[1].cpu(), device)


def share(rows: Tensor) -> Tensor:
    """Return this process's part of rows that all processes hold: every world-size-th."""
    return rows[rank() :: world_size()]


def total(summed: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes, without gradients."""
    if world_size() == 1:
        return summed
    result = summed.detach().clone().contiguous()
    dist.all_reduce(result)
    return result


def mean(values: Tensor) -> Tensor:
    """Return the mean of a tensor over all processes, without gradients."""
    return total(values) / world_size()


def differentiable_total(summed: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes; gradients flow back to all of them."""
    if world_size() == 1:
        return summed
    result: Tensor = _Total.apply(summed)  # type: ignore[no-untyped-call]
    return result


class _Total(torch.autograd.Function):
    """A sum over processes; every process's loss depends on it, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, summed: Tensor) -> Tensor:
        return total(summed)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return total(gradient)


def gather_rows(rows: Tensor) -> Tensor:
    """Return the rows of all processes, taken in turn: what `share` divided comes back in order.

    Processes may hold different numbers of rows.
    """
    if world_size() == 1:
        return rows
    counts = torch.zeros(world_size(), dtype=torch.long, device=rows.device)
    counts[rank()] = len(rows)
    lengths = [int(n) for n in total(counts)]
    padded = rows.new_zeros(max(lengths), *rows.shape[1:])
    padded[: len(rows)] = rows.detach()
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)
    real = torch.arange(max(lengths), device=rows.device)[:, None] < torch.tensor(lengths, device=rows.device)
    return torch.stack(parts, 1)[real]


def gather_objects(own: T) -> list[T]:
    """Return what every process gives, in the order of their numbers."""
    if world_size() == 1:
        return [own]
    found: list[Any] = [None] * world_size()
    dist.all_gather_object(found, own)
    return found


def synchronise(module: nn.Module) -> None:
    """Give every process the parameters and buffers of the first."""
    if world_size() > 1:
        for tensor in module.state_dict(keep_vars=True).values():
            dist.broadcast(tensor.data, 0)


def wait() -> None:
    """Wait until every process has come this far."""
    if world_size() > 1:
        dist.barrier()


def distributed(module: M, device: torch.device) -> M | nn.parallel.DistributedDataParallel:
    """Return the module with its gradients averaged over processes; only parameters that require them take part."""
    if world_size() == 1:
        return module
    devices = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(module, device_ids=devices)
