import numpy as np
import pytest

from skleak.bounds import cramer_rao_mse, hammersley_chapman_robbins_mse
from skleak.bounds.errors import fisher_information_loss_mse


def linear_release(rng, n=6, d=3, scale=0.7):
    """Release ``A z + noise`` and its Fisher information about z."""
    design = rng.standard_normal((n, d))
    return design, design.T @ design / scale**2, scale


def test_least_squares_attains_the_bound(rng):
    design, information, scale = linear_release(rng)
    covariance = scale**2 * np.linalg.inv(design.T @ design)
    assert cramer_rao_mse(information) == pytest.approx(np.trace(covariance) / 3)
    truth = rng.standard_normal(3)
    releases = truth @ design.T + scale * rng.standard_normal((100_000, 6))
    estimates = releases @ np.linalg.pinv(design).T
    error = ((estimates - truth) ** 2).mean(axis=1)
    assert error.mean() == pytest.approx(
        cramer_rao_mse(information), abs=5 * error.std() / np.sqrt(100_000)
    )


def test_ridge_attains_the_biased_bound(rng):
    design, information, scale = linear_release(rng)
    shrink = np.linalg.solve(design.T @ design + 2.0 * np.eye(3), design.T)
    truth = rng.standard_normal(3)
    bias_jacobian = shrink @ design - np.eye(3)
    squared_bias = ((bias_jacobian @ truth) ** 2).mean()
    bound = cramer_rao_mse(information, bias_jacobian, squared_bias)
    assert bound == pytest.approx(scale**2 * np.trace(shrink @ shrink.T) / 3 + squared_bias)
    estimates = (truth @ design.T + scale * rng.standard_normal((100_000, 6))) @ shrink.T
    error = ((estimates - truth) ** 2).mean(axis=1)
    assert error.mean() == pytest.approx(bound, abs=5 * error.std() / np.sqrt(100_000))


def test_ladder_of_theorem_two(rng):
    for _ in range(20):
        _, information, _ = linear_release(rng, n=8, d=4)
        eta = np.sqrt(np.linalg.eigvalsh(information)[-1])
        diagonal = np.sqrt(np.trace(information) / 4)
        ladder = [
            fisher_information_loss_mse(eta),
            fisher_information_loss_mse(diagonal),
            cramer_rao_mse(information),
        ]
        assert ladder == sorted(ladder)


def test_singular_information_is_infinite_where_the_mean_moves(rng):
    direction = rng.standard_normal(3)
    information = np.outer(direction, direction)
    assert cramer_rao_mse(information) == np.inf
    # An estimator whose mean moves only along the informative direction has finite variance.
    projection = information / (direction @ direction)
    bound = cramer_rao_mse(information, projection - np.eye(3))
    assert bound == pytest.approx(1 / (direction @ direction) / 3)
    assert cramer_rao_mse(np.zeros((2, 2))) == np.inf
    assert cramer_rao_mse(np.zeros((2, 2)), -np.eye(2), 0.3) == 0.3


def test_units_of_the_coordinates_do_not_matter(rng):
    """In other units a coordinate is not told less: 1e-20 of the largest is no zero."""
    assert cramer_rao_mse(np.diag([1e20, 1.0])) == pytest.approx(0.5)
    assert cramer_rao_mse(np.diag([1e-20, 0.0])) == np.inf
    assert cramer_rao_mse(np.diag([1e-20, 0.0]), -np.diag([0.0, 1.0])) == pytest.approx(5e19)
    _, information, _ = linear_release(rng)
    variances = np.diag(np.linalg.inv(information))
    units = np.array([1e-80, 1.0, 1e90])
    found = cramer_rao_mse(information * np.outer(units, units))
    assert found == pytest.approx((variances / units**2).mean())


def test_scalar_information_and_batches(rng):
    assert cramer_rao_mse(4.0) == 0.25
    assert cramer_rao_mse(4.0, -0.5, 0.1) == pytest.approx(0.0625 + 0.1)
    assert cramer_rao_mse(0.0) == np.inf
    stack = np.stack([np.diag([1.0, 4.0]), np.diag([2.0, 2.0]), np.diag([0.0, 1.0])])
    np.testing.assert_allclose(cramer_rao_mse(stack), [0.625, 0.5, np.inf])
    assert cramer_rao_mse(stack, squared_bias=np.ones((4, 1))).shape == (4, 3)
    assert isinstance(cramer_rao_mse(stack[0]), float)
    assert cramer_rao_mse(stack, np.zeros((2, 2))).shape == (3,)


def test_more_information_never_raises_the_bound(rng):
    for _ in range(20):
        _, information, _ = linear_release(rng)
        direction = rng.standard_normal(3)
        more = information + np.outer(direction, direction)
        assert cramer_rao_mse(more) <= cramer_rao_mse(information) + 1e-12


def test_fisher_information_loss_at_its_ends():
    found = fisher_information_loss_mse([0.0, 1e-200, 2.0, np.inf])
    np.testing.assert_array_equal(found, [np.inf, np.inf, 0.25, 0.0])
    assert isinstance(fisher_information_loss_mse(2.0), float)


def test_hammersley_is_the_formula_and_holds_for_gaussian_noise(rng):
    widths = rng.uniform(0.5, 2.0, 4)
    gamma = rng.uniform(0.2, 1.0, 4)
    expected = ((gamma * widths) ** 2).sum() / (16 * np.expm1(0.8))
    assert hammersley_chapman_robbins_mse(0.8, widths, gamma) == pytest.approx(expected)
    for scale in (0.1, 1.0, 10.0):
        # Release z + noise: order-2 divergence |z - z'|^2 / scale^2, error scale^2 a coordinate.
        epsilon = (widths**2).sum() / scale**2
        assert hammersley_chapman_robbins_mse(epsilon, widths) <= scale**2


def test_hammersley_is_attained_by_a_binary_release():
    # z in {-1/2, 1/2}, y = +-1 with P(y = sign z) = q: the unbiased estimator y / (2 (2 q - 1)) has
    # variance (1 - (2 q - 1)^2) / (4 (2 q - 1)^2); chi^2 = (2 q - 1)^2 / (q (1 - q)).
    q = 0.8
    chi_square = (2 * q - 1) ** 2 / (q * (1 - q))
    variance = (1 - (2 * q - 1) ** 2) / (4 * (2 * q - 1) ** 2)
    assert variance == pytest.approx(1 / chi_square)
    # The theorem allows for points half a diameter from the end, hence a factor of 4.
    bound = hammersley_chapman_robbins_mse(np.log1p(chi_square), [1.0])
    assert bound == pytest.approx(variance / 4)


def test_hammersley_with_bias_holds_for_shrunken_estimates(rng):
    # a y + (1 - a) c for y = z + noise: slope a, bias (1 - a) (c - z), variance a^2 scale^2.
    for _ in range(200):
        widths, scale = rng.uniform(0.5, 2.0, 3), 10.0 ** rng.uniform(-1, 1)
        z, guess, shrink = rng.uniform(0, widths), rng.uniform(0, widths), rng.uniform(0, 1)
        bias = np.mean(((1 - shrink) * (guess - z)) ** 2)
        error = (shrink * scale) ** 2 + bias
        epsilon = (widths**2).sum() / scale**2
        bound = hammersley_chapman_robbins_mse(epsilon, widths, shrink, bias)
        assert bias <= bound <= error
        # Without the bias the bound says less, and the unbiased one would be wrong.
        assert bound > hammersley_chapman_robbins_mse(epsilon, widths, shrink)


def test_hammersley_with_bias_holds_for_clipped_estimates():
    nodes = np.linspace(-9.0, 9.0, 4001)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    for scale in (0.1, 0.3, 1.0, 3.0):
        z = np.linspace(0.0, 1.0, 101)
        estimate = np.clip(z[:, None] + scale * nodes, 0.0, 1.0)
        mean = estimate @ weights
        error = (estimate - z[:, None]) ** 2 @ weights
        slope = np.diff(mean).min() / (z[1] - z[0])
        bounds = hammersley_chapman_robbins_mse(1 / scale**2, [1.0], [slope], (mean - z) ** 2)
        assert np.all(bounds <= error)


def test_hammersley_of_a_constant_guess_is_its_squared_bias():
    assert hammersley_chapman_robbins_mse(0.0, [1.0, 1.0], 0.0, 0.04) == 0.04
    assert hammersley_chapman_robbins_mse([0.0, np.inf], [1.0], 1.0, 0.04).tolist() == [
        np.inf,
        0.04,
    ]
    assert hammersley_chapman_robbins_mse(1.0, [1.0], 1.0, [0.0, 1.0, np.inf]).shape == (3,)


def test_erratum_of_the_printed_epsilon():
    # [DRA22] 7.1 prints 2 / (n lambda sigma) where its square is meant: 2.49 instead of 1.58.
    root = 2 / (12_665 * 0.01 * 0.01)
    assert root == pytest.approx(1.58, abs=5e-3)
    right = hammersley_chapman_robbins_mse(root**2, np.ones(784))
    assert right == pytest.approx(1 / (4 * np.expm1(2.49)), rel=1e-2)


def test_hammersley_ends_and_batches():
    assert hammersley_chapman_robbins_mse(0.0, [1.0]) == np.inf
    assert hammersley_chapman_robbins_mse(np.inf, [1.0]) == 0.0
    assert hammersley_chapman_robbins_mse([0.1, 0.2], [1.0, 2.0]).shape == (2,)
    assert hammersley_chapman_robbins_mse([[0.1], [0.2]], np.ones((3, 4))).shape == (2, 3)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: cramer_rao_mse([1.0, 2.0]), r"shape \(n, 1, 1\)"),
        (lambda: cramer_rao_mse(np.ones((2, 3))), "square matrices"),
        (lambda: cramer_rao_mse([[1.0, 2.0], [0.0, 1.0]]), "must be symmetric"),
        (lambda: cramer_rao_mse([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite; got an eig"),
        (lambda: cramer_rao_mse(-1.0), "positive semi-definite"),
        (lambda: cramer_rao_mse([[np.inf]]), "must be finite"),
        (lambda: cramer_rao_mse([[np.nan]]), "`fisher_information` must not hold NaN"),
        (lambda: cramer_rao_mse(np.eye(2), np.eye(3)), "`bias_jacobian` must be finite and of"),
        (lambda: cramer_rao_mse(np.eye(2), squared_bias=-1.0), "`squared_bias` must be at least 0"),
        (
            lambda: cramer_rao_mse(np.ones((3, 1, 1)), squared_bias=np.ones(2)),
            "Shapes do not broadcast",
        ),
        (lambda: fisher_information_loss_mse(-1.0), "`eta` must be at least 0"),
        (lambda: fisher_information_loss_mse(np.nan), "`eta` must be at least 0; got nan"),
        (lambda: hammersley_chapman_robbins_mse(-1.0, [1.0]), "`epsilon` must be at least 0"),
        (lambda: hammersley_chapman_robbins_mse(1.0, 1.0), r"Pass `\[diameter\]`"),
        (lambda: hammersley_chapman_robbins_mse(1.0, [-1.0]), "`diameters` must be at least 0"),
        (lambda: hammersley_chapman_robbins_mse(1.0, [np.inf]), "must be finite"),
        (lambda: hammersley_chapman_robbins_mse(1.0, [0.0, 0.0]), "the bound is vacuous"),
        (lambda: hammersley_chapman_robbins_mse(1.0, [1.0], 0.0, [0.0, 1.0]), "is vacuous"),
        (lambda: hammersley_chapman_robbins_mse(1.0, [1.0], 1.0, -0.1), "`squared_bias` must be"),
        (lambda: hammersley_chapman_robbins_mse(1.0, [1.0] * 3, [1.0] * 2), "do not broadcast"),
        (lambda: hammersley_chapman_robbins_mse([1.0] * 3, np.ones((2, 2))), "do not broadcast"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
