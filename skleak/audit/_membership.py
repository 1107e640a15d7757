"""The audit of membership: who was trained on, for any estimator."""

from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal

from skleak.audit._base import BaseAuditor
from skleak.audit.games._game import Game, Task
from skleak.audit.games._outside import Outside
from skleak.audit.games.membership._game import membership_game
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._sklearn_compat import Interval
from skleak.utils._typing import RandomState


class MembershipAuditor(BaseAuditor):
    """Audit whether releases of a model reveal who it was trained on.

    Train on every candidate with probability `prior`, independently, `n_releases` times, and let
    attacks guess the members. Any classifier, regressor or pipeline is trained anew in each
    release, on the same members at all noise levels; without noise of its own it gets noise added
    to its coefficients. Test records, or else a quarter of the candidates, are never trained on:
    they calibrate attacks and measure utility. All results are confidential. See the user guide,
    docs/theory/membership.md.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Model to audit; clones of it are fitted. Where a stated ``noise_scale`` is not what its fits
        add, the measured noise is used, with a warning.
    attacks : "default", str, attack, list of them or dict of name to attack, default="default"
        Names of scores of `skleak.attacks.MembershipInference` ("loss", "likelihood",
        "modified_entropy", "gradient_norm"), thresholded at the optimum of the other releases;
        "likelihood_ratio" and "robust", from 3 releases on, whose shadow models are the other
        releases; "exact", which knows all other memberships; or objects with
        ``fit(X_candidates, y_candidates, X_reference, y_reference)`` and ``predict(model)``. By
        default all that apply and differ, "robust" only below 8 releases.
    noise_scales : float, array-like of float or None, default=None
        Standard deviations of the noise to audit, 0 or more; noise multipliers of private SGD.
        None takes that of the estimator, and 0 where it adds none.
    n_releases : int, default=100
        Simulated releases at each noise level; with ``secrets="drawn"`` the games of each record.
    secrets : {"actual", "drawn"}, default="actual"
        "actual" draws all memberships for every release, and attacks all candidates at once.
        "drawn" takes one record at a time in or out, and all others in: it needs a closed form,
        and attacks other than "exact" need test records.
    prior : float, default=0.5
        Probability of membership, in (0, 1).
    groups : str, int or None, default=None
        Column of X by whose values guesses are tested as well, beside those by class and about
        copies of a record: attacks may be right about a few people and know nothing of the rest.
    max_advantage : float, default=0.05
        Advantage over guessing that is tolerated, in [0, 1]: the report begins with the smallest
        noise scale that keeps it, what that costs, and how many records it leaves exposed, at
        least.
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute: "dp", "bayes" and, with drawn secrets, those of `LeakageAuditor`.
    records : array-like of int, boolean mask, slice or None, default=None
        Candidates; all by default. Other records are always trained on.
    refit_preprocessing : bool, default=False
        Train all of a pipeline anew. False counts fitted preprocessing as public.
    checkpoint : str, Path or None, default=None
        File that keeps finished cells, from which `fit` continues. Confidential.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib. The tables do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.
    random_state : None, int, RandomState or Generator, default=0
        Seed of the simulated releases and memberships: two runs agree. Their noise protects
        nobody, and a seed that is known costs nothing. None takes fresh entropy.

    Attributes
    ----------
    results_, records_ : DataFrame
        A row for each noise level and attack, and for each noise level and candidate, with its
        label in the index of a DataFrame. `AuditReport` lists the columns.
    report_ : AuditReport
        Both tables in words, with ``to_text()``, ``to_html()``, ``to_json()`` and ``plot()``.
    partial_results_ : DataFrame
        Finished rows of the last ``fit``, also where it was interrupted.
    attacks_ : dict
        Attacks by name: unfitted where each release fits them anew, strings where they only learn
        from other releases.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    LeakageAuditor : Audit of a column or of whole records.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> auditor = MembershipAuditor(DecisionTreeRegressor(), n_releases=20, random_state=0)
    >>> row = auditor.fit(X[:200], y[:200]).results_.set_index("attack").loc["loss"]
    >>> bool(row["lower_bound"] > 0.7 and row["success"] > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseAuditor._parameter_constraints,
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "groups": [str, Integral, None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        attacks: Any = "default",
        noise_scales: Any = None,
        n_releases: int = 100,
        secrets: Literal["actual", "drawn"] = "actual",
        prior: float = 0.5,
        groups: str | int | None = None,
        max_advantage: float = 0.05,
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        records: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
    ) -> None:
        game = (attacks, noise_scales, n_releases, secrets, prior)
        told = (max_advantage, confidence_level, bounds, records, refit_preprocessing)
        super().__init__(estimator, *game, *told, checkpoint, n_jobs, verbose, random_state)
        self.groups = groups

    def _outside(self, X: Any, y: Any, sample_weight: Any) -> Outside:
        raise AttackNotApplicableError(
            "A membership audit trains on other members in each release, or compares with "
            "predictions of all records, in memory; got records outside of it. Pass a random "
            "sample of some thousands of records as a DataFrame. `leakage_report()` of a private "
            "model fitted on all of them says how exposed members are."
        )

    def _game(self, task: Task, entropy: list[int]) -> Game:
        return membership_game(task)
