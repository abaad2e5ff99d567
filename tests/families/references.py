"""What every family is judged by: its one function G, naive entropies, scipy's distributions, and points to try.

With ν a fixed reference measure, G(τ, n) = log ∫ exp(τᵀθ − n A(θ)) ν(dθ). Then
log p(y) = log h(y) + G(τ + u(y), n + 1) − G(τ, n) and E[log p(y | θ)] = log h(y) + d/dε G(τ + εu(y), n + ε).
All of it is evaluated by mpmath, with enough digits for its cancellations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import torch
from scipy import special as sp
from scipy import stats

from natpn import families

DIGITS = 130
log2pi = lambda: mp.log(2 * mp.pi)  # noqa: E731 (its value depends on the digits)


@dataclass(frozen=True)
class Reference:
    """One family with its oracle.

    Attributes:
        family: The family, with parameters.
        G: log ∫ exp(τᵀθ − n A(θ)) ν(dθ).
        log_h: The base measure.
        u: Sufficient statistics, uncentred.
        moments: χ as the library holds it → the mean of u.
        entropy: Naive entropy of the posterior given (τ, n).
        predictive: (τ, n) in floats → log-probability of y by scipy.
        parameters: (τ, n, rng, size) → (log-density of draws from the posterior in the entropy's coordinates).
        chis: χ to try, up to the ends of what a network can produce.
        targets: χ → targets to try there.
        ordinary: How many of the first `chis` are within everyday ranges.
    """

    family: families.Family
    G: Callable[[list[Any], Any], Any]
    log_h: Callable[[list[Any]], Any]
    u: Callable[[list[Any]], list[Any]]
    moments: Callable[[list[Any]], list[Any]]
    entropy: Callable[[list[Any], Any], Any]
    predictive: Callable[[list[float], float, list[float]], float]
    parameters: Callable[[list[float], float, np.random.Generator, int], np.ndarray]
    chis: list[list[float]]
    targets: Callable[[list[float]], list[list[float]]]
    ordinary: int = 2

    def tau(self, chi: list[Any], n: Any) -> list[Any]:
        return [n * m for m in self.moments(chi)]

    def update(self, parts: list[tuple[list[Any], Any]]) -> tuple[list[Any], Any]:
        """Return (τ, n) of several (χ, n) together."""
        taus = [self.tau(chi, n) for chi, n in parts]
        return [mp.fsum(column) for column in zip(*taus, strict=True)], mp.fsum(n for _, n in parts)

    def log_predictive(self, tau: list[Any], n: Any, y: list[Any]) -> Any:
        return self.log_h(y) + self.G([t + s for t, s in zip(tau, self.u(y), strict=True)], n + 1) - self.G(tau, n)

    def expected_log_likelihood(self, tau: list[Any], n: Any, y: list[Any]) -> Any:
        u = self.u(y)
        scale = min(mp.mpf(1), n)  # steps small against the evidence
        step = lambda e: self.G([t + e * scale * s for t, s in zip(tau, u, strict=True)], n + e * scale)  # noqa: E731
        return self.log_h(y) + mp.diff(step, 0, h=mp.mpf(10) ** (-DIGITS // 3)) / scale


# ---- classes -------------------------------------------------------------------------------------


def dirichlet_G(tau: list[Any], n: Any) -> Any:
    return mp.fsum(mp.loggamma(t) for t in tau) - mp.loggamma(mp.fsum(tau))


def dirichlet_entropy(alpha: list[Any]) -> Any:
    total = mp.fsum(alpha)
    return (
        dirichlet_G(alpha, None)
        + (total - len(alpha)) * mp.digamma(total)
        - mp.fsum((a - 1) * mp.digamma(a) for a in alpha)
    )


def one_hot(y: list[Any], classes: int) -> list[Any]:
    return [mp.mpf(int(y[0]) == c) for c in range(classes)]


def confident(classes: int, small: float, winner: int = 0) -> list[float]:
    return [1 - (classes - 1) * small if c == winner else small for c in range(classes)]


def categorical(classes: int) -> Reference:
    return Reference(
        family=families.get("categorical", n_classes=classes),
        G=dirichlet_G,
        log_h=lambda y: mp.mpf(0),
        u=lambda y: one_hot(y, classes),
        moments=lambda chi: chi,
        entropy=lambda tau, n: dirichlet_entropy(tau),
        predictive=lambda tau, n, y: math.log(tau[int(y[0])] / sum(tau)),
        parameters=lambda tau, n, rng, size: stats.dirichlet(tau).logpdf(rng.dirichlet(tau, size).T),
        chis=[
            confident(classes, 1 / classes),
            confident(classes, 0.03, classes - 1),
            confident(classes, 1e-7, 1),
            confident(classes, 1e-18),
            confident(classes, 1e-30),
        ],
        targets=lambda chi: [[0], [1], [classes - 1]],
    )


def bernoulli() -> Reference:
    return Reference(
        family=families.get("bernoulli"),
        G=lambda tau, n: mp.loggamma(tau[0]) + mp.loggamma(n - tau[0]) - mp.loggamma(n),
        log_h=lambda y: mp.mpf(0),
        u=lambda y: y,
        moments=lambda chi: chi,
        entropy=lambda tau, n: dirichlet_entropy([tau[0], n - tau[0]]),
        predictive=lambda tau, n, y: stats.betabinom(1, tau[0], n - tau[0]).logpmf(y[0]),
        parameters=lambda tau, n, rng, size: stats.beta(tau[0], n - tau[0]).logpdf(rng.beta(tau[0], n - tau[0], size)),
        chis=[[0.3], [0.9], [1e-7], [1 - 2.0**-20], [1e-18], [1e-30], [1.0], [0.0]],
        targets=lambda chi: [[0], [1]],
    )


def multinomial(classes: int) -> Reference:
    return Reference(
        family=families.get("multinomial", n_classes=classes),
        G=dirichlet_G,
        log_h=lambda y: mp.loggamma(mp.fsum(y) + 1) - mp.fsum(mp.loggamma(k + 1) for k in y),
        u=lambda y: y,
        moments=lambda chi: chi,
        entropy=lambda tau, n: dirichlet_entropy(tau),
        predictive=lambda tau, n, y: stats.dirichlet_multinomial(tau, int(sum(y))).logpmf(np.array(y, dtype=int)),
        parameters=lambda tau, n, rng, size: stats.dirichlet(tau).logpdf(rng.dirichlet(tau, size).T),
        chis=[
            confident(classes, 1 / classes),
            confident(classes, 0.1),
            confident(classes, 1e-7, 1),
            confident(classes, 1e-30),
        ],
        targets=lambda chi: [
            [0.0] * classes,
            [1.0] + [0.0] * (classes - 1),
            [float(c) for c in range(classes)],
            [1e4] + [3.0] * (classes - 1),
            [float(round(1e6 * p)) for p in chi],
        ],
    )


# ---- numbers -------------------------------------------------------------------------------------


def wishart_G(tau: list[Any], n: Any) -> Any:
    """The Normal-Inverse-Wishart's, for τ = (nm, n(S + mmᵀ)) in full, by rows; the Normal-Inverse-Gamma's for d = 1."""
    d = (math.isqrt(1 + 4 * len(tau)) - 1) // 2
    mean = [t / n for t in tau[:d]]
    psi = mp.matrix(d, d)
    for i in range(d):
        for j in range(d):
            psi[i, j] = tau[d + i * d + j] - n * mean[i] * mean[j]
    nu = n + d - 1
    gammas = mp.fsum(mp.loggamma((n + j) / 2) for j in range(d)) + d * (d - 1) * mp.log(mp.pi) / 4
    return gammas + nu * d / 2 * mp.log(2) - nu / 2 * mp.log(mp.det(psi)) + mp.mpf(d) / 2 * (log2pi() - mp.log(n))


def wishart_entropy(tau: list[Any], n: Any) -> Any:
    d = (math.isqrt(1 + 4 * len(tau)) - 1) // 2
    nu = n + d - 1
    psi = mp.matrix(d, d)
    for i in range(d):
        for j in range(d):
            psi[i, j] = tau[d + i * d + j] - tau[i] * tau[j] / n
    log_psi = mp.log(mp.det(psi))
    digammas = mp.fsum(mp.digamma((n + j) / 2) for j in range(d))
    gammas = mp.fsum(mp.loggamma((n + j) / 2) for j in range(d)) + d * (d - 1) * mp.log(mp.pi) / 4
    covariance = gammas + nu * d / 2 + (d + 1) * (log_psi - d * mp.log(2)) / 2 - (nu + d + 1) / 2 * digammas
    expected_log_det = log_psi - d * mp.log(2) - digammas
    return covariance + mp.mpf(d) / 2 * (log2pi() + 1 - mp.log(n)) + expected_log_det / 2


def outer(v: list[Any]) -> list[Any]:
    return [a * b for a in v for b in v]


def normal_draws(tau: list[float], n: float, rng: np.random.Generator, size: int) -> np.ndarray:
    mean, variance = tau[0] / n, tau[1] / n - (tau[0] / n) ** 2
    sigma2 = stats.invgamma(n / 2, scale=n * variance / 2).rvs(size, random_state=rng)
    mu = rng.normal(mean, np.sqrt(sigma2 / n))
    return stats.invgamma(n / 2, scale=n * variance / 2).logpdf(sigma2) + stats.norm(mean, np.sqrt(sigma2 / n)).logpdf(
        mu
    )


def normal_scipy(tau: list[float], n: float, y: list[float]) -> float:
    mean, variance = tau[0] / n, tau[1] / n - (tau[0] / n) ** 2
    return float(stats.t(n, mean, math.sqrt(variance * (n + 1) / n)).logpdf(y[0]))


def around(mean: float, deviation: float) -> list[list[float]]:
    return [[mean], [mean + deviation], [mean - 3 * deviation], [0.5], [-7.0]]


NORMAL_CHIS = [[0.3, 1.5], [-2.0, 0.2], [1e3, 1e-2], [3e3, 1e-6], [1e6, 1e-6], [-1e6, 1e4], [1e6, 1.0]]


def normal() -> Reference:
    return Reference(
        family=families.get("normal"),
        G=wishart_G,
        log_h=lambda y: -log2pi() / 2,
        u=lambda y: [y[0], y[0] ** 2],
        moments=lambda chi: [chi[0], chi[1] + chi[0] ** 2],
        entropy=wishart_entropy,
        predictive=normal_scipy,
        parameters=normal_draws,
        chis=NORMAL_CHIS,
        targets=lambda chi: [*around(chi[0], math.sqrt(chi[1])), [chi[0] * (1 + 1e-4)], [chi[0] / 2]],
    )


def lognormal() -> Reference:
    return Reference(
        family=families.get("lognormal"),
        G=wishart_G,
        log_h=lambda y: -log2pi() / 2 - mp.log(y[0]),
        u=lambda y: [mp.log(y[0]), mp.log(y[0]) ** 2],
        moments=lambda chi: [chi[0], chi[1] + chi[0] ** 2],
        entropy=wishart_entropy,
        predictive=lambda tau, n, y: normal_scipy(tau, n, [math.log(y[0])]) - math.log(y[0]),
        parameters=normal_draws,
        chis=[[0.3, 1.5], [-2.0, 0.2], [40.0, 1e-6], [-60.0, 1e-2], [1e6, 1e-6]],
        targets=lambda chi: [[math.exp(max(min(t[0], 80), -80))] for t in around(chi[0], math.sqrt(chi[1]))],
    )


def multivariate_normal(d: int) -> Reference:
    def moments(chi: list[Any]) -> list[Any]:
        factor = mp.matrix(d, d)
        for k, (i, j) in enumerate(zip(*np.tril_indices(d), strict=True)):
            factor[int(i), int(j)] = chi[d + k]
        covariance = factor * factor.T
        return [*chi[:d], *(covariance[i, j] + chi[i] * chi[j] for i in range(d) for j in range(d))]

    def split(tau: list[float], n: float) -> tuple[np.ndarray, np.ndarray]:
        mean = np.array(tau[:d]) / n
        return mean, np.array(tau[d:]).reshape(d, d) / n - np.outer(mean, mean)

    def draws(tau: list[float], n: float, rng: np.random.Generator, size: int) -> np.ndarray:
        mean, covariance = split(tau, n)
        wishart = stats.invwishart(n + d - 1, n * covariance)
        sigma = wishart.rvs(size, random_state=rng).reshape(size, d, d)
        mu = mean + np.einsum("nij,nj->ni", np.linalg.cholesky(sigma / n), rng.normal(size=(size, d)))
        whitened = np.linalg.solve(np.linalg.cholesky(sigma / n), (mu - mean)[..., None])[..., 0]
        conditional = -0.5 * (d * math.log(2 * math.pi) + np.linalg.slogdet(sigma / n)[1] + (whitened**2).sum(-1))
        return wishart.logpdf(np.moveaxis(sigma, 0, -1)) + conditional

    def predictive(tau: list[float], n: float, y: list[float]) -> float:
        mean, covariance = split(tau, n)
        return float(stats.multivariate_t(mean, covariance * (n + 1) / n, df=n).logpdf(y))

    def lower(diagonal: float, below: float) -> list[float]:
        return [diagonal if i == j else below for i in range(d) for j in range(i + 1)]

    return Reference(
        family=families.get("multivariate_normal", dimension=d),
        G=wishart_G,
        log_h=lambda y: -d * log2pi() / 2,
        u=lambda y: [*y, *outer(y)],
        moments=moments,
        entropy=wishart_entropy,
        predictive=predictive,
        parameters=draws,
        chis=[
            [*[0.5] * d, *lower(1.2, 0.3)],
            [*[-1.0, 2.0, 0.0][:d], *lower(0.5, -0.2)],
            [*[1e3, -1e2, 3.0][:d], *lower(1e-2, 0.0)],
            [*[1e6, -1e6, 1.0][:d], *lower(1e-3, 1e-4)],
        ],
        targets=lambda chi: [
            chi[:d],
            [c + chi[d] for c in chi[:d]],
            [c * (1 + 1e-4) for c in chi[:d]],
            [0.5, -7.0, 1.0][:d],
        ],
    )


# ---- counts and waiting times --------------------------------------------------------------------

RATES = [[1.0], [3.5], [60.0], [1e-3], [1e-8], [1e4], [1e8]]


def counts(chi: list[float]) -> list[list[float]]:
    rate = chi[0]
    return [[0.0], [1.0], [7.0], *([float(round(rate + k * math.sqrt(rate)))] for k in (0, 1, -3) if rate > 20), [1e6]]


def poisson() -> Reference:
    return Reference(
        family=families.get("poisson"),
        G=lambda tau, n: mp.loggamma(tau[0]) - tau[0] * mp.log(n),
        log_h=lambda y: -mp.loggamma(y[0] + 1),
        u=lambda y: y,
        moments=lambda chi: chi,
        entropy=lambda tau, n: tau[0] - mp.log(n) + mp.loggamma(tau[0]) + (1 - tau[0]) * mp.digamma(tau[0]),
        predictive=lambda tau, n, y: stats.nbinom(tau[0], n / (n + 1)).logpmf(y[0]),
        parameters=lambda tau, n, rng, size: stats.gamma(tau[0], scale=1 / n).logpdf(rng.gamma(tau[0], 1 / n, size)),
        chis=RATES,
        targets=counts,
    )


def negative_binomial(r: float) -> Reference:
    def beta_nb(tau: list[float], n: float, y: list[float]) -> float:
        a, b, k = tau[0], n * r + 1, y[0]
        return float(sp.gammaln(r + k) - sp.gammaln(r) - sp.gammaln(k + 1) + sp.betaln(a + k, b + r) - sp.betaln(a, b))

    return Reference(
        family=families.get("negative_binomial", r=r),
        G=lambda tau, n: mp.loggamma(tau[0]) + mp.loggamma(n * r + 1) - mp.loggamma(tau[0] + n * r + 1),
        log_h=lambda y: mp.loggamma(y[0] + r) - mp.loggamma(r) - mp.loggamma(y[0] + 1),
        u=lambda y: y,
        moments=lambda chi: chi,
        entropy=lambda tau, n: dirichlet_entropy([tau[0], n * r + 1]),
        predictive=beta_nb,
        parameters=lambda tau, n, rng, size: stats.beta(tau[0], n * r + 1).logpdf(rng.beta(tau[0], n * r + 1, size)),
        chis=RATES,
        targets=counts,
    )


def gamma(k: float, name: str = "gamma") -> Reference:
    return Reference(
        family=families.get(name, **({"shape": k} if name == "gamma" else {})),
        G=lambda tau, n: mp.loggamma(k * n + 1) - (k * n + 1) * mp.log(tau[0]),
        log_h=lambda y: (k - 1) * mp.log(y[0]) - mp.loggamma(k),
        u=lambda y: y,
        moments=lambda chi: chi,
        entropy=lambda tau, n: k * n + 1 - mp.log(tau[0]) + mp.loggamma(k * n + 1) - k * n * mp.digamma(k * n + 1),
        predictive=lambda tau, n, y: stats.betaprime(k, k * n + 1, scale=tau[0]).logpdf(y[0]),
        parameters=lambda tau, n, rng, size: stats.gamma(k * n + 1, scale=1 / tau[0]).logpdf(
            rng.gamma(k * n + 1, 1 / tau[0], size)
        ),
        chis=RATES,
        targets=lambda chi: [[chi[0]], [chi[0] * 3], [chi[0] / 50], [1e-3], [20.0]],
    )


# ---- directions ----------------------------------------------------------------------------------


def log_vmf_constant(x: Any, d: int) -> Any:
    if d == 2:
        return -log2pi() - (mp.log(_bessel(x)) if x < 200 else x + _log_scaled_bessel(x))
    return -mp.log(4 * mp.pi) - (mp.log(mp.sinh(x) / x) if x > 0 else mp.mpf(0))


def _bessel(x: Any) -> Any:
    """I₀(x) by its power series."""
    total, term, k = mp.mpf(1), mp.mpf(1), 0
    while term > total * mp.mpf(10) ** -DIGITS:
        k += 1
        term *= (x / (2 * k)) ** 2
        total += term
    return total


def _log_scaled_bessel(x: Any) -> Any:
    """log(e⁻ˣ I₀(x)) by its asymptotic series, whose smallest term at x = 200 is below any digit that counts."""
    total, term, k = mp.mpf(1), mp.mpf(1), 0
    while abs(term) > mp.mpf(10) ** -DIGITS and k < 900:
        k += 1
        term *= mp.mpf(2 * k - 1) ** 2 / (8 * x * k)
        total += term
    return mp.log(total) - mp.log(2 * mp.pi * x) / 2


def length(v: list[Any]) -> Any:
    return mp.sqrt(mp.fsum(a * a for a in v))


def von_mises_fisher(d: int, kappa: float) -> Reference:
    unit = lambda *v: [a / math.sqrt(sum(b * b for b in v)) for a in v]  # noqa: E731

    def mp_entropy(tau: list[Any], n: Any) -> Any:
        c = kappa * length(tau)
        if c == 0:
            return -log_vmf_constant(c, d)
        slope = mp.diff(lambda e: -log_vmf_constant(c + e * min(c, 1), d), 0, h=mp.mpf(10) ** (-DIGITS // 3)) / min(
            c, 1
        )
        return -log_vmf_constant(c, d) - c * slope

    def scipy_predictive(tau: list[float], n: float, y: list[float]) -> float:
        """The convolution by brute force: integrate over the mean direction on a fine grid."""
        c = kappa * math.sqrt(sum(t * t for t in tau))
        centre = np.array(tau) * kappa / c
        if d == 2:
            angle = np.linspace(0, 2 * np.pi, 4001)[:-1]
            mu, weight = np.stack([np.cos(angle), np.sin(angle)]), np.full(4000, 2 * np.pi / 4000)
        else:
            nodes, w = np.polynomial.legendre.leggauss(200)
            angle = np.linspace(0, 2 * np.pi, 401)[:-1]
            z, a = np.meshgrid(nodes, angle, indexing="ij")
            mu = np.stack([np.sqrt(1 - z**2) * np.cos(a), np.sqrt(1 - z**2) * np.sin(a), z]).reshape(3, -1)
            weight = np.repeat(w, 400) * 2 * np.pi / 400
        density = np.exp(stats.vonmises_fisher(centre, c).logpdf(mu.T))
        return float(np.log((weight * density * np.exp(stats.vonmises_fisher(np.array(y), kappa).logpdf(mu.T))).sum()))

    def draws(tau: list[float], n: float, rng: np.random.Generator, size: int) -> np.ndarray:
        c = kappa * math.sqrt(sum(t * t for t in tau))
        vmf = stats.vonmises_fisher(np.array(tau) * kappa / c, c)
        return vmf.logpdf(vmf.rvs(size, random_state=rng))

    vectors = {2: [unit(1, 0.2), unit(-1, 3), [0.0, 1.0]], 3: [unit(1, 0.2, -0.3), unit(-1, 3, 0), [0.0, 0.0, 1.0]]}[d]
    return Reference(
        family=families.get("von_mises_fisher", dimension=d, concentration=kappa),
        G=lambda tau, n: -log_vmf_constant(kappa * length(tau), d),
        log_h=lambda y: log_vmf_constant(mp.mpf(kappa), d),
        u=lambda y: [a / length(y) for a in y],
        moments=lambda chi: chi,
        entropy=mp_entropy,
        predictive=scipy_predictive,
        parameters=draws,
        chis=[[0.8 * a for a in vectors[0]], [0.1 * a for a in vectors[1]], vectors[0], [1e-8 * a for a in vectors[1]]],
        targets=lambda chi: [*vectors, [-a for a in vectors[0]]],
    )


REFERENCES: dict[str, list[Reference]] = {
    "categorical": [categorical(3), categorical(10)],
    "bernoulli": [bernoulli()],
    "multinomial": [multinomial(3)],
    "normal": [normal()],
    "lognormal": [lognormal()],
    "multivariate_normal": [multivariate_normal(1), multivariate_normal(2), multivariate_normal(3)],
    "poisson": [poisson()],
    "negative_binomial": [negative_binomial(1.0), negative_binomial(7.5)],
    "exponential": [gamma(1.0, "exponential")],
    "gamma": [gamma(0.5), gamma(4.0)],
    "von_mises_fisher": [von_mises_fisher(2, 3.0), von_mises_fisher(3, 20.0)],
}


def numbers(values: torch.Tensor) -> list[Any]:
    """Return a tensor's values as exact mpmath numbers."""
    return [mp.mpf(v) for v in values.detach().double().reshape(-1).tolist()]
