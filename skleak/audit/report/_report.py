"""The result of an audit: frozen tables with their sentences, and the forms they can take."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from skleak.audit.report._document import audit_document
from skleak.audit.report._facts import AuditFacts
from skleak.plotting import AuditDisplay
from skleak.rendering import Document, Report, header, plain, rows
from skleak.rendering.results import bound_advantages


@dataclass(frozen=True, repr=False)
class AuditReport(AuditFacts, Report):
    """How well attacks did against releases of a model, and what none can exceed. Confidential.

    Objects of this kind come from the auditors' ``fit``, as ``report_``. They hold no training
    record, but how exposed every attacked one is.

    Parameters
    ----------
    estimator : str
        What was audited.
    attribute : str or None
        Name of the sensitive column; None where whole records are reconstructed.
    kind : {"categorical", "numeric", "record", "membership"}
        Whether values of a column are guessed, a numeric column is estimated, whole records
        are reconstructed, or it is told who was trained on.
    results : DataFrame
        A row per noise scale and attack, ascending noise: ``noise_scale``, ``attack``,
        ``success`` (share of right guesses; for errors 1 minus the mean squared error over the
        spread), ``baseline`` (success of the prior), ``advantage``, ``imputation`` (success of
        imputation without the model), ``advantage_over_imputation``, ``verdict``, ``utility``,
        ``n_games``, ``detectable_excess`` (of the success over the tightest bound, found in 80 % of
        audits of this size), and a column for each bound on the success. Success and advantages
        have their intervals in ``<name>_low`` and ``<name>_high``. For errors also ``mse``,
        ``variance``, ``squared_bias`` (squared units of the attribute), ``mse_over_bound``,
        ``cramer_rao`` (of the median record) and ``cramer_rao_mean`` (of the mean, see
        `LeakageAuditor`). For membership see `MembershipAuditor`.
    records : DataFrame
        A row per noise scale and attacked record: ``noise_scale``, ``record`` (position in the
        data), ``prior``, ``eta`` (Fisher information loss) or, for membership, ``distance`` (of
        the parameters with and without the record, over the noise), and the bounds and the
        success or error of every attack.
    settings : dict
        How the audit was made: ``n_records``, ``n_columns``, ``n_targets``, ``n_releases``,
        ``secrets``, ``prior``, ``values``, ``confidence_level``, ``bounds``, ``attacks``,
        ``utility_name``, ``utility_data``, ``noiseless_utility``, ``preprocessing``,
        ``reweighting``, ``target_counts`` and ``verdict_level``. For membership also
        ``membership_prior`` (probability), ``n_reference``, ``n_always`` (records that are always
        trained on), ``gap_loss``, ``has_noise``, ``exact_test`` (why there is none, or "") and
        ``unchecked`` (what no check of the estimator was made of, or "").
    reproducibility : dict of str
        Versions, parameters and seed.
    checks : DataFrame
        A row per noise scale and check of the noise that the estimator adds, none where its word
        was taken: ``noise_scale``, ``n_releases`` that were compared with the parameters without
        noise, ``check`` ("mean", "spread", "missing", "replayed", "covariance" and "shape" of the
        noise and, where that is as stated, "hypotheses", whether releases are around what attacks
        take for the truth), ``statistic``, ``p_value`` (exact or a bound) and ``passed`` (at level
        1e-6).
    findings : tuple of str
        What the numbers say in plain words, the summary first.
    assumptions : tuple of str
        Under which conditions.
    """

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of results.

        Returns
        -------
        DataFrame
            A row per noise scale and attack.
        """
        return self.results.copy()

    def advantages(self) -> pd.DataFrame:
        """Return the bounds as advantages over the prior.

        Returns
        -------
        DataFrame
            A column for each bound, index ``noise_scale``: (bound - baseline) / (1 - baseline),
            nan where the prior is always right. For errors 1 minus the bound over the error of
            guessing the mean, -inf where the bound is infinite.
        """
        return bound_advantages(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``schema``, ``schema_version``, ``skleak`` (version), ``confidential``, the fields of
            the report, and ``results`` and ``records`` as lists with one dictionary per row.
            Infinite and undefined numbers are None.
        """
        return header("audit_report") | {
            "estimator": self.estimator,
            "attribute": self.attribute,
            "kind": self.kind,
            "settings": plain(self.settings),
            "reproducibility": plain(self.reproducibility),
            "findings": list(self.findings),
            "assumptions": list(self.assumptions),
            "results": rows(self.results),
            "records": rows(self.records),
            "checks": rows(self.checks),
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot advantage and utility against the noise.

        Parameters
        ----------
        ax : matplotlib Axes or pair of them, default=None
            Where to draw; by default a new figure. One Axes shows the advantage only.

        Returns
        -------
        AuditDisplay
        """
        return AuditDisplay.from_report(self).plot(ax=ax)

    def _document(self, *, figures: bool) -> Document:
        return audit_document(self, figures=figures)
