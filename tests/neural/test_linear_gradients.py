"""Closed forms of clipped gradients and their information, against differences and autograd."""

import itertools

import numpy as np
import pytest
from scipy import linalg, sparse

from skleak.accounting.subsampled import subsampled_fisher_factors
from skleak.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skleak.neural.gradients import LinearGradients, make_clipping

PARTS = ("trace", "plain", "norm", "matrix")


def parts_of(gradients):
    """All parts: the norm is that of one predictor."""
    return [part for part in PARTS if part != "norm" or gradients.has_cheap_norm]


def weigh(norms):
    return subsampled_fisher_factors(0.1, norms / 0.7)


def _problem(loss, k, d, intercept, seed, n=7):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.2, 5.0, n)[:, None]
    y = rng.normal(size=n) if loss.name == "squared" else rng.integers(max(k, 2), size=n)
    gradients = LinearGradients(loss, make_clipping("smooth", 1.3), d, k, intercept)
    gradients.parameters = 0.7 * rng.normal(size=gradients.n_parameters)
    return gradients, X, np.asarray(y)


CASES = [
    (loss, k, d, intercept)
    for (loss, k), d, intercept in itertools.product(
        [(LogisticLoss(), 1), (SquaredLoss(), 1), (SoftmaxLoss(), 3), (SoftmaxLoss(), 5)],
        [1, 2, 3, 8],
        [False, True],
    )
]


def _by_definition(gradients, jacobian, gradient):
    """``G^T M G`` from a Jacobian (p, u) of the clipped gradient, (p,)."""
    norm = linalg.norm(gradient)
    along, across = weigh(norm)
    e = gradient / norm if norm > 0.0 else np.zeros_like(gradient)
    left = e @ jacobian
    return across * (jacobian.T @ jacobian - np.outer(left, left)) + along * np.outer(left, left)


def _autograd(torch, gradients, x, target):
    """Clipped gradient of one record, and its Jacobian, by torch alone."""
    loss, clipping = gradients.loss, gradients.clipping
    k, d = len(gradients._weights), len(x)
    labels = torch.tensor(gradients._directions)

    def gradient(record):
        parameters = torch.tensor(gradients.parameters, requires_grad=True)

        def value(p):
            a = p[: k * d].reshape(k, d) @ record[:d]
            if gradients.fit_intercept:
                a = a + p[k * d :]
            if loss.name == "squared":
                return 0.5 * (a[0] - target - record[d]) ** 2
            if loss.name == "logistic":
                return torch.nn.functional.softplus(a[0]) - (target + record[d]) * a[0]
            one_hot = torch.nn.functional.one_hot(torch.tensor(int(target)), k).to(a)
            return torch.logsumexp(a, 0) - (one_hot - labels @ record[d:]) @ a

        g = torch.autograd.grad(value(parameters), parameters, create_graph=True)[0]
        u = torch.linalg.vector_norm(g) / clipping.max_grad_norm
        return g / (torch.nn.functional.gelu(u - 1.0) + 1.0)

    zeros = np.zeros(gradients._directions.shape[1])
    record = torch.tensor(np.r_[x, zeros], requires_grad=True)
    jacobian = torch.autograd.functional.jacobian(gradient, record)
    return gradient(record).detach().numpy(), jacobian.detach().numpy()


def _compare(found, expected, scale, u, private_target, rtol):
    width = expected.shape[0] if private_target else u
    expected = expected[:width, :width]
    np.testing.assert_allclose(found["matrix"], expected, atol=rtol * scale)
    np.testing.assert_allclose(found["trace"], np.trace(expected), atol=rtol * scale)
    if "norm" in found:
        np.testing.assert_allclose(found["norm"], linalg.eigvalsh(expected)[-1], atol=rtol * scale)


def test_information_equals_autograd():
    torch = pytest.importorskip("torch")
    for seed, (loss, k, d, intercept) in enumerate(CASES):
        gradients, X, y = _problem(loss, k, d, intercept, seed, n=4)
        total, _ = gradients.clipped_sum(X, y)
        rows = [_autograd(torch, gradients, x, target) for x, target in zip(X, y, strict=True)]
        np.testing.assert_allclose(total, sum(g for g, _ in rows), rtol=1e-12, atol=1e-13)
        for i, (g, _) in enumerate(rows):
            one, _ = gradients.clipped_sum(X[[i]], y[[i]])
            np.testing.assert_allclose(one, g, rtol=1e-12, atol=1e-13)
        for private in (True, False):
            found = gradients.information(
                X, y, weigh, parts=parts_of(gradients), private_target=private
            )
            expected = [_by_definition(gradients, jacobian, g) for g, jacobian in rows]
            width = None if private else d
            plain = [np.sum(jacobian[:, :width] ** 2) for _, jacobian in rows]
            np.testing.assert_allclose(found["plain"], plain, rtol=1e-12, atol=1e-12 * max(plain))
            scale = max(map(np.trace, expected))  # autograd cancels in residuals near zero
            for i, each in enumerate(expected):
                one = {part: values[i] for part, values in found.items()}
                _compare(one, each, scale, d, private, 1e-12)


def test_information_equals_central_differences():
    for seed, (loss, k, d, intercept) in enumerate(CASES):
        gradients, X, y = _problem(loss, k, d, intercept, seed, n=3)
        found = gradients.information(X, y, weigh, parts=parts_of(gradients), private_target=False)
        step = 1e-5
        for i in range(3):
            shifted = [
                gradients.clipped_sum(X[i : i + 1] + sign * step * np.eye(d)[j], y[i : i + 1])[0]
                for j in range(d)
                for sign in (1.0, -1.0)
            ]
            jacobian = (np.array(shifted[::2]) - np.array(shifted[1::2])).T / (2.0 * step)
            g, _ = gradients.clipped_sum(X[i : i + 1], y[i : i + 1])
            expected = _by_definition(gradients, jacobian, g)
            one = {part: values[i] for part, values in found.items()}
            _compare(one, expected, max(np.trace(expected), 1e-6), d, True, 1e-7)


def test_the_limits_of_vanishing_gradients_and_records():
    """No residual, no record: what the neighbors at 1e-7 have, and never NaN."""
    for loss, k, intercept in ((SquaredLoss(), 1, True), (SquaredLoss(), 1, False)):
        gradients, X, _ = _problem(loss, k, 4, intercept, 3)
        X[0] = 0.0
        y = gradients.predict_raw(X)[:, 0]
        found = gradients.information(X, y, weigh, parts=parts_of(gradients))
        near = gradients.information(X + 1e-9, y + 1e-8, weigh, parts=parts_of(gradients))
        for part in PARTS:
            np.testing.assert_allclose(found[part], near[part], rtol=1e-6, atol=1e-7)
    gradients, X, y = _problem(LogisticLoss(), 1, 4, False, 5)
    X[0] = 0.0
    assert not gradients.clipped_sum(X[:1], y[:1])[0].any()
    found = gradients.information(X, y, weigh, parts=parts_of(gradients))
    expected = 0.1 * 0.25 / gradients.clipping.divisor(np.zeros(1))[0] ** 2 * np.eye(5)
    expected[4, 4] = 0.0
    np.testing.assert_allclose(found["matrix"][0], expected, rtol=1e-9, atol=1e-15)
    gradients.parameters = np.zeros(4)
    for part, values in gradients.information(X, y, weigh, parts=parts_of(gradients)).items():
        assert np.isfinite(values).all(), part


def test_sparse_records_and_many_parameters_change_nothing():
    for loss, k in ((LogisticLoss(), 1), (SoftmaxLoss(), 4)):
        gradients, X, y = _problem(loss, k, 6, True, 1, n=40)
        X[np.abs(X) < 0.5] = 0.0
        stored = sparse.csr_array(X)
        path = np.random.default_rng(0).normal(size=(5, gradients.n_parameters))
        dense_sum, sparse_sum = gradients.clipped_sum(X, y), gradients.clipped_sum(stored, y)
        np.testing.assert_allclose(dense_sum[0], sparse_sum[0], rtol=1e-12, atol=1e-14)
        before, total = gradients.parameters, 0.0
        for gradients.parameters in path:
            ours, theirs = (
                gradients.information(table, y, weigh, parts=parts_of(gradients))
                for table in (X, stored)
            )
            for part, values in ours.items():
                np.testing.assert_allclose(values, theirs[part], rtol=1e-10, atol=1e-13)
            total = total + ours["matrix"]
        gradients.parameters = before
        for table in (X, stored):
            found = gradients.information_along(path, table, y, weigh, True)
            np.testing.assert_allclose(found, total, rtol=1e-10, atol=1e-13)
        np.testing.assert_array_equal(gradients.parameters, before)


def test_no_records_and_bad_numbers():
    gradients, X, y = _problem(SoftmaxLoss(), 3, 2, True, 0)
    total, losses = gradients.clipped_sum(X[:0], y[:0])
    np.testing.assert_array_equal(total, np.zeros(9))
    assert losses.shape == (0,)
    X[1, 1] = np.nan
    with pytest.raises(FloatingPointError):
        gradients.clipped_sum(X, y)
    hard = LinearGradients(LogisticLoss(), make_clipping("hard", 1.0), 2)
    with pytest.raises(ValueError, match="smooth"):
        hard.information(X, y, weigh, parts=("trace",))
