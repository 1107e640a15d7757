import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import mostly_slow

from skleak.attacks import InformedReconstruction
from skleak.bounds.errors import fisher_information_loss_mse
from skleak.linear_model import PrivateLinearRegression
from skleak.plotting import ReconstructionDisplay


class Guess:
    """An attack that is handed its guesses as the releases."""

    def __init__(self):
        self.calls = 0

    def predict(self, released):
        self.calls += 1
        return released.reshape(-1, 6)


@pytest.fixture
def display(rng):
    X = rng.uniform(size=(40, 6))
    bounds = rng.exponential(size=40)
    guesses = X + rng.normal(size=X.shape) * np.sqrt(bounds)[:, None]
    errors = np.mean((guesses - X) ** 2, axis=1)
    return ReconstructionDisplay(X, guesses, errors, bounds, image_shape=(2, 3))


def test_from_attack_averages_over_releases_one_at_a_time(rng):
    X, bounds = rng.normal(size=(30, 6)), rng.exponential(size=30)
    guesses = rng.normal(size=(5, 30, 6))
    attack = Guess()
    display = ReconstructionDisplay.from_attack(attack, guesses.reshape(5, -1), X, bounds=bounds)
    assert attack.calls == 5
    np.testing.assert_allclose(display.errors, np.mean((guesses - X) ** 2, axis=(0, 2)))
    order = np.argsort(bounds)
    np.testing.assert_array_equal(display.shown, np.r_[order[:8], order[-8:]])
    np.testing.assert_array_equal(display.originals, X[display.shown])
    np.testing.assert_array_equal(display.reconstructions, guesses[0][display.shown])
    assert display.n_below == np.sum(display.errors < bounds)
    assert plt.get_fignums() == []
    single = ReconstructionDisplay.from_attack(Guess(), guesses[2].ravel(), X, bounds=bounds)
    np.testing.assert_allclose(single.errors, np.mean((guesses[2] - X) ** 2, axis=1))


@pytest.mark.slow
def test_guesses_that_are_undefined_are_infinitely_far_off(rng):
    X, guesses = rng.normal(size=(4, 6)), rng.normal(size=(2, 4, 6))
    guesses[1, 0, 0], guesses[0, 1, 3], guesses[0, 2, 0] = np.nan, np.inf, 1e300
    display = ReconstructionDisplay.from_attack(
        Guess(), guesses.reshape(2, -1), X, bounds=np.ones(4), image_shape=(2, 3)
    )
    assert np.isinf(display.errors).tolist() == [True, True, True, False]
    display.plot().figure_.canvas.draw()
    display.plot_images().figure_.canvas.draw()


@pytest.mark.slow
def test_an_attack_in_earnest(rng):
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=60)
    model = PrivateLinearRegression(noise_scale=1e-5, random_state=0).fit(X, y)
    attack = InformedReconstruction(model).fit(X, y)
    bounds = fisher_information_loss_mse(model.fisher_information_loss_)
    clean = np.append(
        *(
            getattr(PrivateLinearRegression(noise_scale=0).fit(X, y), end)
            for end in ("coef_", "intercept_")
        )
    )
    released = clean + 1e-5 * rng.normal(size=(20, 5))
    display = ReconstructionDisplay.from_attack(attack, released, X, bounds=bounds)
    expected = np.mean((attack.predict(released) - X) ** 2, axis=(0, 2))
    np.testing.assert_allclose(display.errors, expected)
    models = ReconstructionDisplay.from_attack(attack, [model, model], X, bounds=bounds)
    alone = ReconstructionDisplay.from_attack(attack, model, X, bounds=bounds)
    np.testing.assert_allclose(models.errors, alone.errors)


@pytest.mark.slow
def test_scatter_shows_every_record_and_the_diagonal(display):
    before = display.errors.copy()
    figure, ax = plt.subplots()
    assert display.plot(ax) is display
    assert (display.ax_, display.figure_) == (ax, figure)
    points = ax.collections[0].get_offsets()
    assert points.shape == (40, 2)
    inside = (points[:, 0] == display.bounds) & (points[:, 1] == display.errors)
    assert inside.mean() > 0.8
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
    share = 100 * display.n_below / 40
    assert ax.get_title() == f"{display.n_below} of 40 records ({share:.1f}%) below the bound"
    figure.canvas.draw()
    np.testing.assert_array_equal(display.errors, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "errors, bounds",
    [
        ([0.0, 0.0], [0.0, 0.0]),
        ([np.inf, 1.0], [1.0, np.inf]),
        ([1.0, 1.0], [1.0, 1.0]),
        ([1e-20, 1e20], [1e-3, 1e3]),
        ([1e5, 2e5], [1e-5, 2e-5]),
        ([1.0], [2.0]),
    ],
)
def test_scatter_copes_with_any_numbers(errors, bounds):
    shown = np.zeros((len(errors), 2))
    display = ReconstructionDisplay(shown, shown, errors, bounds, image_shape=(1, 2)).plot()
    x, y = display.ax_.collections[0].get_offsets().T
    for values, (low, high) in ((x, display.ax_.get_xlim()), (y, display.ax_.get_ylim())):
        assert np.all((values >= low) & (values <= high))
    display.figure_.canvas.draw()
    display.plot_images().figure_.canvas.draw()


def test_a_few_outliers_do_not_squeeze_the_rest(rng):
    bounds = rng.lognormal(size=2000)
    errors = bounds * rng.lognormal(0.0, 0.1, 2000)
    errors[:30] *= 1e25
    display = ReconstructionDisplay(
        np.zeros((2, 1)), np.zeros((2, 1)), errors, bounds, shown=[0, 5]
    )
    low, high = display.plot().ax_.get_ylim()
    assert high / low < 1e8


@pytest.mark.slow
def test_images_are_the_extremes_by_bound(display):
    order = np.argsort(display.bounds)
    assert sorted(display.shown) == sorted([*order[:8], *order[-8:]])
    assert display.plot_images(3) is display
    assert display.axes_.shape == (4, 3)
    for j, record in enumerate(np.r_[order[:3]]):
        position = np.flatnonzero(display.shown == record)[0]
        image = display.axes_[0, j].get_images()[0].get_array()
        np.testing.assert_allclose(image, display.originals[position].reshape(2, 3))
        guess = display.axes_[1, j].get_images()[0].get_array()
        span = display.axes_[1, j].get_images()[0].get_clim()
        wanted = np.clip(display.reconstructions[position].reshape(2, 3), *span)
        np.testing.assert_allclose(guess, wanted)
        assert f"{display.errors[record]:.3g}" in display.axes_[1, j].get_xlabel()
    for j, record in enumerate(order[-3:]):
        image = display.axes_[2, j].get_images()[0].get_array()
        position = np.flatnonzero(display.shown == record)[0]
        np.testing.assert_allclose(image, display.originals[position].reshape(2, 3))
    assert display.axes_[0, 0].get_title("left") == "smallest bounds"
    assert display.axes_[2, 0].get_title("left") == "largest bounds"
    display.figure_.canvas.draw()
    axes = plt.subplots(4, 2)[1]
    display.plot_images(2, ax=axes)
    assert display.axes_.ravel().tolist() == axes.ravel().tolist()


@pytest.mark.parametrize("n", mostly_slow([1, 2, 3, 5], 2))
def test_images_of_few_records_are_each_shown_once(rng, n):
    X = rng.uniform(size=(n, 12))
    display = ReconstructionDisplay(X, X, np.ones(n), np.ones(n), image_shape=(2, 2, 3))
    assert sorted(display.shown) == list(range(n))
    drawn = [ax for ax in display.plot_images().axes_.ravel() if ax.get_images()]
    assert len(drawn) == 2 * n
    display.figure_.canvas.draw()


def test_messages(display, rng):
    X = rng.uniform(size=(4, 6))
    ones = np.ones(4)
    with pytest.raises(ValueError, match=r"`image_shape` is None.*`image_shape=\(28, 28\)`"):
        ReconstructionDisplay(X, X, ones, ones).plot_images()
    for shape in ((2, 2), (6,), (1, 3, 2)):
        with pytest.raises(ValueError, match=r"images of 6 values; got \("):
            ReconstructionDisplay(X, X, ones, ones, image_shape=shape)
    with pytest.raises(ValueError, match=r"must have the same shape .n_shown, d.; got"):
        ReconstructionDisplay(X, X[:3], ones, ones)
    with pytest.raises(ValueError, match=r"`originals` must hold all 5 records; got 4.*`shown`"):
        ReconstructionDisplay(X, X, np.ones(5), np.ones(5))
    with pytest.raises(ValueError, match="must be positions below 5; got 0 to 5"):
        ReconstructionDisplay(X, X, np.ones(5), np.ones(5), shown=[0, 1, 2, 5])
    with pytest.raises(ValueError, match=r"positions of the 4 records.*got shape \(2,\)"):
        ReconstructionDisplay(X, X, ones, ones, shown=[0, 1])
    with pytest.raises(ValueError, match="one number for each of the 4 errors; got 5"):
        ReconstructionDisplay(X, X, ones, np.ones(5))
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match="`errors` must be mean squared errors, not negative"):
            ReconstructionDisplay(X, X, [wrong, 1, 1, 1], ones)
    with pytest.raises(ValueError, match=r"`bounds` must hold one number per record; got shape"):
        ReconstructionDisplay(X, X, ones, X)
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match=r"`n_images` must be a whole number of at least 1"):
            display.plot_images(wrong)
    with pytest.raises(ValueError, match=r"at most the 8 records that were kept.*`n_images=12`"):
        display.plot_images(12)
    with pytest.raises(ValueError, match=r"`ax` must be 32 Axes, 8 in each of 4 rows; got 1 Axes"):
        display.plot_images(ax=plt.subplots()[1])
    plt.close("all")
    make = ReconstructionDisplay.from_attack
    with pytest.raises(
        ValueError, match=r"as the model sees them, of shape \(4, 6\); got \(4, 5\)"
    ):
        make(Guess(), X.ravel(), X[:, :5], bounds=ones)
    with pytest.raises(ValueError, match=r"`bounds` one number for each; got shapes \(4, 6\)"):
        make(Guess(), X.ravel(), X, bounds=np.ones(3))
    with pytest.raises(ValueError, match="must hold at least one release; got none"):
        make(Guess(), np.empty((0, 24)), X, bounds=ones)
    assert plt.get_fignums() == []
