"""The audit of membership: who was trained on, for any estimator."""

from collections.abc import Sequence
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Literal

from skleak.audit._base import BaseAuditor
from skleak.audit.games._game import Game, Task
from skleak.audit.games.membership._game import membership_game
from skleak.utils._sklearn_compat import Interval
from skleak.utils._typing import RandomState


class MembershipAuditor(BaseAuditor):
    """Audit whether releases of a model reveal who it was trained on.

    Every candidate is trained on with probability `prior`, independently, `n_releases` times, and
    attacks guess who the members are. Any classifier, regressor or pipeline is trained anew in each
    release, on the same members at all noise levels; a model without noise of its own gets it added
    to its coefficients. All of it is confidential: it names the most exposed records.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained; it is cloned and fitted here. A stated ``noise_scale`` is checked
        by a few fits: where it is not what is added, games have the noise that was measured, and a
        warning is given.
    attacks : "default", str, attack, list of them or dict of name to attack, default="default"
        ``"loss"``, ``"likelihood"``, ``"modified_entropy"``, ``"gradient_norm"`` (scores of
        `skleak.attacks.MembershipInference`, with the threshold that is best in the other releases,
        from 8 of them on), ``"likelihood_ratio"`` (the other releases are the shadow models of
        each), ``"exact"`` (an attacker who is told all other memberships; private models with a
        closed form), or objects with ``fit(X_candidates, y_candidates, X_reference, y_reference)``
        and ``predict(model)``. The default is all that the estimator admits and that differ.
    noise_scales : float, array-like of float or None, default=None
        Standard deviations of the noise to audit, 0 or more. None takes that of the estimator, and
        0 where it adds none.
    n_releases : int, default=100
        Simulated releases at each noise level; with ``secrets="drawn"`` the games of each record.
    secrets : {"actual", "drawn"}, default="actual"
        "actual" draws all memberships anew for every release, and attacks all candidates at once.
        "drawn" takes one record at a time in or out, and all others in: that needs a closed form,
        and attacks other than ``"exact"`` need test records.
    prior : float, default=0.5
        Probability of membership, in (0, 1).
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute: "dp", "bayes" and, with drawn secrets, those of `LeakageAuditor`.
    records : array-like of int, boolean mask, slice or None, default=None
        Candidates; all by default. Other records are always trained on.
    refit_preprocessing : bool, default=False
        Train all of a pipeline anew. False counts fitted preprocessing as public.
    checkpoint : str, Path or None, default=None
        File that keeps finished cells; `fit` goes on from it. It is confidential.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib. The tables do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.
    random_state : None, int, RandomState or Generator, default=None
        Seed of the simulated releases and memberships.

    Attributes
    ----------
    results_ : DataFrame
        A row for each noise level and attack: ``success`` and ``advantage`` with intervals,
        ``baseline``, ``verdict`` (by an interval whose coverage is proven), ``utility``,
        ``n_games``, ``detectable_excess`` (of the success over the tightest bound, that so many
        games find in 80 % of audits), ``tpr_at_1pct_fpr`` with its interval
        (members found at one false alarm in a hundred), ``auc``; ``gap`` with Student's interval
        (loss of non-members less that of members: zero-one; of regressors the squared error, cut
        at the median one of the reference records and divided by it), ``lower_bound`` (success that
        some attack reaches by the near end of that interval, [BIL23] theorem 2), and the bounds:
        ``dp`` (from the estimator's own guarantee of differential privacy) and ``bayes`` (that of
        the exact test); NaN where there is none.
    records_ : DataFrame
        A row for each noise level and candidate, with ``distance`` (of the parameters with and
        without the record, over the noise), ``bayes``, ``success_<attack>`` and, where secrets are
        drawn, a ``verdict``.
    report_ : AuditReport
        All of it in words, with ``to_text()``, ``to_html()``, ``to_json()`` and ``plot()``.
    partial_results_ : DataFrame
        Finished rows of the last ``fit``, also where it was interrupted.
    attacks_ : dict
        Attacks by name: those fitted anew in each release are unfitted, and those that only learn
        from other releases are strings.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    LeakageAuditor : What a release reveals of a column, or of whole records.

    Notes
    -----
    Test records are reference records: never trained on, they calibrate attacks and measure
    utility. Without them each release holds out a quarter of the candidates.

    Given all other memberships, the record's own is still a draw with probability `prior`, so that
    no attacker, who knows less, exceeds the success of the best one who is told them: an average
    over the members of each release estimates it.

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
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        records: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        game = (attacks, noise_scales, n_releases, secrets, prior, confidence_level, bounds)
        play = (records, refit_preprocessing, checkpoint, n_jobs, verbose, random_state)
        super().__init__(estimator, *game, *play)

    def _game(self, task: Task) -> Game:
        return membership_game(task)
