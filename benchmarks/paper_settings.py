"""The row of `NatPN (paper)` on a table with another learning rate or encoder than in the table.

    NATPN_DATA=... python benchmarks/paper_settings.py bike-sharing-poisson --rate 1e-3 --width 64 [--seeds 5]

It prints the scores of each seed, then their means and standard errors. `docs/results.md` quotes them where other
settings than those that held-out rows chose have the paper's scores.
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
    parser.add_argument("--rate", type=float, help="the learning rate; by default that of the table")
    parser.add_argument("--width", type=int, help="of the encoder's layers; by default that of the table")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    training = PARTS[given.data]
    setting = training.setting_of(given.data)
    width, layers = setting.hidden
    setting = replace(setting, learning_rate=given.rate or setting.learning_rate, hidden=(given.width or width, layers))
    rows = []
    for seed in range(given.seeds):
        run = Run("paper-settings", given.data, "NatPN (paper)", seed)
        target, data = training.load(run)
        rows.append(score(fitted(run, target, data, setting), data, {}))
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        print(f"{name} {values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}")


if __name__ == "__main__":
    main()
