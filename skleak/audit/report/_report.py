"""The result of an audit: frozen tables with their sentences, and the forms they can take."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from skleak.audit.report._decision import decision, largest_advantages
from skleak.audit.report._document import audit_document
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._person import PersonAudit, person_audit
from skleak.audit.report.overview._dossier import Asked, Dossier, dossier
from skleak.audit.report.overview._overview import audit_metrics, audit_overview
from skleak.plotting import AuditDisplay
from skleak.plotting.results import bound_advantages
from skleak.report import Document, SharedReport, header, plain, rows


@dataclass(frozen=True, repr=False)
class AuditReport(AuditFacts, SharedReport):
    """Results of attacks on releases of a model, beside bounds on any attack. Confidential.

    The auditors' ``fit`` makes it, as ``report_``. It holds no training record, but how exposed
    every attacked one is. The user guide, docs/reference/audit_columns.md, explains the
    columns of the tables.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    attribute : str or None
        Name of the sensitive column; None where whole records or memberships are attacked.
    kind : {"categorical", "numeric", "record", "membership"}
        Type of the secret: a value of a column, a numeric column, a whole record, or membership.
    results : DataFrame
        A row per noise scale and attack, ascending noise: ``noise_scale``, ``attack``, ``success``,
        ``baseline``, ``advantage``, ``imputation``, ``advantage_over_imputation``, ``verdict``,
        ``utility``, ``n_games``, ``detectable_excess`` and a column for each bound on the success.
        ``<name>_low`` and ``<name>_high`` hold intervals. With bounds of a sample of the records
        ``bound_error``, ``bound_limit`` and ``n_bounded``. For errors also ``mse``, ``variance``,
        ``squared_bias``, ``mse_over_bound``, ``cramer_rao`` and ``cramer_rao_mean``; for membership
        ``tpr_at_1pct_fpr``, ``tpr_at_0.1pct_fpr``, their exact bounds ``bayes_<name>``, ``auc``,
        ``gap``, ``lower_bound``, and where all records are attacked at once ``records_above`` (as
        many are above ``max_advantage``, at least; NaN where releases are too few to tell),
        ``records_above_by``, ``design_effect`` and ``enough_releases``
        (`skleak.metrics.RecordsAbove`).
    records : DataFrame
        A row per noise scale and attacked record: ``noise_scale``, ``record`` (position in the
        data), ``label`` (index of a DataFrame, else the position), ``prior``, ``eta`` (Fisher
        information loss) or, for membership, ``distance``, the bounds, ``computed`` with bounds of
        a sample, and the success or error of every attack.
    settings : dict
        Settings of the audit: ``n_records``, ``n_columns``, ``n_targets``, ``sampled`` (whether
        these are a random sample of all records), ``n_releases``,
        ``secrets``, ``releases`` ("simulated" or "fitted"), ``n_fitted`` (games of each record in
        which a model was fitted), ``prior``, ``values``, ``confidence_level``, ``bounds``,
        ``attacks``, ``utility_name``, ``utility_data``, ``noiseless_utility``, ``preprocessing``,
        ``reweighting``, ``target_counts``, ``verdict_level``, ``labels`` (what records are called
        by), ``max_advantage``, ``imputed`` (success of imputation on the data), ``has_noise``,
        ``wrappers`` (searches and target transformers taken off), ``chosen`` (by searches),
        ``transformed`` (target), ``private_sgd`` (noise scales are noise multipliers) and
        ``seeded`` (parameters left to chance); for a column
        ``outputs`` (what each attack was shown); of a model that is asked ``no_bound`` (why) and
        ``random`` (whether trainings differ). For membership also ``membership_prior``,
        ``n_reference``, ``n_always`` (always trained on), ``gap_loss``, ``exact_test`` (obstacle,
        or "") and ``unchecked`` (part, or "").
    reproducibility : dict of str
        Versions, parameters and seed.
    checks : DataFrame
        A row per noise scale and check of the noise of the estimator, if any: ``noise_scale``,
        ``n_releases`` compared with the parameters without noise, ``check`` (see
        `skleak.audit.check_noise`; "hypotheses" for releases around what attacks take for the
        truth), ``statistic``, ``p_value`` (exact or a bound), ``passed``, ``level`` (of the check;
        all together accuse sound noise once in 1,000 audits, or once in a million where skleak
        draws the noise) and ``smallest_fault``, which is found 99 times in 100.
    groups : DataFrame
        Of membership: a row per noise scale, attack and group of records, where all are attacked at
        once: ``noise_scale``, ``attack``, ``kind`` ("class", "group", "copies" of a record),
        ``group`` (its label, of copies that of the first), ``n_records``, ``n_games``,
        ``n_right``, ``success`` with its interval, ``baseline`` and ``p_value`` (of chance;
        corrected for all groups).
    findings : tuple of str
        Sentences on the numbers, the summary first.
    assumptions : tuple of str
        Conditions under which the numbers hold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.audit import LeakageAuditor
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=0.1, alpha=1e-2)
    >>> auditor = LeakageAuditor(model, "sex", n_releases=5, records=range(20), random_state=0)
    >>> report = auditor.fit(X, y).report_
    >>> report.attribute, report.settings["n_targets"], len(report.records)
    ('sex', 20, 20)
    >>> report.to_html().startswith("<!DOCTYPE html>")
    True
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

    def largest_advantages(self) -> pd.DataFrame:
        """Return the largest advantage over the prior that an attacker may have.

        A bound counts where one is known, on average over secrets drawn from the prior, and an
        attack that was found to exceed it and knows more than imputation does. Elsewhere, and where
        the noise is not what the model states, the best attack played counts, and others may have
        more. For a number, or whole records, it is the share of the squared error that attackers
        with the prior remove on average. Attacks that do not look at the model do not count.

        Returns
        -------
        DataFrame
            Index ``noise_scale``: ``advantage``, NaN where nothing is known; ``source``: "bound",
            the name of an attack, or "nothing"; ``at_least``: whether other attackers may have
            more, as no bound holds.
        """
        return largest_advantages(self)

    def person(self, label: Any) -> PersonAudit:
        """Report what the attacks learned about one person, and which bound says so.

        Parameters
        ----------
        label : object
            Label of a record under attack, as in ``records["label"]``: of the index of the
            DataFrame that was audited, or its position where that has none. Where it occurs more
            than once, all its records are reported on.

        Returns
        -------
        PersonAudit
            Noise scale by noise scale; for an audit of membership whether it shows.

        Raises
        ------
        KeyError
            Where no record under attack has that label.
        """
        return person_audit(self, label)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``schema``, ``schema_version``, ``skleak`` (version), ``confidential``, the fields of
            the report, ``decision`` (the facts of its first sentence), and ``results`` and
            ``records`` as lists with one dictionary per row. Infinite and undefined numbers are
            None.
        """
        return header("audit_report") | {
            "estimator": self.estimator,
            "attribute": self.attribute,
            "kind": self.kind,
            "settings": plain(self.settings),
            "reproducibility": plain(self.reproducibility),
            "decision": plain(decision(self)),
            "findings": list(self.findings),
            "assumptions": list(self.assumptions),
            "results": rows(self.results),
            "records": rows(self.records),
            "checks": rows(self.checks),
            "groups": rows(self.groups),
        }

    def to_metrics(self) -> dict[str, float]:
        """Return the numbers of the overview by name, none of which is about one person.

        Returns
        -------
        dict of str to float
            ``max_advantage``, ``within_max_advantage`` (1 or 0), ``n_exceeded_bounds`` and, for
            each ``noise_scale_<number>/``, ``largest_advantage`` (``least_advantage`` where others
            may have more), ``best_attack_advantage`` and ``utility``. Three significant digits;
            upper bounds are rounded up. What is not known is left out.

        Raises
        ------
        ValueError
            Where means would be over fewer than ten records.
        """
        return audit_metrics(self)

    def to_dossier(self, text: Asked) -> Dossier:
        """Fill in the evidence that a text on data protection asks for, and mark the blanks.

        Every question cites the paragraph that it is from. The dossier names no record, decides
        nothing, and leaves open what numbers cannot answer, such as purposes and access.

        Parameters
        ----------
        text : {"edpb", "dpia", "nist"}
            EDPB Opinion 28/2024 on AI models; the impact assessment of article 35 of the GDPR; or
            NIST SP 800-226 on guarantees of differential privacy.

        Returns
        -------
        Dossier
            With ``to_html``, ``to_text``, ``to_json`` and ``to_dict``, as every report.

        Raises
        ------
        ValueError
            For another text, where means would be over fewer than ten records, and where the
            audit has no results.
        """
        return dossier(self, text)

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

    def _overview(self) -> Document:
        return audit_overview(self)
