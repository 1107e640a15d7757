"""What attribute attacks share."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import softmax
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import check_weights
from skleak.adversary.knowledge import (
    Population,
    Secret,
    as_column,
    as_table,
    find_secret,
    of_first_rows,
    range_of_others,
    remember_columns,
    resolve_records,
)
from skleak.adversary.numbers import NumberPrior, chebyshev_nodes, maximize
from skleak.adversary.records import reference_table, stack_records, stack_targets
from skleak.attacks._base import Attack, guarded
from skleak.exceptions import AttackNotApplicableError
from skleak.metrics.scores import attack_success
from skleak.utils._blocks import row_blocks
from skleak.utils._records import Persons, named, row_labels, withholding
from skleak.utils._sklearn_compat import HasMethods, RawTableMixin, StrOptions
from skleak.utils._typing import Array, FloatArray, IntArray

# Entries of one table of log-likelihoods, releases x targets x values: 64 MB.
_TABLE_ELEMENTS = 1 << 23


def has_posterior(attack: Any) -> bool:
    """Return True if an attack has a posterior, or say why it has none."""
    if attack._no_posterior:
        raise AttributeError(attack._no_posterior)
    return True


@dataclass(eq=False, repr=False)
class AttributeAttack(RawTableMixin, Attack):
    """Guess one column of the training records, given all else about them.

    A subclass computes in `_learn` what the adversary knows once and for all, and says in `_scores`
    how likely every candidate value makes a release.
    """

    # How games ask an attack of this very class, which each has to say itself: about a release of
    # its own for each target, about some of the targets, or about all of them.
    _games: ClassVar[Literal["each", "some", "all"]]
    _takes_persons: ClassVar[bool] = True

    _parameter_constraints = Attack._parameter_constraints | {
        "prior": [
            StrOptions({"marginal", "uniform", "conditional"}),
            "array-like",
            HasMethods(["pdf", "ppf", "cdf"]),  # of a number
        ],
    }

    _: KW_ONLY
    values: Any = None
    records: Any = None

    @guarded
    def fit(
        self,
        X: Any,
        y: Any = None,
        X_reference: Any = None,
        y_reference: Any = None,
        *,
        sample_weight: Any = None,
        persons: Any = None,
    ) -> Self:
        """Learn what the adversary knows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records, those under attack among them. The attribute of a target does not
            enter its guess.
        y : array-like of shape (n,), default=None
            Targets the model was trained on. Only attacks that do not look at the model do without;
            with ``attribute=None`` they are the secret.
        X_reference, y_reference : array-like of shape (m, n_columns) and (m,), default=None
            Raw records of the population, and their targets, from which the prior, and the range
            of a number, are learned in place of those of the other training records.
            `InformedAttributeInference` learns from none.
        sample_weight : array-like of shape (n,), default=None
            Weights of the records in the fit under attack, which the adversary knows; in a
            pipeline they go to its last step. A target changes with all of its weight; one of
            weight zero leaves no trace. A row is one person whatever it weighs: priors,
            imputations and what answers are compared with count rows.
        persons : array-like of shape (n,), default=None
            Whose row each is. A target is then a person, whose attribute is that of all rows of
            theirs: these change together, and a model is asked about all of them, of which equal
            ones count once. Priors are read off first rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it or in `y`, more than 64
            categories, candidate values that its categories lack, or a wrong prior; for invalid
            weights, and for an estimator that was fitted with weights where none are given; for
            missing persons, or of another length; for reference records without their targets, of
            other columns, or beside a prior that learns from none.
        AttackNotApplicableError
            For a model without what the attack reads: coefficients, or a training objective that
            is known; for an attribute that the preprocessing drops, or bins where it is a number;
            for a number, or an attribute that differs, where persons have several rows; for noise
            whose shape depends on the data where the preprocessing is refitted, or the candidates
            are too many; and for reference records or persons that an attack does not take.
        """
        table, y, everyone = self._know(X, y, X_reference, y_reference, persons)
        self._learn(table, y, everyone, check_weights(sample_weight, table))
        return self

    @abstractmethod
    def _learn(self, table: Any, y: Array, everyone: Population, weights: Any) -> None:
        """Learn from records (n, ...) and their weights (n,), None where all count alike."""

    def _know(
        self, X: Any, y: Any, X_reference: Any = None, y_reference: Any = None, persons: Any = None
    ) -> tuple[Any, Array, Population]:
        """Validate the records, and set what every attack on an attribute knows of them.

        Returns the attacked records as a table, their targets, and the population whose secrets
        teach a prior.
        """
        for name in ("prior_", "estimates_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._density: NumberPrior | None = None  # of a number, where there is a prior
        table = as_table(X)
        y = self._check_target(y, table)
        remember_columns(self, table)
        if persons is not None:
            if not self._takes_persons:
                raise AttackNotApplicableError(
                    f"{type(self).__name__} guesses rows; got `persons`. Leave them out to count "
                    "each row by itself, or use WhiteBoxAttributeInference."
                )
            persons = Persons.of(persons, len(table), named(row_labels(table)))
        rows = resolve_records(self.records, len(table))
        # Whoever has some of the records is under attack with all of theirs.
        self._units = Persons.attacked(persons, rows)
        self.records_ = self._units.first
        everyone = self._population(table, y, X_reference, y_reference, persons)
        secret = everyone.secret
        self.numeric_ = secret.numeric
        if secret.values is None:
            column, places = everyone.others(secret.column)
            self._ends = tuple(end[places] for end in range_of_others(column))
            self.values_ = chebyshev_nodes(*self._ends).T
        else:
            self.values_ = secret.values
            prior = getattr(self, "prior", "marginal")
            learned = isinstance(prior, str) and prior in ("marginal", "conditional")
            if everyone.teachers is not None and not learned:
                raise ValueError(
                    "`X_reference` teaches the prior of the attribute; got it beside "
                    f"prior={prior!r:.100}, which learns from no record. Leave `X_reference` and "
                    "`y_reference` out, or pass prior='marginal' or 'conditional'."
                )
        self._learn_prior(everyone)
        return table, y, everyone

    def _population(
        self, table: Any, y: Any, X_reference: Any, y_reference: Any, persons: Persons | None
    ) -> Population:
        """Stack the reference records, if any, below those under attack, and read the secret.

        Of persons the first rows count, and each reference record for one.
        """
        n, teachers, targets = len(table), None, self.records_
        known = y is not None
        reference = reference_table(table, X_reference, y_reference, with_targets=known)
        if reference is not None:
            table = stack_records(table, reference.X)
            y = stack_targets(y, reference.y) if known else None
            teachers = np.arange(n, len(table))
        secret = self._secret(table, y)
        if persons is not None:
            targets = np.searchsorted(persons.first, targets)
            if teachers is not None:
                starts = np.append(persons.starts, len(persons.rows) + 1 + teachers - n)
                rows, teachers = np.append(persons.rows, teachers), teachers - n + len(persons)
                persons = Persons(rows, starts)
            table, y, secret = of_first_rows(table, y, secret, persons)
        return Population(table, None if secret.is_target else y, secret, targets, teachers)

    def _secret(self, table: Any, y: Array) -> Secret:
        return find_secret(table, self.attribute, self.values)

    def _learn_prior(self, everyone: Population) -> None:
        if not self.numeric_:
            self.prior_ = everyone.prior(self.prior)

    def _check_target(self, y: Any, table: Any) -> Array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} needs `y`, the targets the model was trained on: the "
                "adversary knows them. Pass `fit(X, y)`."
            )
        return as_column(y, table)

    @property
    def _candidates(self) -> Array:
        """Candidate values, (n_values,) or (n_values, n_targets) for a quantity."""
        return self.values_.T

    @property
    def _no_posterior(self) -> str:
        """Why there are no probabilities; empty where there are: a quantity has none."""
        if not getattr(self, "numeric_", False):
            return ""
        return (
            "A numeric attribute is guessed by maximum likelihood, which has no probabilities. "
            "Pass `values` to treat it as one of a few values."
        )

    @property
    def _table_width(self) -> int:
        """Entries of the table of log-likelihoods of one release."""
        return len(self.records_) * len(self._candidates)

    @abstractmethod
    def _read(self, released: Any, noise_scale: Any, each: int | None) -> tuple[Any, int, bool]:
        """Return the validated releases, their number, and whether a single one was given.

        With `each`, every one of so many targets has releases of its own.
        """

    @abstractmethod
    def _scores(self, releases: Any, rows: slice) -> FloatArray:
        """Log-likelihoods under some of the releases, of shape (n_rows, n_targets, n_values).

        A constant for every release and target may be left out.
        """

    def predict(self, released: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            What was released: a fitted or released model, or parameters of shape
            (n_parameters,) or (n_releases, n_parameters), coefficients then intercept.
        noise_scale : float or array-like of shape (n_releases,), default=None
            Standard deviation of the noise on every parameter. None takes what each released
            model states, and for arrays that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_releases, n_targets)
            The value of largest posterior probability; of a numeric attribute the likeliest.
        """
        return self._answer(self._guesses, released, noise_scale)

    def predict_each(self, released: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target from releases of its own.

        For games about one record at a time: its secret is drawn, the model is trained anew and
        released, and only that record is guessed.

        Parameters
        ----------
        released : array-like of shape (n_releases, n_targets, n_parameters)
            Parameters, coefficients then intercept; entry ``[r, i]`` of a game about target i.
        noise_scale : float or array-like of shape (n_releases,), default=None
            Standard deviation of the noise on every parameter; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_releases, n_targets)
            Entry ``[r, i]`` is ``predict(released[r, i])[i]``.

        Raises
        ------
        ValueError
            For another shape, values that are not finite, or a noise scale that is negative, of
            the wrong shape or not known.
        """
        return self._answer(self._guesses, released, noise_scale, each=True)

    def _answer(
        self,
        answer: Callable[[Any, slice], Array],
        released: Any,
        noise_scale: Any,
        *,
        each: bool = False,
    ) -> Array:
        """Answer about releases, some at a time so that the tables stay small."""
        check_is_fitted(self, "values_")
        own = len(self.records_) if each else None
        releases, count, single = self._read(released, noise_scale, own)
        blocks = row_blocks(count, self._table_width, _TABLE_ELEMENTS)
        answers = np.concatenate([answer(releases, rows) for rows in blocks])
        return answers[0] if single else answers

    def _guesses(self, releases: Any, rows: slice) -> Array:
        """Guesses from some of the releases, (n_rows, n_targets)."""
        scores = self._scores(releases, rows)
        return self._likeliest(scores) if self.numeric_ else self.values_[self._positions(scores)]

    def _log_posterior(self, scores: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return scores + np.log(self.prior_)

    def _positions(self, scores: FloatArray) -> Array:
        """Positions of the guesses among the values."""
        return self._log_posterior(scores).argmax(axis=-1)

    def _ranked(
        self, released: Any, noise_scale: Any, value: Any, *, each: bool = False
    ) -> tuple[Array, FloatArray]:
        """Guess as `predict` or `predict_each` does, and return the log-odds of one value, too.

        Shapes: returns (n_releases, n_targets) each.
        """
        own = self.values_ == value

        def both(releases: Any, rows: slice) -> FloatArray:
            scores = self._scores(releases, rows)
            joint = self._log_posterior(scores)
            with np.errstate(invalid="ignore"):
                odds = joint[..., own][..., 0] - np.logaddexp.reduce(joint[..., ~own], axis=-1)
            return np.stack([self._positions(scores), np.nan_to_num(odds)], axis=-1)

        found = self._answer(both, released, noise_scale, each=each)
        return self.values_[found[..., 0].astype(np.intp)], found[..., 1]

    def _likeliest(self, scores: FloatArray) -> FloatArray:
        """Numbers from scores at nodes: likeliest, or with a density means of the posterior."""
        low, high = self._ends
        if self._density is not None:
            return self._density.posterior_mean(scores, low, high)
        n_releases, n_targets, n_nodes = scores.shape
        flat = scores.reshape(-1, n_nodes)
        best = np.empty(len(flat))
        for rows in row_blocks(len(flat), 8 * n_nodes, _TABLE_ELEMENTS):
            best[rows] = maximize(flat[rows])
        return low + (high - low) * 0.5 * (best.reshape(n_releases, n_targets) + 1.0)

    @available_if(has_posterior)
    def predict_proba(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Posterior probability of every candidate value.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `predict`.
        noise_scale : float or array-like of shape (n_releases,), default=None
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_targets, n_values) or (n_releases, n_targets, n_values)
            In the order of ``values_``; sums to 1.
        """

        def posterior(releases: Any, rows: slice) -> FloatArray:
            scores = self._log_posterior(self._scores(releases, rows))
            return np.asarray(softmax(scores, axis=-1))

        return self._answer(posterior, released, noise_scale)

    @withholding
    def score(self, released: Any, truth: Any, noise_scale: Any = None) -> float:
        """Success of the guesses, averaged over targets and releases.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `predict`.
        truth : array-like of shape (n_targets,)
            True values of the targets.
        noise_scale : float or array-like of shape (n_releases,), default=None
            As in `predict`.

        Returns
        -------
        float
            Share of right guesses; of a numeric attribute the coefficient of determination.

        Raises
        ------
        ValueError
            Where there is not one true value for each target, or one is missing.
        TypeError
            Where guesses and true values are of different kinds, such as strings and numbers.
        """
        guesses = np.atleast_2d(self.predict(released, noise_scale))
        truth = column_or_1d(np.asarray(truth))
        if len(truth) != guesses.shape[1]:
            raise ValueError(
                f"`truth` must hold the true value of each of the {guesses.shape[1]} targets; "
                f"got {len(truth)}. Select them with `records_`."
            )
        if self.numeric_:
            return float(np.mean([r2_score(truth, guess) for guess in guesses]))
        try:
            return float(np.mean(attack_success(guesses, truth)))
        except TypeError:
            raise TypeError(
                f"`truth` must hold values of the kind of the guesses, such as "
                f"{self.values_.tolist()[0]!r}; got {truth.tolist()[0]!r}, and no guess could be "
                "right. Pass the raw column that the attack was fitted on."
            ) from None


class SomeTargets(AttributeAttack):
    """Guess, of every release, the attribute of one target only."""

    # Attributes that hold something of each target, in their order.
    _of_targets: ClassVar[tuple[str, ...]] = ("records_", "prior_")

    def _about(self, targets: IntArray) -> Self:
        """Return the fitted attack about some of its targets, which may come more than once."""
        one = type(self).__new__(type(self))
        one.__dict__.update(self.__dict__)
        for name in (*self._of_targets, *(["values_"] if self.numeric_ else [])):
            if name in self.__dict__:
                setattr(one, name, getattr(self, name)[targets])
        return one

    def predict_some(self, released: Any, targets: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of one target of each release.

        For games about targets drawn at random, where guesses about all others are not needed.

        Parameters
        ----------
        released : array-like of shape (n_releases, n_parameters)
            Parameters, coefficients then intercept.
        targets : array-like of shape (n_releases,)
            Position among ``records_`` of the target of each release.
        noise_scale : float, default=None
            Standard deviation of the noise on every parameter; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_releases,)
            Entry r is ``predict(released[r])[targets[r]]``.

        Raises
        ------
        ValueError
            For another shape, values that are not finite, or positions that are not among the
            targets.
        """
        check_is_fitted(self, "values_")
        positions, n_targets = np.asarray(targets), len(self.records_)
        whole = positions.ndim == 1 and positions.dtype.kind in "iu" and len(positions) > 0
        if not whole or positions.min() < 0 or positions.max() >= n_targets:
            raise ValueError(
                "`targets` must hold one position for each release, whole numbers from 0 to "
                f"{n_targets - 1}; got {positions!r:.200}. These are positions among `records_`."
            )
        released = np.asarray(released)
        if released.ndim != 2 or len(released) != len(positions):
            raise ValueError(
                f"`released` must have shape ({len(positions)}, n_parameters), a release for each "
                f"of `targets`; got shape {released.shape}."
            )
        return np.asarray(self._about(positions).predict_each(released[None], noise_scale)[0])
