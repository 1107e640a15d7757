"""Gradients of torch modules against closed forms, brute force and the laws of their probes."""

import numpy as np
import pytest
from scipy import integrate, stats

from skleak.accounting.subsampled import subsampled_fisher_factors
from skleak.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skleak.neural.gradients import Clipping, LinearGradients

torch = pytest.importorskip("torch")
nn = torch.nn
TORCH = pytest.importorskip("skleak.neural.torch")
ALL = ("trace", "plain", "matrix")


def weigh(norms):
    return 0.3 + 0.1 * np.tanh(norms), 0.2 + 0.05 * norms


def small_net(width=3, outputs=3, dtype=torch.float64):
    layers = nn.Linear(2, width), nn.Tanh(), nn.Linear(width, outputs)
    return nn.Sequential(*layers).to(dtype)


def gradients_of(build, clipping=1.3, shape=(2,), n_classes=3, seed=0, **options):
    options = {"rng": np.random.default_rng(seed), "device": "cpu"} | options
    clip = Clipping("smooth", clipping) if isinstance(clipping, float) else clipping
    return TORCH.TorchGradients(build, clip, record_shape=shape, n_classes=n_classes, **options)


@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_a_linear_module_equals_the_closed_form(n_classes, rng):
    n, d = 9, 5
    X = rng.normal(size=(n, d))
    X[0] = 0.0
    y = rng.normal(size=n) if n_classes is None else rng.integers(0, n_classes, n)
    loss = {None: SquaredLoss(), 2: LogisticLoss(), 3: SoftmaxLoss()}[n_classes]
    outputs = 3 if n_classes == 3 else 1
    for intercept in (True, False):
        clipping = Clipping("smooth", 1.3)
        closed = LinearGradients(loss, clipping, d, outputs, fit_intercept=intercept)
        auto = gradients_of(
            lambda bias=intercept: nn.Linear(d, outputs, bias=bias).double(),
            shape=(d,),
            n_classes=n_classes,
            max_batch=4,
        )
        closed.parameters = auto.parameters = rng.normal(size=closed.n_parameters)
        assert np.array_equal(auto.parameters, closed.parameters)
        for ours, theirs in zip(auto.clipped_sum(X, y), closed.clipped_sum(X, y), strict=True):
            assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-13)
        assert np.allclose(norms(auto, X, y), norms(closed, X, y), rtol=1e-12, atol=1e-14)
        assert np.allclose(auto.predict_raw(X), closed.predict_raw(X), rtol=1e-12)
        for private in (True, False):
            options = {"private_target": private}
            assert auto.n_unknowns(X, private) == closed.n_unknowns(X, private)
            true = closed.information(X, y, weigh, parts=ALL, **options)
            # From the whole matrix, and column by column without it.
            for parts in (ALL, ("trace", "plain")):
                found = auto.information(X, y, weigh, parts=parts, **options)
                for part in parts:
                    assert np.allclose(found[part], true[part], rtol=1e-12, atol=1e-12), part


def test_two_scores_equal_their_difference_as_log_odds(rng):
    X, y = rng.normal(size=(6, 2)), rng.integers(0, 2, 6)
    one = gradients_of(lambda: nn.Linear(2, 1).double(), n_classes=2)
    two = gradients_of(lambda: nn.Linear(2, 2).double(), n_classes=2)
    w = one.parameters
    two.parameters = np.concatenate([-w[:2], w[:2], -w[2:], w[2:]]) / 2.0
    # Both outputs carry the same gradient, with opposite signs: sqrt(2) times as long.
    ours = two.information(X, y, lambda n: (n**0, n**0), parts=("matrix",))["matrix"]
    one.clipping = Clipping("smooth", 1.3 / np.sqrt(2.0))
    theirs = one.information(X, y, lambda n: (n**0, n**0), parts=("matrix",))["matrix"]
    assert np.allclose(ours, 2.0 * theirs)


def norms(gradients, X, y):
    """Norms of the clipped gradients of single records."""
    return np.array([np.linalg.norm(clipped(gradients, *each)) for each in zip(X, y, strict=True)])


def clipped(gradients, x, y):
    return gradients.clipped_sum(x[None], np.asarray([y]))[0]


def test_a_network_equals_differences_of_its_clipped_gradients(rng):
    X, y, step = rng.normal(size=(4, 2)), rng.normal(size=4), 1e-5
    auto = gradients_of(lambda: small_net(outputs=1), n_classes=None)
    for clip in (0.2, 1.3, 50.0):
        auto.clipping = Clipping("smooth", clip)
        found = auto.information(X, y, weigh, parts=ALL)
        for i in range(4):
            table = np.column_stack([X, y])[i]
            moves = step * np.eye(3)
            pairs = [(table + z, table - z) for z in moves]
            G = np.stack(
                [
                    (clipped(auto, a[:2], a[2]) - clipped(auto, b[:2], b[2])) / (2.0 * step)
                    for a, b in pairs
                ],
                axis=1,
            )
            g = clipped(auto, X[i], y[i])
            along, across = weigh(np.linalg.norm(g))
            e = g / np.linalg.norm(g)
            true = G.T @ (across * np.eye(len(g)) + (along - across) * np.outer(e, e)) @ G
            assert np.allclose(found["matrix"][i], true, rtol=1e-6, atol=1e-8)


def test_information_of_a_released_sum_equals_the_integral_of_its_score(rng):
    """One parameter, Poisson sampling: the law of the release is integrated for every x."""
    auto = gradients_of(lambda: nn.Linear(1, 1, bias=False).double(), shape=(1,), n_classes=None)
    auto.parameters = np.array([0.7])
    x, y, s, q, step = 0.9, np.array([0.1]), 0.8, 0.3, 1e-4

    means = [clipped(auto, np.array([x + k * step]), 0.1)[0] for k in (-1, 0, 1)]
    grid = np.linspace(-8.0, 9.0, 20_001)
    laws = [
        q * stats.norm.pdf(grid, m, s) + (1.0 - q) * stats.norm.pdf(grid, 0.0, s) for m in means
    ]
    true = integrate.trapezoid(((laws[2] - laws[0]) / (2.0 * step)) ** 2 / laws[1], grid)
    found = auto.information(
        np.array([[x]]),
        y,
        lambda norms: subsampled_fisher_factors(q, norms / s),
        parts=("trace",),
        private_target=False,
    )
    assert np.isclose(q / s**2 * found["trace"][0], true, rtol=1e-5)


def test_probes_are_unbiased_and_the_batch_does_not_matter(rng):
    X, y = rng.normal(size=(3, 2)), rng.integers(0, 3, 3)
    auto = gradients_of(small_net)
    ones = auto.information(X, y, lambda n: (n**0, n**0), parts=("trace",))["trace"]
    true = auto.information(X, y, weigh, parts=("trace", "plain"))
    assert np.allclose(true["plain"], ones)
    many = np.repeat(np.arange(3), 2000)
    parts = ("trace", "plain")
    found = auto.information(X[many], y[many], weigh, parts=parts, n_probes=2, rng=rng)
    for part in parts:
        values = found[part].reshape(3, 2000)
        error = values.std(axis=1, ddof=1) / np.sqrt(2000.0)
        # Six standard errors, of six means: a chance of 1e-8.
        assert np.all(np.abs(values.mean(axis=1) - true[part]) <= 6.0 * error)
        assert np.all(values >= 0.0)
    # Fresh for every record.
    assert len(np.unique(found["trace"][:20].round(12))) > 3
    few = {"parts": parts, "n_probes": 3}
    tables = []
    for auto.max_batch in (None, 1, 8):
        found = auto.information(X, y, weigh, rng=np.random.default_rng(5), **few)
        tables.append(np.column_stack([found["trace"], found["plain"]]))
    assert np.allclose(tables, tables[0])


def test_no_records_and_hard_clipping(rng):
    auto = gradients_of(small_net)
    X, y = np.empty((0, 2)), np.empty(0, dtype=int)
    total, losses = auto.clipped_sum(X, y)
    assert total.shape == (auto.n_parameters,)
    assert not total.any()
    assert losses.shape == (0,)
    assert auto.predict_raw(X).shape == (0, 3)
    found = auto.information(X, y, weigh, parts=ALL)
    assert [found[part].shape for part in ALL] == [(0,), (0,), (0, 4, 4)]
    hard = gradients_of(small_net, Clipping("hard", 0.1))
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 3, 50)
    assert np.isclose(norms(hard, X, y).max(), 0.1)
    assert norms(hard, X, y).max() <= 0.1 * (1.0 + 1e-9)
    with pytest.raises(ValueError, match="clipping='smooth'"):
        hard.information(X, y, weigh, parts=("trace",))


def test_what_is_not_finite_is_refused(rng):
    X, y = rng.normal(size=(3, 2)), np.array([0, 1, 2])
    auto = gradients_of(small_net)
    X[1, 0] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        auto.clipped_sum(X, y)
    with pytest.raises(FloatingPointError, match="not finite"):
        auto.information(X, y, weigh, parts=("trace",))
    wild = gradients_of(lambda: nn.Linear(2, 1), n_classes=None)  # float32
    with pytest.raises(FloatingPointError, match="not finite"):
        wild.clipped_sum(np.full((1, 2), 1e30), np.array([-1e30]))


def test_float32_is_near_float64(rng):
    X, y = rng.normal(size=(20, 2)), rng.integers(0, 3, 20)
    wide, narrow = (
        gradients_of(lambda d=d: small_net(dtype=d)) for d in (torch.float64, torch.float32)
    )
    wide.parameters = narrow.parameters
    assert np.allclose(wide.clipped_sum(X, y)[0], narrow.clipped_sum(X, y)[0], rtol=1e-4, atol=1e-5)
    found = [g.information(X, y, weigh, parts=ALL) for g in (wide, narrow)]
    for part in ALL:
        assert found[1][part].dtype == np.float64
        assert np.allclose(found[0][part], found[1][part], rtol=1e-3, atol=1e-4)


def test_images_and_shared_parameters(rng):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)
            self.again.weight = self.first.weight
            self.fixed = nn.Linear(18, 4).requires_grad_(False)
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            x = torch.tanh(self.again(torch.tanh(self.first(x))))
            return self.last(self.fixed(x.flatten(1)))

    auto = gradients_of(lambda: Tied().double(), shape=(2, 3, 3))
    assert auto.n_parameters == 36 + 2 + 2 + 15
    X, y = rng.normal(size=(3, 2, 3, 3)), np.array([0, 2, 1])
    step = 1e-5 * np.eye(18).reshape(18, 2, 3, 3)[7]
    slope = (clipped(auto, X[1] + step, 2) - clipped(auto, X[1] - step, 2)) / 2e-5
    ones = auto.information(X, y, lambda n: (n**0, n**0), parts=("matrix",))["matrix"]
    assert ones.shape == (3, 20, 20)
    assert np.isclose(ones[1, 7, 7], slope @ slope, rtol=1e-5)


def test_attention_has_its_derivatives(rng):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            options = {"dropout": 0.0, "batch_first": True, "activation": "gelu"}
            self.block, self.last = nn.TransformerEncoderLayer(4, 2, 4, **options), nn.Linear(4, 3)

        def forward(self, x):
            return self.last(self.block(x)[:, 0])

    auto = gradients_of(lambda: Attention().double(), shape=(3, 4))
    X, y = rng.normal(size=(2, 3, 4)), np.array([0, 2])
    found = auto.information(X, y, lambda n: (n**0, n**0), parts=("matrix",))["matrix"]
    step = 1e-5 * np.eye(12).reshape(12, 3, 4)[5]
    slope = (clipped(auto, X[1] + step, 2) - clipped(auto, X[1] - step, 2)) / 2e-5
    assert np.isclose(found[1, 5, 5], slope @ slope, rtol=1e-5)


def test_factors_of_linear_layers_are_as_good_as_gradients_written_out(rng):
    class Shared(nn.Module):
        """Layers at one place and at several, one that is used twice, one used otherwise."""

        def __init__(self):
            super().__init__()
            self.each, self.twice, self.last = nn.Linear(9, 8), nn.Linear(8, 8), nn.Linear(32, 3)
            self.otherwise = nn.Linear(8, 8, bias=False)

        def forward(self, x):
            x = torch.tanh(self.twice(torch.tanh(self.twice(torch.tanh(self.each(x))))))
            return self.last((x @ self.otherwise.weight + self.otherwise(x)).flatten(1))

    auto = gradients_of(lambda: Shared().double(), shape=(4, 9))
    assert set(auto.per_record.linear) == {"each.weight", "last.weight"}
    X, y = rng.normal(size=(5, 4, 9)), rng.integers(0, 3, 5)
    found = []
    for per_record in (auto.per_record, auto.per_record.whole()):
        auto.per_record = per_record
        seeds = {"n_probes": 3, "rng": np.random.default_rng(2)}
        probed = auto.information(X, y, weigh, parts=("trace", "plain"), **seeds)
        exact = auto.information(X, y, weigh, parts=("trace", "plain"))
        arrays = [*auto.clipped_sum(X, y), norms(auto, X, y), *probed.values(), *exact.values()]
        found.append(np.concatenate([array.ravel() for array in arrays]))
    assert np.allclose(*found, rtol=1e-10, atol=1e-12)
