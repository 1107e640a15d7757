"""Reconstructed records: their errors against the bound, and what they look like."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from skleak.adversary.models import count_releases
from skleak.plotting.displays import Display, legend_of_names, new_axes, panels
from skleak.plotting.labels import BLUE, INK, count, number
from skleak.utils._typing import FloatArray, IntArray

_SHOWN = 8


class ReconstructionDisplay(Display):
    """Plot of the error of reconstructed records against its bound, and of the records themselves.

    Use `from_attack` to create one. Confidential: it holds true records.

    Parameters
    ----------
    originals : array-like of shape (n_shown, d)
        True records as the model sees them.
    reconstructions : array-like of shape (n_shown, d)
        What the attack made of them from one release.
    errors : array-like of shape (n_records,)
        Mean squared error per value of every record, over releases; may be infinite.
    bounds : array-like of shape (n_records,)
        Lower bound on the mean squared error per value of every record, as
        `skleak.bounds.cramer_rao_mse` gives it; may be infinite.
    image_shape : tuple of int, default=None
        Height, width and, for colors, channels of a record that is an image.
    shown : array-like of int of shape (n_shown,), default=None
        Which of all records ``originals`` and ``reconstructions`` are; None means all, of which
        only those needed for `plot_images` are kept.
    n_images : int, default=8
        How many records of the smallest and of the largest bounds are kept of all.
    name : str, default=None
        What was attacked, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn; of `plot_images` the first image.
    axes_ : ndarray of matplotlib Axes
        All images, of `plot_images`.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Raises
    ------
    ValueError
        For shapes that do not match, negative or undefined errors and bounds, or records that are
        no images of ``image_shape``.

    Notes
    -----
    The bound holds for the mean over releases, and for unbiased attacks ([DRA22] theorem 2):
    over few releases some records lie below it by luck, and an attack that knows what records
    look like may pass it at the price of a bias.

    Examples
    --------
    >>> display = ReconstructionDisplay(
    ...     [[0.0, 1.0], [1.0, 1.0]], [[0.1, 0.9], [0.0, 3.0]], [0.01, 2.5], [0.02, 1.0]
    ... )
    >>> display.n_below
    1
    """

    def __init__(
        self,
        originals: npt.ArrayLike,
        reconstructions: npt.ArrayLike,
        errors: npt.ArrayLike,
        bounds: npt.ArrayLike,
        *,
        image_shape: Sequence[int] | None = None,
        shown: npt.ArrayLike | None = None,
        n_images: int = _SHOWN,
        name: str | None = None,
    ) -> None:
        self.errors, self.bounds = _squares("errors", errors), _squares("bounds", bounds)
        n = len(self.errors)
        _require(
            len(self.bounds) == n,
            f"`bounds` must have one number for each of the {n} errors; got {len(self.bounds)}.",
        )
        true, guessed = np.asarray(originals, dtype=float), np.asarray(reconstructions, dtype=float)
        _require(
            true.ndim == 2 and true.shape == guessed.shape,
            "`originals` and `reconstructions` must have the same shape (n_shown, d); got "
            f"{true.shape} and {guessed.shape}.",
        )
        if shown is None:
            _require(
                len(true) == n,
                f"`originals` must hold all {n} records; got {len(true)}. Say by `shown` which of "
                "them they are.",
            )
            self.shown = kept = _extremes(self.bounds, _counted(n_images))
        else:
            self.shown, kept = _positions(shown, len(true), n), np.arange(len(true))
        # Indexing by positions copies: no other true record stays in memory.
        self.originals, self.reconstructions = true[kept], guessed[kept]
        self.image_shape = _sizes(image_shape, self.originals.shape[1])
        self.name = name

    @classmethod
    def from_attack(
        cls,
        attack: Any,
        released: Any,
        X: npt.ArrayLike,
        *,
        bounds: npt.ArrayLike,
        image_shape: Sequence[int] | None = None,
        n_images: int = _SHOWN,
        name: str | None = None,
    ) -> Self:
        """Reconstruct records from every release, one at a time; draws nothing yet.

        Parameters
        ----------
        attack : InformedReconstruction
            A fitted attack, or any object whose ``predict(release)`` returns records of shape
            (n_targets, d).
        released : estimator, pipeline, list of them, or array
            What was released: a model, or parameters of shape (n_parameters,) or
            (n_releases, n_parameters).
        X : array-like of shape (n_targets, d)
            True records of the targets, as the model sees them.
        bounds : array-like of shape (n_targets,)
            Lower bound on the mean squared error per value of every target.
        image_shape : tuple of int, default=None
            Height, width and, for colors, channels of a record that is an image.
        n_images : int, default=8
            How many records of the smallest and of the largest bounds are kept, with what the
            attack made of them from the first release.
        name : str, default=None
            What was attacked, for the title.

        Returns
        -------
        ReconstructionDisplay
            With the mean over releases of the squared error per value of every target. A guess
            that is undefined counts as infinitely far off.

        Raises
        ------
        ValueError
            For no release, or shapes that do not match.

        Examples
        --------
        >>> from skleak.attacks import InformedReconstruction
        >>> from skleak.linear_model import PrivateLinearRegression
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> y = X @ [1.0, 2.0, 3.0]
        >>> model = PrivateLinearRegression(noise_scale=0.001, random_state=0).fit(X, y + X[:, 0])
        >>> attack = InformedReconstruction(model).fit(X, y + X[:, 0])
        >>> display = ReconstructionDisplay.from_attack(attack, model, X, bounds=np.ones(50))
        >>> display.errors.shape, display.originals.shape
        ((50,), (16, 3))
        """
        truth, limits = np.asarray(X, dtype=float), _squares("bounds", bounds)
        _require(
            truth.ndim == 2 and len(truth) == len(limits),
            "`X` must hold the records of the targets and `bounds` one number for each; got shapes "
            f"{truth.shape} and {limits.shape}.",
        )
        shown = _extremes(limits, _counted(n_images))
        total, n_releases, first = np.zeros(len(truth)), 0, np.empty(0)
        # One release after the other: tables of all records are large.
        for release in [released] if count_releases(released) is None else released:
            guesses = np.asarray(attack.predict(release), dtype=float)
            guesses = guesses[0] if guesses.ndim == 3 and len(guesses) == 1 else guesses
            _require(
                guesses.shape == truth.shape,
                "`X` must hold the records of the targets as the model sees them, of shape "
                f"{guesses.shape}; got {truth.shape}.",
            )
            # A record that hardly takes part is reconstructed far off, or not at all.
            with np.errstate(over="ignore", invalid="ignore"):
                total += np.mean((guesses - truth) ** 2, axis=1)
            first = guesses[shown] if not n_releases else first
            n_releases += 1
        _require(n_releases, "`released` must hold at least one release; got none.")
        errors = np.nan_to_num(total / n_releases, nan=np.inf, posinf=np.inf)
        return cls(
            truth[shown], first, errors, limits, image_shape=image_shape, shown=shown, name=name
        )

    @property
    def n_below(self) -> int:
        """Number of records whose error is below its bound."""
        return int(np.sum(self.errors < self.bounds))

    def plot(self, ax: Any = None) -> Self:
        """Draw the error of every record against its bound ([DRA22] figure 3).

        Both axes are logarithmic. Errors and bounds that are zero or infinite, and so far beyond
        the others that these would be one dot, stand at the edge.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        ReconstructionDisplay
            This object, with ``ax_`` and ``figure_``.
        """
        ax = new_axes(ax, (5.6, 5.0))
        low, high = _range(self.bounds)
        bottom, top = _range(self.errors)
        x, y = np.clip(self.bounds, low, high), np.clip(self.errors, bottom, top)
        n = len(self.errors)
        style = {"s": 18.0 if n <= 500 else 7.0, "alpha": 0.7 if n <= 500 else 0.3, "lw": 0.0}
        points = ax.scatter(x, y, c=BLUE, rasterized=n > 2000, **style)
        points.set_clip_on(False)
        ends = [max(low, bottom), min(high, top)]
        if ends[0] < ends[1]:
            ax.plot(ends, ends, color=INK, lw=1.4, label="error = bound")
            legend_of_names(ax, beside=False)
        ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, top))
        ax.set(xlabel="lower bound on the mean squared error", ylabel="mean squared error")
        share = f"{100.0 * self.n_below / n:.1f}%"
        note = f"{count(self.n_below)} of {count(n)} records ({share}) below the bound"
        title = note if self.name is None else f"{self.name}\n{note}"
        return self._finish(ax, title, legend=False)

    def plot_images(self, n_images: int = _SHOWN, *, ax: Any = None) -> Self:
        """Show the records of the smallest and of the largest bounds, and what the attack saw.

        Parameters
        ----------
        n_images : int, default=8
            How many of each; fewer where there are fewer records.
        ax : array of matplotlib Axes, default=None
            Where to draw, ``n_images`` in each of four rows; by default a new figure.

        Returns
        -------
        ReconstructionDisplay
            This object, with ``ax_``, ``axes_`` and ``figure_``.

        Raises
        ------
        ValueError
            Where the records are no images, or more are asked for than were kept.
        """
        _require(
            self.image_shape is not None,
            "The records are no images: `image_shape` is None. Pass the height and width of the "
            "images, for instance `image_shape=(28, 28)`, where records are their pixels.",
        )
        asked, kept = _counted(n_images), (len(self.shown) + 1) // 2
        _require(
            asked <= kept or len(self.shown) == len(self.errors),
            f"`n_images` must be at most the {kept} records that were kept of each kind; got "
            f"{n_images}. Pass `n_images={n_images}` when the display is made.",
        )
        order = _extremes(self.bounds[self.shown], asked)
        half = (len(order) + 1) // 2
        blocks = {"smallest bounds": order[:half], "largest bounds": order[half:]}
        blocks = {title: records for title, records in blocks.items() if len(records)}
        shape = (2 * len(blocks), half)
        made = new_axes(ax, (1.1 * half + 0.6, 2.7 * len(blocks)), shape, squeeze=False)
        what = f"{shape[0] * half} Axes, {half} in each of {shape[0]} rows"
        axes = np.array(panels(made, (shape[0] * half,), what), dtype=object).reshape(shape)
        for each in axes.ravel():
            each.set(xticks=[], yticks=[])
            each.spines[:].set_visible(False)
        drawn = self.originals[order]
        span = float(drawn.min()), float(max(drawn.max(), drawn.min() + 1e-12))
        sources = {"record": self.originals, "guess": self.reconstructions}
        for k, (title, records) in enumerate(blocks.items()):
            axes[2 * k, 0].set_title(title, fontsize="small", loc="left")
            for row, (what, source) in zip(axes[2 * k : 2 * k + 2], sources.items(), strict=True):
                row[0].set_ylabel(what, fontsize="small")
                for each, position in zip(row, records, strict=False):
                    image = np.clip(np.nan_to_num(source[position]), *span)
                    image = image.reshape(self.image_shape)
                    if image.ndim == 3:
                        image = (image - span[0]) / (span[1] - span[0])
                    each.imshow(image, cmap="gray", vmin=span[0], vmax=span[1])
            for each, position in zip(axes[2 * k + 1], records, strict=False):
                error = f"error\n{number(self.errors[self.shown[position]])}"
                each.set_xlabel(error, fontsize="x-small", labelpad=2.0)
        self.axes_ = axes
        return self._keep(axes[0, 0])


def _extremes(bounds: FloatArray, n: int) -> IntArray:
    """Return the records of the n smallest bounds, then of the n largest, most exposed first."""
    order = np.argsort(bounds, kind="stable")
    n = min(n, (len(order) + 1) // 2)
    return np.concatenate([order[:n], order[max(n, len(order) - n) :]])


def _range(values: FloatArray) -> tuple[float, float]:
    """Limits of a logarithmic axis: of what is positive and finite, but no wild outlier."""
    usable = np.log10(values[(values > 0.0) & np.isfinite(values)])
    if not len(usable):
        return 0.1, 10.0
    low, middle, high = np.quantile(usable, [0.05, 0.5, 0.95])
    # Within a few times the spread of most; twenty decades are not readable.
    room = max(2.5 * (high - low), 1.0)
    low, high = max(usable.min(), middle - room), min(usable.max(), middle + room)
    pad = 0.05 * max(high - low, 0.5)
    return 10.0 ** (low - pad), 10.0 ** (high + pad)


def _require(met: Any, message: str) -> None:
    if not met:
        raise ValueError(message)


def _squares(name: str, values: npt.ArrayLike) -> FloatArray:
    """Squared errors as a copy, or say what is wrong with them."""
    array = np.array(values, dtype=float)
    shape = f"`{name}` must hold one number per record; got shape {array.shape}."
    _require(array.ndim == 1 and len(array), shape)
    wrong = f"`{name}` must be mean squared errors, not negative and not NaN; got {array.min():g}."
    _require(np.all(array >= 0.0), wrong)
    return array


def _positions(shown: npt.ArrayLike, n_shown: int, n_records: int) -> IntArray:
    """Positions of the records that are kept, or say what is wrong with them."""
    found = np.array(shown)
    _require(
        found.shape == (n_shown,) and found.dtype.kind in "iu",
        f"`shown` must be the positions of the {n_shown} records of `originals`; got shape "
        f"{found.shape} of type {found.dtype}.",
    )
    low, high = found.min(initial=n_records - 1), found.max(initial=0)
    below = f"`shown` must be positions below {n_records}; got {low} to {high}."
    _require(low >= 0 and high < n_records, below)
    return found.astype(np.intp)


def _sizes(shape: Sequence[int] | None, d: int) -> tuple[int, ...] | None:
    """Sizes of an image of d values, or say what is wrong with them."""
    if shape is None:
        return None
    sizes = tuple(int(size) for size in shape)
    colored = len(sizes) == 3 and sizes[2] in (3, 4)
    _require(
        (len(sizes) == 2 or colored) and np.prod(sizes) == d,
        "`image_shape` must be (height, width) or (height, width, 3) of images of "
        f"{d} values; got {sizes}. Pass None where records are no images.",
    )
    return sizes


def _counted(n_images: int) -> int:
    """Check a number of images, or say what is wrong with it."""
    whole = not isinstance(n_images, bool) and int(n_images) == n_images and n_images >= 1
    _require(whole, f"`n_images` must be a whole number of at least 1; got {n_images!r}.")
    return int(n_images)
