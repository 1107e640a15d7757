"""Compute a report of private SGD from what a training added up, and from public numbers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak._released import TABLE
from skleak.bounds import fisher_information_loss_mse
from skleak.neural.guarantee import SGDGuarantee
from skleak.neural.information import StepMechanism, Totals
from skleak.neural.report._facts import SGDFacts
from skleak.neural.report._findings import facts
from skleak.neural.report._report import PrivateSGDReport
from skleak.neural.report._sentences import assumptions, findings
from skleak.neural.report._spread import Spread
from skleak.plotting.results import median
from skleak.utils._typing import Array, FloatArray

_N_MOST_EXPOSED = 10
# Secrets whose guesses are bounded: how they are called, and how many values they have.
_SECRETS = {"two values": 2, "ten values": 10, "a hundred values": 100}
MEMBERSHIP = "trained on or not"
# What a guarantee is about, and what it takes for public.
ABOUT = f"replacement of one row of {TABLE}, whose number of rows and class labels are public"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A training as its report takes it. Confidential.

    Attributes
    ----------
    estimator : str
        Name of the estimator.
    mechanism : StepMechanism
        What each step adds.
    n_steps : int
        Steps that were taken.
    delta : float
        Delta of the guarantee.
    seeded : bool
        Whether the noise can be drawn again.
    private_target : bool
        Whether the target is among the unknowns.
    totals : Totals or None
        Fisher information of the records that were followed; None where it is not known.
    losses : dict of str to ndarray of shape (n,)
        "fisher_information_loss", "diagonal_fisher_information_loss", and both with "_error": NaN
        for records that were not followed. Empty where nothing is known.
    undeclared : tuple of str
        What a guarantee takes for public and was not declared, in words.
    missing : str
        Why the Fisher information is not known; empty where it is.
    X, y : array of shape (n, ...), (n,)
        Training records and their encoded targets.
    settings : dict
        Further public settings of the training.
    """

    estimator: str
    mechanism: StepMechanism
    n_steps: int
    delta: float
    seeded: bool
    undeclared: tuple[str, ...]
    private_target: bool
    totals: Totals | None
    losses: dict[str, FloatArray]
    missing: str
    X: Any
    y: Array
    settings: dict[str, Any]


def build_report(trained: Trained) -> PrivateSGDReport:
    """Measure what a training leaks and guarantees, and say what it means."""
    records = _records(trained)
    guarantee, privacy, guesses = None, _no_privacy(trained), pd.DataFrame()
    if trained.mechanism.noise_multiplier > 0.0 and not trained.undeclared:
        guarantee = SGDGuarantee(
            trained.mechanism.effective_noise_multiplier,
            trained.mechanism.sampling_rate,
            trained.n_steps,
            trained.mechanism.sampling,
            trained.delta,
        )
        privacy, guesses = _differential_privacy(trained, guarantee)
    numbers = SGDFacts(
        estimator=trained.estimator,
        records=records,
        guesses=guesses,
        reconstruction=_reconstruction(trained, records, guarantee),
        differential_privacy=privacy,
        dataset=_dataset(trained, records),
    )
    found = facts(numbers)
    report = PrivateSGDReport(**numbers.__dict__, facts=found)
    return replace(report, findings=findings(numbers, found), assumptions=assumptions(numbers))


def _records(trained: Trained) -> pd.DataFrame:
    n = int(trained.X.shape[0])
    names = ("fisher_information_loss", "diagonal_fisher_information_loss")
    columns = {}
    for name in names:
        for part in (name, f"{name}_error"):
            columns[part] = trained.losses.get(part, np.full(n, np.nan))
    loss = columns[names[1]]
    columns["unbiased_mse"] = np.full(n, np.nan)
    known = ~np.isnan(loss)
    columns["unbiased_mse"][known] = fisher_information_loss_mse(loss[known])
    return pd.DataFrame(columns, index=pd.RangeIndex(n, name="record"))


def _no_privacy(trained: Trained) -> dict[str, Any]:
    unknown = dict.fromkeys(("epsilon", "renyi", "noise_multiplier"), np.nan)
    noiseless = () if trained.mechanism.noise_multiplier > 0.0 else ("no noise was added",)
    return {
        "holds": False,
        "reasons": (*trained.undeclared, *noiseless),
        "about": ABOUT,
        "relation": "replace",
        "delta": trained.delta,
        "sampling": trained.mechanism.sampling,
        "sampling_rate": trained.mechanism.sampling_rate,
        **unknown,
    }


def _differential_privacy(
    trained: Trained, guarantee: SGDGuarantee
) -> tuple[dict[str, Any], pd.DataFrame]:
    """State the guarantee, and what it says of guesses; without dp-accounting a divergence only."""
    stated = _no_privacy(trained) | {
        "renyi": guarantee.renyi,
        "noise_multiplier": guarantee.noise_multiplier,
    }
    reasons = []
    if trained.seeded:
        reasons.append("the noise came from a seed or a generator, and can be drawn again")
    guesses = pd.DataFrame()
    try:
        stated["epsilon"] = guarantee.epsilon
        guesses = _guesses(guarantee)
    except ImportError as error:
        reasons.append(str(error))
    return stated | {"holds": not reasons, "reasons": tuple(reasons)}, guesses


def _guesses(guarantee: SGDGuarantee) -> pd.DataFrame:
    rows = []
    for secret, n_values in _SECRETS.items():
        gain = guarantee.advantage(n_values)
        found = guarantee.true_positives(0.01) if n_values == 2 else np.nan
        rows.append((secret, 1.0 / n_values, gain, found))
    found = guarantee.true_positives(0.01, membership=True)
    rows.append((MEMBERSHIP, 0.5, guarantee.membership_advantage(), found))
    columns = ["secret", "success_prior", "advantage", "true_positives_at_1pct"]
    table = pd.DataFrame(rows, columns=columns)
    priors = np.stack([table["success_prior"], 1.0 - table["success_prior"]], axis=1)
    success = priors[:, 0] + table["advantage"] * priors[:, 1]
    table.insert(2, "success", success)
    return table


def _reconstruction(
    trained: Trained, records: pd.DataFrame, guarantee: SGDGuarantee | None
) -> pd.DataFrame:
    """Lower bounds on the mean squared error per entry of a record."""
    totals = trained.totals
    entries = int(np.prod(trained.X.shape[1:]))
    unknowns = entries if totals is None else totals.n_unknowns
    spread = Spread.of(trained.X, trained.y, unknowns)
    found: dict[str, float] = {}
    bounds = records["unbiased_mse"].dropna()
    if len(bounds):
        found["most_exposed"] = float(bounds.min())
        found["median"] = float(bounds.median())
    if totals is not None:
        factor = trained.mechanism.printed_factor(trained.delta)
        plain = factor * float(totals.plain.max()) / totals.n_unknowns
        found["printed"] = float(fisher_information_loss_mse(np.sqrt(plain)))
    if guarantee is not None and spread.widths.max(initial=0.0) > 0.0:
        found["renyi"] = float(guarantee.reconstruction_mse(spread.widths))
    if totals is not None:
        found["van_trees"] = spread.van_trees_mse(float(totals.trace.mean()))
    found["guess"] = spread.guess_mse
    mse = pd.Series(found, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = mse / spread.guess_mse
    table = pd.DataFrame({"mse": mse, "root": np.sqrt(mse), "over_guess": over})
    return table.rename_axis("bound")


def _dataset(trained: Trained, records: pd.DataFrame) -> dict[str, Any]:
    step, totals = trained.mechanism, trained.totals
    loss = records["fisher_information_loss"]
    known = loss.notna()
    whole = records["diagonal_fisher_information_loss"]
    order = np.argsort(-whole[known].to_numpy(), kind="stable")[:_N_MOST_EXPOSED]
    return {
        "n_records": len(records),
        "n_followed": int(known.sum()),
        "n_entries": int(np.prod(trained.X.shape[1:])),
        "private_target": trained.private_target,
        "noise_multiplier": step.noise_multiplier,
        "max_grad_norm": step.clipping.max_grad_norm,
        "clipping": step.clipping.name,
        "sensitivity": step.clipping.sensitivity,
        "sampling": step.sampling,
        "sampling_rate": step.sampling_rate,
        "n_steps": trained.n_steps,
        "seeded": trained.seeded,
        "scope": None if totals is None else totals.scope,
        "n_runs": None if totals is None else totals.n_runs,
        "exact": None if totals is None else totals.exact,
        "missing": trained.missing,
        "max_loss": float(loss.max()),
        "median_loss": median(loss),
        "most_exposed_records": records.index[known][order].tolist(),
        **trained.settings,
    }
