"""Time the encoders, forward and backward on one CPU thread, one by one and several under vmap.

Run with ``OMP_NUM_THREADS=1 python benchmarks/encoders.py``.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from natpn.encoders import TabularEncoder, get


def milliseconds(step: Callable[[], object], repeats: int) -> float:
    """Return the median time of a step."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1000 * sorted(times)[len(times) // 2]


def one(encoder: torch.nn.Module, x: Tensor) -> Callable[[], object]:
    def step() -> None:
        encoder.zero_grad(set_to_none=True)
        encoder(x).square().mean().backward()

    return step


def together(encoders: list[TabularEncoder], x: Tensor) -> Callable[[], object]:
    parameters, buffers = stack_module_state(encoders)
    shared = {name: values[0] for name, values in buffers.items()}

    def member(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(encoders[0], (weights, shared), (x,))

    def step() -> None:
        for weight in parameters.values():
            weight.grad = None
        vmap(member, in_dims=(0, None))(parameters, x).square().mean().backward()

    return step


def main() -> None:
    x = torch.randn(512, 16)
    print("tabular, batch 512, 16 features, 3 layers, latent 16: ms for 1, 5 in a loop, 5 under vmap")
    for encoding in ("plain", "piecewise"):
        for hidden in (64, 128):
            members = [TabularEncoder(16, 16, hidden=hidden, encoding=encoding) for _ in range(5)]
            single = milliseconds(one(members[0], x), 200)
            loop = milliseconds(lambda: [one(m, x)() for m in members], 100)  # noqa: B023 (called at once)
            joint = milliseconds(together(members, x), 100)
            print(f"  {encoding:9} hidden {hidden:3}: {single:5.2f} {loop:6.2f} {joint:6.2f}")
    print("images: ms forward and backward, forward alone in evaluation mode")
    for name, shape, batch in (
        ("image", (1, 28, 28), 128),
        ("image", (3, 32, 32), 128),
        ("resnet9", (1, 28, 28), 128),
        ("resnet9", (3, 32, 32), 128),
        ("resnet18", (3, 32, 32), 32),
        ("resnet18", (3, 224, 224), 8),
        ("dense", (3, 120, 160), 4),
    ):
        images = torch.randn(batch, *shape)
        encoder = get(name, shape=shape)
        both = milliseconds(one(encoder, images), 5)
        encoder.eval()
        with torch.inference_mode():
            forward = milliseconds(lambda: encoder(images), 5)  # noqa: B023
        print(f"  {name:8} {shape!s:13} batch {batch:3}: {both:7.1f} {forward:7.1f}")


if __name__ == "__main__":
    main()
