"""Orthogonal steps for the kernels of pictures against Adam for all, at the same number of steps.

    NATPN_DATA=... OMP_NUM_THREADS=1 python benchmarks/steps.py cifar10-left-out [mnist fmnist]

Each fit has half the default's width, and 20,000 training pictures and five epochs unless --rows and --epochs say
otherwise: some five minutes of a core for CIFAR-10. Scores are of all test pictures; a rate is that of the kernels, in
learning rates of the other parameters. With --float32, convolutions do not run in bfloat16 where that is faster.
"""

import argparse
import time
from functools import partial
from unittest import mock

import torch

from natpn import NatPNClassifier, encoders, metrics
from natpn.training import descent, orthogonal
from natpn_paper import datasets

RATES = (0.0, 12.0, 24.0, 48.0)  # 0: Adam


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="+", choices=("cifar10-left-out", "cifar10", "mnist", "fmnist"))
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--float32", action="store_true")
    arguments = parser.parse_args()
    rows = arguments.rows
    torch.set_num_threads(1)
    print("| data | rate of kernels | accuracy | negative log-likelihood | CPU seconds |\n|---|---|---|---|---|")
    for data in arguments.data:
        splits = datasets.load(data, seed=0)
        (X, y), (X_val, y_val), (X_test, y_test) = splits.train, splits.validation, splits.test
        width = 32 if X.shape[1] == 3 else 16
        sizes = {"shape": X.shape[1:], "latent_dim": 16, "width": width}
        encoder = partial(encoders.get, "resnet9", **sizes, half_precision=not arguments.float32)
        for rate in arguments.rates:
            kernels = orthogonal.scale_free_kernels if rate else lambda _: []
            start = time.process_time()
            with (
                mock.patch.object(orthogonal, "TIMES", rate),
                mock.patch.object(descent, "scale_free_kernels", kernels),
            ):
                model = NatPNClassifier(encoder=encoder, latent_dim=16, max_epochs=arguments.epochs, random_state=0)
                model.fit(X[:rows], y[:rows], X_val=X_val[: rows // 4], y_val=y_val[: rows // 4])
            seconds = time.process_time() - start
            found = model.predict_dist(X_test)
            accuracy = 100 * (model.predict(X_test) == y_test).mean()
            likelihood = metrics.negative_log_likelihood(found.log_prob(y_test))
            name = f"{rate:g}" if rate else "Adam"
            print(f"| {data} | {name} | {accuracy:.1f} | {likelihood:.3f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
