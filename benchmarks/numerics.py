"""How accurate the families are: the largest error against mpmath over everything that a network can produce.

    python benchmarks/numerics.py [FAMILY ...]

Prints the table of docs/numerics.md. The error of a value v is |ours − v|/(1 + |v|); v is of prior + evidence, for
log n from −80 to 80, class probabilities down to 10⁻³⁰, means up to 10⁶ with variances down to 10⁻⁶, and rates from
10⁻⁸ to 10⁸.
"""

import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from families.accuracy import QUANTITIES, compare, grid
from families.references import REFERENCES


def main() -> None:
    names = sys.argv[1:] or list(REFERENCES)
    short = ("E[log p]", "entropy", "predictive")
    print("| family | points | " + " | ".join(f"{q}, {p}" for p in ("float32", "float64") for q in short) + " |")
    print("|---|---|" + "---|" * 6)
    start = time.perf_counter()
    for name in names:
        cells, points = [], 0
        for dtype in (torch.float32, torch.float64):
            worst = dict.fromkeys(QUANTITIES, 0.0)
            points = 0
            for reference in REFERENCES[name]:
                for point in compare(reference, *grid(reference, dtype)):
                    worst[point.quantity] = max(worst[point.quantity], point.error)
                    points += point.quantity == QUANTITIES[0]
            cells += [f"{worst[q]:.0e}" for q in QUANTITIES]
        print(f"| `{name}` | {points:,} | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s, torch {torch.__version__}")


if __name__ == "__main__":
    main()
