"""Bounds on reconstruction errors and on membership, against the best attack by quadrature.

A number with a prior is released with Gaussian noise. The best attacker guesses the posterior mean:
its error is integrated here by brute force, and no lower bound may exceed it. Cramer-Rao is about
unbiased attackers alone, who do worse than the best one. For membership two releases are told apart
that lie mu standard deviations of the noise away from each other.
"""

import sys

import numpy as np
from _common import exit_status, parse_options, print_table
from _results import legend
from scipy.integrate import trapezoid
from scipy.stats import norm

from skleak.accounting import gaussian_delta
from skleak.bounds import (
    bayes_mse,
    cramer_rao_mse,
    dp_advantage,
    gdp_advantage,
    van_trees_mse,
)

ACCURACY = 1e-4  # relative, of the quadratures
PRIORS = {
    "normal": lambda z: np.exp(-(z**2) / 2.0),
    "logistic": lambda z: np.cosh(z / 2.0) ** -2.0,
    "two groups": lambda z: np.exp(-((z - 3.0) ** 2) / 2.0) + np.exp(-((z + 3.0) ** 2) / 2.0),
}
EPSILONS = np.geomspace(0.01, 60.0, 2_000)


def best_error(z, density, noise_scale):
    """Mean squared error of the posterior mean, by the trapezoidal rule over z and the release."""
    y = np.linspace(z[0] - 6.0 * noise_scale, z[-1] + 6.0 * noise_scale, 3_001)
    joint = density * norm.pdf(y[:, None], z, noise_scale)
    mass, first, second = (trapezoid(joint * z**k, z, axis=1) for k in range(3))
    risk = second - first**2 / np.maximum(mass, 1e-300)
    return trapezoid(risk, y)


def error_lines(noise_scales, n_nodes):
    """Lines of ratios to the error of the best attack, and what failed."""
    lines, failures = [], []
    z = np.linspace(-16.0, 16.0, n_nodes)
    for name, prior in PRIORS.items():
        density = prior(z) / trapezoid(prior(z), z)
        slope = np.gradient(np.log(density), z)
        information = trapezoid(density * slope**2, z)
        weights = density / density.sum()
        for scale in noise_scales:
            best = best_error(z, density, scale)
            ours, error = bayes_mse(z[:, None], z, weights, scale)
            trees = float(van_trees_mse(scale**-2.0, information))
            unbiased = float(cramer_rao_mse(np.array([[scale**-2.0]])))
            ratios = [float(ours) / best, trees / best, unbiased / best]
            lines.append([name, f"{scale:g}", f"{best:.4g}", *(f"{r:.3f}" for r in ratios)])
            if abs(ours - best) > error + ACCURACY * best:
                failures.append(f"{name}, noise {scale:g}: {ours:.6g}, by quadrature {best:.6g}")
            if trees > (1.0 + ACCURACY) * best:
                failures.append(f"{name}, noise {scale:g}: van Trees exceeds the best attack")
    return lines, failures


def membership_lines(mus):
    """Lines of advantages, and what failed."""
    lines, failures = [], []
    x = np.linspace(-12.0, 24.0, 40_001)
    for mu in mus:
        best = 0.5 * trapezoid(np.abs(norm.pdf(x, mu) - norm.pdf(x)), x)
        exact = float(gdp_advantage(mu, 2))
        deltas = gaussian_delta(mu, EPSILONS)
        through = float(np.min(dp_advantage(EPSILONS, deltas, 2)))
        pure = float(dp_advantage(EPSILONS[np.argmax(deltas <= 1e-6)], 1e-6, 2))
        row = [f"{mu:g}", f"{best:.4f}", *(f"{v / best:.3f}" for v in (exact, through, pure))]
        lines.append(row)
        if abs(exact - best) > ACCURACY or min(through, pure) < best - ACCURACY:
            failures.append(f"mu = {mu:g}: a bound is below the best attack")
    return lines, failures


def main():
    options = parse_options(__doc__)
    scales = (0.3, 3.0) if options.quick else (0.1, 0.3, 1.0, 3.0, 10.0)
    lines, failures = error_lines(scales, 401 if options.quick else 1_201)
    header = ["prior", "noise", "best error", "skleak's Bayes risk / best", "van Trees / best"]
    print_table(
        "Reconstruction of a number", [*header, "Cramer-Rao / best"], lines, ["prior", "noise"]
    )
    legend("Cramer-Rao: of unbiased attackers, and no bound for others")
    lines, wrong = membership_lines((0.1, 1.0) if options.quick else (0.1, 0.3, 1.0, 2.0, 4.0))
    header = ["mu", "best attack", "Gaussian DP / best", "best (epsilon, delta) / best"]
    print_table("Membership", [*header, "(epsilon, 1e-6) / best"], lines)
    return exit_status(failures + wrong)


if __name__ == "__main__":
    sys.exit(main())
