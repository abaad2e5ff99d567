"""The rows of `NatPN (paper)` on a table with another learning rate than the one that validation chose.

    NATPN_DATA=... python benchmarks/paper_rate.py bike-sharing-poisson 1e-3 [--seeds 5]

It prints the scores of each seed, then their means and standard errors. `docs/results.md` quotes them where the
likelihood of validation rows and the paper's scores ask for different rates.
"""

import argparse
from dataclasses import replace

import numpy as np
import torch

from natpn_paper.experiments.base import Run
from natpn_paper.experiments.grid import PARTS
from natpn_paper.experiments.scoring import score
from natpn_paper.experiments.table_rows import fitted


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", choices=tuple(PARTS))
    parser.add_argument("rate", type=float)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    training = PARTS[given.data]
    setting = replace(training.setting_of(given.data), learning_rate=given.rate)
    rows = []
    for seed in range(given.seeds):
        run = Run("paper-rate", given.data, "NatPN (paper)", seed)
        target, data = training.load(run)
        rows.append(score(fitted(run, target, data, setting), data, {}))
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        print(f"{name} {values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}")


if __name__ == "__main__":
    main()
