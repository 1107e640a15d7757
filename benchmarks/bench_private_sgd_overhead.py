"""What following leakage costs: private SGD of the network of [DRA22] table 1, with and without."""

import sys
from functools import partial
from importlib.util import find_spec

import numpy as np
from _common import (
    exit_status,
    fetch_or_none,
    parse_options,
    print_table,
    ratio_and_range,
    time_in_turns,
)

from skleak.datasets import fetch_mnist
from skleak.neural import PrivateSGDClassifier
from skleak.neural.gradients import Clipping
from skleak.neural.models import dra22_mnist

LIMITS = {"every step": 6.0, "every fourth step": 2.5}
N_PROBES, N_COORDINATES = 3, 50


def images(n, seed=0):
    """MNIST, or a bright spot whose place says the class, so that a network can learn it."""
    rng = np.random.default_rng(seed)
    if (real := fetch_or_none(fetch_mnist, classes=None)) is not None:
        chosen = rng.permutation(len(real[1]))[:n]
        return real[0][chosen].astype(np.float32), real[1][chosen]
    y = rng.integers(0, 10, n)
    rows, columns = np.mgrid[:28, :28]
    centers = np.stack([6 + 4 * (y % 5), 9 + 9 * (y // 5)], axis=1) + rng.normal(size=(n, 2))
    squares = (rows - centers[:, :1, None]) ** 2 + (columns - centers[:, 1:, None]) ** 2
    X = np.exp(-squares / 20.0) * rng.uniform(0.5, 1.0, (n, 1, 1)) + 0.1 * rng.random((n, 28, 28))
    return np.clip(X, 0.0, 1.0).reshape(n, -1).astype(np.float32), y


def train(X, y, n_steps, **options):
    """Fit with a batch of one record in a hundred, following its members."""
    model = PrivateSGDClassifier(
        dra22_mnist,
        max_steps=n_steps,
        sampling_rate=0.01,
        learning_rate=0.5,
        account_records="batch",
        n_probes=N_PROBES,
        random_state=0,
        device="cpu",
        **options,
    )
    return model.fit(X, y)


def overhead(X, y, n_steps, rounds):
    """Print times with and without, and return the lines of goals and what is wrong."""
    timed = time_in_turns(
        {
            "plain": partial(train, X, y, n_steps, accounting=None),
            "every step": partial(train, X, y, n_steps, accounting="probes"),
            "every fourth step": partial(
                train, X, y, n_steps, accounting="probes", account_every=4
            ),
        },
        rounds,
    )
    plain, lines, goals, failures = timed["plain"], [], [], []
    lines.append(["plain", f"{1e3 * plain.best / n_steps:.0f}", "", ""])
    expected = [p.detach().numpy() for p in plain.result.module_.parameters()]
    for name, limit in LIMITS.items():
        ratio, spread = ratio_and_range(timed[name], plain)
        lines.append([name, f"{1e3 * timed[name].best / n_steps:.0f}", f"{ratio:.1f}", spread])
        goals.append(f"{name} {ratio:.1f} of {limit}{'' if ratio <= limit else ', MISSED'}")
        found = [p.detach().numpy() for p in timed[name].result.module_.parameters()]
        if not all(np.allclose(a, b, atol=1e-4) for a, b in zip(found, expected, strict=True)):
            failures.append(f"{name}: following changes the training")
    title = f"Private SGD, batches of {len(X) // 100}, {N_PROBES} probes for each member"
    print_table(title, ["", "ms a step", "ratio", "range of ratio"], lines)
    print(f"goals: {'; '.join(goals)}")
    return failures


def ones(norms):
    return np.ones_like(norms), np.ones_like(norms)


def spreads(gradients, X, y, n_draws, seed=0):
    """Relative standard deviation of probes and of sampled coordinates, medians over records.

    Both estimate the trace for a record. Probes are drawn; the spread of 50 coordinates without
    replacement follows from the diagonal.
    """
    rng = np.random.default_rng(seed)
    exact = gradients.information(X, y, ones, parts=("matrix",), private_target=False)
    diagonal = np.einsum("njj->nj", exact["matrix"])
    trace = diagonal.sum(axis=1)
    d = diagonal.shape[1]
    left = (1.0 - N_COORDINATES / d) / N_COORDINATES
    coordinates = d * np.sqrt(left * diagonal.var(axis=1, ddof=1)) / trace
    draws = np.stack(
        [
            gradients.information(
                X, y, ones, parts=("trace",), n_probes=1, rng=rng, private_target=False
            )["trace"]
            for _ in range(n_draws)
        ]
    )
    probes = draws.std(axis=0, ddof=1) / trace
    # The mean of the draws, in its own standard errors.
    gap = np.abs(draws.mean(axis=0) - trace) / (trace * probes / np.sqrt(n_draws))
    return np.median(probes), np.median(coordinates), gap.max()


def variances(models, X, y, n_draws):
    """Print spreads at initialization and once trained, and return what is wrong."""
    lines, failures = [], []
    for name, model in models.items():
        gradients = model._gradients
        gradients.clipping = Clipping("smooth", 1.0)
        probe, coordinates, gap = spreads(gradients, X, y, n_draws)
        share = (coordinates / probe) ** 2
        lines.append(
            [name, f"{probe / np.sqrt(N_PROBES):.0%}", f"{probe / np.sqrt(N_COORDINATES):.0%}"]
        )
        lines[-1] += [f"{coordinates:.0%}", f"{share * N_COORDINATES:.1f}", f"{1.0 / share:.0f}"]
        if gap > 6.5:
            failures.append(f"{name}: the mean of the probes is {gap:.1f} standard errors off")
    header = ["", f"{N_PROBES} probes", f"{N_COORDINATES} probes", f"{N_COORDINATES} coordinates"]
    header += ["less variance at equal cost", f"probes as good as {N_COORDINATES} coordinates"]
    print_table("Standard deviation of the trace, for a record and step", header, lines)
    return failures


def main():
    options = parse_options(__doc__)
    if find_spec("torch") is None:
        print("absent: torch")
        return exit_status([])
    n, n_steps, rounds = (2_000, 4, 1) if options.quick else (12_700, 20, 3)
    X, y = images(n)
    failures = overhead(X, y, n_steps, rounds)
    models = {
        "initial": train(X, y, 1, accounting=None, noise_multiplier=1e-6),
        "trained": train(X, y, 8 if options.quick else 500, accounting=None, noise_multiplier=0.5),
    }
    print(f"accuracy once trained: {models['trained'].score(X, y):.2f}")
    n_records, n_draws = (5, 60) if options.quick else (30, 300)
    failures += variances(models, X[:n_records], y[:n_records], n_draws)
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
