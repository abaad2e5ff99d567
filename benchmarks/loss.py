"""The cost of accuracy: the Bayesian loss, forward and backward, in turns with the textbook formulas.

python benchmarks/loss.py [--batch 4096] [--classes 10] [--threads 1]
"""

import argparse
import statistics
import time

import torch
from torch import Tensor

from natpn import families


def plain(prior: Tensor, chi: Tensor, log_n: Tensor, y: Tensor) -> Tensor:
    """Return the loss by the textbook's formula, with lgamma and digamma, in the precision of the inputs."""
    alpha = prior + log_n.exp().unsqueeze(-1) * chi
    total = alpha.sum(-1)
    expected = torch.digamma(alpha.gather(-1, y.unsqueeze(-1)).squeeze(-1)) - torch.digamma(total)
    entropy = (
        torch.lgamma(alpha).sum(-1)
        - torch.lgamma(total)
        + (total - alpha.shape[-1]) * torch.digamma(total)
        - ((alpha - 1) * torch.digamma(alpha)).sum(-1)
    )
    return -(expected + 1e-5 * entropy).mean()


def measure(batch: int, classes: int, repeats: int = 60) -> tuple[float, float]:
    """Return the median seconds of the textbook's and of our loss, measured in turns."""
    torch.manual_seed(0)
    family = families.get("categorical", n_classes=classes)
    prior = family.prior()
    raw = torch.randn(batch, classes, requires_grad=True)
    log_n = (3 * torch.randn(batch)).requires_grad_()
    y = torch.randint(classes, (batch,))

    def exact() -> Tensor:
        posterior = family.posterior(prior + family.evidence(raw.softmax(-1), log_n))
        return -(posterior.expected_log_likelihood(y) + 1e-5 * posterior.entropy()).mean()

    losses = {"plain": lambda: plain(torch.ones(classes), raw.softmax(-1), log_n, y), "exact": exact}
    times: dict[str, list[float]] = {name: [] for name in losses}
    for _ in range(repeats):
        for name, loss in losses.items():
            start = time.perf_counter()
            loss().backward()
            times[name].append(time.perf_counter() - start)
            raw.grad = log_n.grad = None
    return statistics.median(times["plain"][5:]), statistics.median(times["exact"][5:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    plainly, exactly = measure(arguments.batch, arguments.classes)
    print(f"batch {arguments.batch}, {arguments.classes} classes, {arguments.threads} thread(s), forward + backward:")
    print(f"plain formulas in float32  {1e3 * plainly:6.2f} ms")
    print(f"natpn                      {1e3 * exactly:6.2f} ms, {exactly / plainly:.2f} times")


if __name__ == "__main__":
    main()
