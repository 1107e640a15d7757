"""What an attacker gains from a model: frozen numbers, and the forms they take."""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.metrics import Interval
from skleak.plotting.labels import code, number, percent, plural


@dataclass(frozen=True, repr=False)
class AttributeGain:
    """Success of guesses of an attribute of training records, of others, and without the model.

    Objects of this kind come from `attribute_gain`. Rates are shares of right guesses; of a numeric
    attribute ``1 - mse / spread``, with one spread, the variance over both samples.

    Parameters
    ----------
    attack : str
        The attack that was played.
    attribute : str
        Name or position of the sensitive column.
    kind : {"categorical", "numeric"}
        Whether values are guessed or a quantity is estimated.
    training, control : Interval
        Success with training records, and with records the models have never seen.
    leakage : Interval
        ``training - control``: what training records lose by having been trained on.
    imputation_training, imputation_control : Interval or None
        Success of imputation without the model; None where it was not asked for.
    over_imputation : Interval or None
        ``training - imputation_training``: what is gained from the model, leakage or not.
    shift : Interval or None
        ``imputation_training - imputation_control``: where it does not hold 0, the two samples
        differ by more than membership, and the leakage is not to be trusted.
    baseline_training, baseline_control : float
        Success of guessing the most frequent value, or the mean, of the other records.
    n_training, n_control, n_models : int
        Records attacked, and models.
    confidence_level : float
        Of each interval.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skleak.attacks import BlackBoxAttributeInference
    >>> from skleak.audit import attribute_gain
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 600), rng.integers(0, 9, (600, 3))])
    >>> y = rng.choice(["no", "yes"], size=600)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X[:300], y[:300])
    >>> attack = BlackBoxAttributeInference(tree, 0, criterion="proba")
    >>> gain = attribute_gain(attack, tree, X[:300], y[:300], X[300:], y[300:])
    >>> gain.training.estimate > gain.control.estimate
    True
    """

    attack: str
    attribute: str
    kind: str
    training: Interval
    control: Interval
    leakage: Interval
    imputation_training: Interval | None
    imputation_control: Interval | None
    over_imputation: Interval | None
    shift: Interval | None
    baseline_training: float
    baseline_control: float
    n_training: int
    n_control: int
    n_models: int
    confidence_level: float

    @property
    def verdict(self) -> str:
        """Verdict of the interval of the leakage, in words."""
        if self.leakage.low > 0.0:
            return f"leaks: {self._compared()}"
        if self.leakage.high < 0.0:
            return f"the samples differ: {self._compared()}"
        return f"no leakage beyond the population seen: {self._compared()}"

    @property
    def findings(self) -> tuple[str, ...]:
        """The verdict, and what else the numbers say, in sentences."""
        said = [self.verdict[0].upper() + self.verdict[1:] + "."]
        if self.leakage.high < 0.0:
            said.append(
                "Training records should be no harder to guess than control records: take control "
                "records from the same population."
            )
        if self.shift is not None and not self.shift.low <= 0.0 <= self.shift.high:
            said.append(
                "Imputation alone succeeds more often with one sample than with the other: they "
                "differ by more than membership, and so may the attack's success."
            )
        if self.over_imputation is not None and self.over_imputation.high <= 0.0:
            said.append(
                "Imputation without the model does better on training records: this attack does "
                "not use what its adversary knows."
            )
        elif self.over_imputation is not None and self._beats_imputation_without_leakage():
            said.append(
                "The attack does better than the imputation, and as well on control records: "
                "what the model gives away is of the population."
            )
        return tuple(said)

    def _beats_imputation_without_leakage(self) -> bool:
        gained = self.over_imputation is not None and self.over_imputation.low > 0.0
        return gained and self.leakage.low <= 0.0 <= self.leakage.high

    def _compared(self) -> str:
        if self.kind == "numeric":
            errors = 1.0 - self.training.estimate, 1.0 - self.control.estimate
            return (
                f"the squared error is {number(errors[0])} of the spread with training records, "
                f"{number(errors[1])} with control records{_ratio(errors, 'as large')}"
            )
        rates = self.training.estimate, self.control.estimate
        return (
            f"training records are guessed right in {percent(rates[0])} of cases, control records "
            f"in {percent(rates[1])}{_ratio(rates, 'as often')}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return all rates and differences as a table.

        Returns
        -------
        DataFrame
            Index ``quantity``: "training", "control", "leakage", where imputation was asked for
            "imputation_training", "imputation_control", "over_imputation" and "shift", and
            "baseline_training" and "baseline_control". Columns ``estimate``, ``low``, ``high``,
            NaN for the ends of the baselines.
        """
        names = ["training", "control", "leakage"]
        names += ["imputation_training", "imputation_control", "over_imputation", "shift"]
        rows = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for name in ("baseline_training", "baseline_control"):
            rows[name] = (getattr(self, name), np.nan, np.nan)
        index = pd.Index(rows, name="quantity")
        return pd.DataFrame(list(rows.values()), index, ["estimate", "low", "high"], dtype=float)

    def to_text(self) -> str:
        """Return the result as text for a terminal.

        Returns
        -------
        str
        """
        rows = self._rows()
        width = max(len(label) for label, _ in rows)
        lines = [self._title(), ""]
        lines += [f"  {label:<{width}}  {value}" for label, value in rows]
        return "\n".join([*lines, "", *self.findings, self._made()])

    def plot(self, ax: Any = None) -> Any:
        """Plot the success with training records, with control records, and of imputation.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        AttributeGainDisplay
        """
        from skleak.plotting import AttributeGainDisplay

        return AttributeGainDisplay(self).plot(ax=ax)

    def _title(self) -> str:
        return f"What {self.attack} gains from the model about {code(self.attribute)}"

    def _made(self) -> str:
        share = percent(self.confidence_level)
        records = f"{plural(self.n_training, 'training record')} and {self.n_control} control"
        return f"{records}, {plural(self.n_models, 'model')}; intervals at {share}."

    def _rows(self) -> list[tuple[str, str]]:
        """Labels and values, for people."""
        rows = [("training records", self.training), ("control records", self.control)]
        rows.append(("leakage (difference)", self.leakage))
        for label, rate in (
            ("imputation, training", self.imputation_training),
            ("imputation, control", self.imputation_control),
            ("gain over imputation", self.over_imputation),
        ):
            rows += [(label, rate)] if rate is not None else []
        written = [(label, self._written(rate)) for label, rate in rows]
        show = percent if self.kind == "categorical" else number
        baselines = f"{show(self.baseline_training)}, control {show(self.baseline_control)}"
        return [*written, ("prior guess, training", baselines)]

    def _written(self, rate: Interval) -> str:
        show = percent if self.kind == "categorical" else number
        return f"{show(rate.estimate)} ({show(rate.low)} to {show(rate.high)})"

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        cell = "padding:2px 14px 2px 0;text-align:left"
        rows = "".join(
            f'<tr><td style="{cell}">{html.escape(label)}</td>'
            f'<td style="{cell}">{html.escape(value)}</td></tr>'
            for label, value in self._rows()
        )
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.findings)
        return (
            f"<div><strong>{html.escape(self._title())}</strong>{said}"
            f"<table>{rows}</table><p>{html.escape(self._made())}</p></div>"
        )


def _ratio(values: tuple[float, float], what: str) -> str:
    return f" ({values[0] / values[1]:.2f} times {what})" if values[1] > 0.0 else ""
