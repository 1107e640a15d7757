"""The report of an audit, and that about a person."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from skleak.metrics.verdicts import EXCEEDED, INCOMPARABLE
from skleak.plotting import AuditDisplay
from skleak.plotting.displays import counts_success
from skleak.plotting.labels import attack_label, count, limit_text, number, percent, plural, shorten
from skleak.report.audit._decision import Decision, decide, surely_above
from skleak.report.audit._page import (
    assumption_facts,
    audit_document,
    made,
    page_facts,
    specs,
    what,
)
from skleak.report.audit._results import BASELINES, AuditFacts, gained, guess_success
from skleak.report.document import (
    NAMES_NOBODY,
    Block,
    Bullets,
    Card,
    Column,
    Document,
    Paragraph,
    Section,
    Table,
    overview,
    sentences,
)
from skleak.report.reports import (
    PersonalReport,
    Report,
    SharedReport,
    check_enough,
    entries,
    header,
    rounded,
)
from skleak.report.tables import columns_of

_STATES = {
    "not_known": "not known",
    "not_kept": "not kept",
    "average": "on average",
    "all_but": "for all but some",
    "sample": "in the sample",
}


def shared_lead(report: Any) -> tuple[str, ...]:
    """Say the decision without a name, and without a number of a single person."""
    facts = report._said
    bounded = not math.isnan(facts["largest"])
    hidden = {"largest": facts["limit"]} if bounded else {}
    hidden |= dict.fromkeys(("found_at_1pct", "step"), math.nan)
    return sentences("audit_lead", facts | hidden | {"names": "", "shared": True})


def noise_table(report: AuditFacts, decision: Decision) -> Table:
    """Tabulate what holds and what attacks gained at every noise scale."""
    rows = decision["levels"]
    parts = ((r["attack_value"], r["attack_low"], r["attack_high"]) for r in rows)
    shown = {
        "noise": [number(r["noise"]) if r["noise"] else "none" for r in rows],
        "above": [
            "not known" if math.isnan(r["n_above"]) else count(int(r["n_above"])) for r in rows
        ],
        "state": [_STATES.get(r["verdict"], "kept for everyone") for r in rows],
        "attack": [attack_label(r["attack"]) for r in rows],
        "gains": [with_interval(*part) for part in parts],
    }
    utility = tuple(number(r["utility"]) for r in rows)
    score = Column(str(report.settings["utility_name"]), utility, short="score")
    columns = columns_of(pd.DataFrame(shown), specs()["overview"])
    return Table("Noise by noise", (*columns, score))


def with_interval(value: float, low: float, high: float) -> str:
    """Write a share and its interval, with the digits that this supports."""
    share = partial(percent, within=0.5 * (high - low))
    return share(value) + ("" if math.isnan(low) else f" ({share(low)} to {share(high)})")


def checks(report: AuditFacts) -> tuple[str, ...]:
    """Say whether attacks exceeded bounds, and whether the mechanism is what it states."""
    verdicts = report.results["verdict"]
    judged = verdicts[verdicts != INCOMPARABLE]
    passed = [] if report.checks.empty else report.checks["passed"].astype(bool)
    facts = {"why": report.unbounded, "judged": len(judged), "exceeded": sum(judged == EXCEEDED)}
    return sentences("audit_checks", facts | {"checks": len(passed), "passed": sum(passed)})


Asked = Literal["edpb", "dpia", "nist"]
# How a blank is marked, wherever it stands.
BLANK = "TO BE FILLED IN"
_INFERENCE = {"membership": "membership inference", "record": "reconstruction"}
_VERSIONS = ("skleak", "Python", "scikit-learn")
_DECIDES_NOTHING = (
    "This is evidence for an assessment, and no assessment: whether the law is kept is for those "
    "who answer for the data, and for the authorities."
)


@dataclass(frozen=True, repr=False)
class Dossier(Report):
    """The evidence that a text asks for, filled from an audit.

    Objects of this kind come from ``AuditReport.to_dossier``. They name no record.

    Parameters
    ----------
    text : dict
        What is asked: ``name`` (in a title), ``cited`` (in full), ``note`` (how its paragraphs are
        cited) and ``criteria``, a dictionary for each question, as in `to_dict`.
    subject : str
        What was audited.
    made : str
        How the numbers came about.
    assumptions : tuple of str
        Conditions under which the numbers hold.
    table : Table
        What holds at each noise scale.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.audit import LeakageAuditor
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=0.1, alpha=1e-2)
    >>> auditor = LeakageAuditor(model, "sex", n_releases=5, records=range(20), random_state=0)
    >>> dossier = auditor.fit(X, y).report_.to_dossier("dpia")
    >>> dossier.subject
    'PrivateLinearRegression'
    >>> dossier.to_html().startswith("<!DOCTYPE html>")
    True
    """

    text: dict[str, Any]
    subject: str
    made: str
    assumptions: tuple[str, ...]
    table: Table

    @property
    def n_blanks(self) -> int:
        """Number of blanks that are left to fill in."""
        return sum(len(one["blanks"]) for one in self.text["criteria"])

    def to_dict(self) -> dict[str, Any]:
        """Return the dossier as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``text`` (what asks), ``criteria`` with ``paragraph``, ``title``, ``asks``,
            ``evidence`` and ``blanks``, and ``assumptions``.
        """
        told = [{k: v for k, v in one.items() if k != "table"} for one in self.text["criteria"]]
        about = {"estimator": self.subject, "text": self.text["cited"], "criteria": told}
        return header("dossier") | about | {"assumptions": list(self.assumptions)}

    def _document(self, *, figures: bool) -> Document:
        text, sections = self.text, []
        answered = sum(bool(one["evidence"]) for one in text["criteria"])
        for one in text["criteria"]:
            blanks = (f"`[{BLANK}]` {blank}" for blank in one["blanks"])
            blocks: list[Block] = [Paragraph(one["asks"], soft=True)]
            if items := (*one["evidence"], *blanks):
                blocks.append(Bullets(items))
            if one["table"]:
                blocks.append(self.table)
            sections.append(Section(f"{one['paragraph']}: {one['title']}", tuple(blocks)))
        cards = (
            Card("Questions", f"{answered} of {len(sections)}", "with evidence from the audit"),
            Card("Blanks", str(self.n_blanks), f"marked [{BLANK}]", "bad" if self.n_blanks else ""),
        )
        sources = (Paragraph(text["cited"]), Paragraph(text["note"], soft=True))
        return Document(
            f"Dossier for {text['name']}",
            self.subject,
            self.made,
            _DECIDES_NOTHING,
            cards,
            (
                *sections,
                Section("Assumptions of the numbers", (Bullets(self.assumptions),)),
                Section("Text", sources),
            ),
            "",
            warning=NAMES_NOBODY,
            mark="Draft",
        )


def _read(lines: tuple[str, ...]) -> dict[str, Any]:
    """Read a text that was filled in: each paragraph of it starts with a mark of what it is.

    Marks: ``=`` name, source and note of the text; ``#`` paragraph and title of a question; ``?``
    the question; ``-`` evidence; ``!`` a blank; ``|`` the table.
    """
    name, cited, note = (line[1:].strip() for line in lines if line[0] == "=")
    found: list[dict[str, Any]] = []
    for line in lines:
        mark, said = line[0], line[1:].strip()
        if mark == "#":
            paragraph, _, title = said.partition(" :: ")
            found.append({"paragraph": paragraph, "title": title, "asks": ""})
            found[-1] |= {"evidence": [], "blanks": [], "table": False}
        elif mark == "?":
            found[-1]["asks"] = said
        elif mark == "|":
            found[-1]["table"] = True
        elif mark in "-!":
            found[-1]["evidence" if mark == "-" else "blanks"].append(said)
    return {"name": name, "cited": cited, "note": note, "criteria": found}


def _evidence(report: Any) -> dict[str, Any]:
    """Compute what the texts are filled with, about nobody in particular."""
    s, found, results = report.settings, report.decision(), report.results
    gains, played = gained(report).assign(noise=results["noise_scale"]), {}
    for name in s["attacks"]:
        if name not in BASELINES:
            rows = gains[results["attack"] == name].to_numpy(float)
            told = ", ".join(f"{with_interval(*ends)} {_at(noise)}" for *ends, noise in rows)
            shown = s.get("outputs", {}).get(name, "")
            played[attack_label(name).capitalize()] = {"shown": shown, "gains": told}
    scales, made_with = [level["noise"] for level in found["levels"]], report.reproducibility
    first = [f"{number(level['utility'])} {_at(level['noise'])}" for level in found["levels"]]
    fitted = s.get("releases") == "fitted"
    games = (fitted and s["n_fitted"] * s["n_targets"]) or s["n_releases"]
    names = ("release of real fits", "releases of real fits") if fitted else ("simulated release",)
    return {
        "lead": " ".join(shared_lead(report)),
        "tested": _INFERENCE.get(report.kind, "attribute inference"),
        "what": what(report),
        "bounded": not any(math.isnan(level["largest"]) for level in found["levels"]),
        "failed": found["failed"],
        "why": report.unbounded,
        "n_above": None if math.isnan(found["n_above"]) else int(found["n_above"]),
        "at_least": math.isnan(found["largest"]),
        "n_attacked": found["n_attacked"],
        "limit": limit_text(found["limit"]),
        "at": _at(found["noise"]),
        "attacks": played,
        "estimator": report.estimator,
        "records": plural(s["n_records"], "record"),
        "columns": plural(s["n_columns"], "column"),
        "preprocessing": s["preprocessing"],
        "targets": count(s["n_targets"]),
        "games": plural(games, *names),
        "scales": plural(len(scales), "noise scale"),
        "noise": ", ".join(number(scale) for scale in scales if scale),
        "unit": "noise multipliers" if s.get("private_sgd") else "noise scales",
        "by_audit": not s.get("has_noise", True),
        "reweighting": s["reweighting"],
        "checks": checks(report),
        "use": f"{s['utility_name']} on {s['utility_data']}: {', '.join(first)}",
        "noiseless": float(s["noiseless_utility"]),
        "versions": {name: made_with[name] for name in _VERSIONS if name in made_with},
        "persons": "n_rows" in report.records,
        "knows": report.assumptions[0],
    }


# Attacks that do not look at the model, or are played on other releases than the rest.
_OTHERS = (*BASELINES, "combined")
_DECIDED = ("exposure", "distance", "found_at_1pct", "exposed_column", "step")
_ABOUT = ("estimator", "attribute", "kind", "settings", "reproducibility", "decision")
_FOUND = ("findings", "assumptions", "results", "records", "checks", "groups")


def _at(noise: float) -> str:
    return f"at noise {number(noise)}" if noise else "without noise"


@dataclass(frozen=True, repr=False)
class PersonAudit(PersonalReport):
    """Report on one person: what releases tell at most, and what attacks did. Confidential.

    Objects of this kind come from ``AuditReport.person``.

    Parameters
    ----------
    label : object
        Label of the person's records.
    estimator : str
        Name of the estimator.
    attribute : str or None
        Sensitive column; None where whole records or memberships were attacked.
    kind : {"categorical", "numeric", "record", "membership"}
        Type of the secret.
    max_advantage : float
        Gain that is tolerated.
    table : DataFrame
        A row per noise scale and record of that label: ``noise_scale``, ``record``, ``exposure``
        (what the decision compares with the limit: no attacker gains more, whatever is known),
        ``distance``, ``found_at_1pct``, ``exposed_column``, ``step``, as in the ``records`` of
        `AuditReport`; ``prior`` (success of a guess, or squared error of the mean), ``attack`` (the
        best one played that looks at the model), ``value`` (its success or squared error),
        ``advantage``, ``n_games``, and ``shows``: whether it was right more often than the prior
        by more than chance explains (None for errors).
    findings : tuple of str
        What the numbers say, the answer first.
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
    >>> person = auditor.fit(X, y).report_.person(7)
    >>> person.table["record"].tolist()
    [7]
    """

    _schema = "person_audit"
    _main = "table"

    attribute: str | None
    kind: str
    max_advantage: float
    table: pd.DataFrame

    def _document(self, *, figures: bool) -> Document:
        what = {"record": "whole record", "membership": "membership"}.get(self.kind)
        about = f"{self.estimator}, {what or f'column {shorten(self.attribute, 40)}'}"
        table = self.table
        shown = table.assign(
            noise=[number(scale) if scale else "none" for scale in table["noise_scale"]],
            value_below=[f"over {plural(int(n), 'try', 'tries')}" for n in table["n_games"]],
            which=list(map(attack_label, table["attack"])),
        )
        show = "percent" if counts_success(self) else "root"
        columns = columns_of(shown, specs(show=show)["person"])
        part = Section("Noise by noise", (Table("Noise by noise", columns),))
        return self._page("Audit of a person", about, (), (part,))


def _person_table(report: AuditFacts, at: pd.DataFrame) -> pd.DataFrame:
    guesses, prior = counts_success(report), at["prior"].astype(float)
    start = "success_" if guesses else "mse_"
    own = [f"{start}{name}" for name in report.settings["attacks"] if name not in _OTHERS]
    played = at[[name for name in own if name in at]].astype(float)
    value = played.max(axis=1) if guesses else played.min(axis=1)
    known = played.notna().any(axis=1)
    best = (played if guesses else -played)[known].idxmax(axis=1).reindex(at.index).fillna("")
    guess = guess_success(report, at) if guesses else prior
    advantage = 1.0 - value / prior.where(prior > 0.0)
    if guesses:
        advantage = (value - guess) / (1.0 - guess).where(guess < 1.0)
    decided = at.reindex(columns=list(_DECIDED))
    if report.mechanism_failed:
        decided[["exposure", "distance", "found_at_1pct"]] = np.nan
    settings = report.settings
    table = pd.DataFrame(
        {
            "noise_scale": at["noise_scale"],
            "record": at["record"],
            **decided,
            "prior": guess,
            "attack": best.str.removeprefix(start),
            "value": value,
            "advantage": advantage,
            "n_games": at.get("n_games", settings.get("n_fitted") or settings["n_releases"]),
        }
    ).reset_index(drop=True)
    table["shows"] = None
    if guesses:
        games, n_attacks = table["n_games"].to_numpy(float), max(played.shape[1], 1)
        table["shows"] = surely_above(report, table["value"], games, table["prior"], n_attacks)
    return table


def _of_label(labels: pd.Series, label: Any) -> Any:
    """Find the rows of a label, which may be a tuple of several levels, or a number as text."""
    wanted = ", ".join(map(str, label)) if isinstance(label, tuple) else label
    found = np.array([_same(own, wanted) for own in labels], dtype=bool)
    return found if found.any() else labels.astype(str).to_numpy() == str(wanted)


def _same(own: Any, wanted: Any) -> bool:
    try:
        return bool(own == wanted)
    except (TypeError, ValueError):
        return False


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
        ``utility``, ``n_games``, ``detectable_excess`` and a column for each bound on the success
        (advantage, verdict and these bounds are over the stated prior). On no prior rest
        ``distance``, ``advantage_any_prior``, ``found_at_1pct``, ``exposure`` (largest over the
        records attacked) and ``n_above`` (records with an exposure above ``max_advantage``).
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
        data), ``label`` (index of a DataFrame, else the position), ``distance`` (largest, in noise
        units, between releases under two values of the secret), ``advantage_any_prior`` and
        ``found_at_1pct`` (what no attacker exceeds, whatever is known of the record),
        ``exposure`` (what the decision compares with the limit), of whole records
        ``exposed_column``, of numbers ``step`` (one conditional standard deviation); ``prior``,
        ``eta`` (Fisher information loss), the bounds for the prior, ``computed`` with bounds of a
        sample, and the success or error of every attack. With persons a row is a person, with
        ``n_rows``.
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
        ``seeded`` (parameters left to chance); ``n_rows`` of persons, or ``repeated``: how many
        ``rows`` occur more than once ``by`` a column, or "equal rows"; for a column
        ``outputs`` (what each attack was shown); of a model that is asked ``no_bound`` (why) and
        ``random`` (whether trainings differ). For membership also ``membership_prior``,
        ``n_reference``, ``n_always`` (always trained on), ``gap_loss``, ``exact_test`` (obstacle,
        or "") and ``unchecked`` (part, or ""). Where levels are goals, ``goals`` by noise scale.
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

    def decision(self, limit: float | None = None, *, of: "str | float" = "everyone") -> Decision:
        """Decide for whom a limit is kept, whatever attackers know of a record.

        Parameters
        ----------
        limit : float in [0, 1], default=None
            Gain over a coin that is tolerated; None takes ``max_advantage`` of the auditor.
        of : "everyone", float in (0, 1) or "average", default="everyone"
            Whom the limit has to hold for: all records attacked, a share of them, or their mean.
            A random sample never keeps it for everyone.

        Returns
        -------
        dict
            ``verdict`` ("everyone", "all_but", "average", "sample", "not_kept", "not_known",
            "unseen") at ``noise``, the smallest noise scale that passes, else the largest;
            ``passes``: whether the limit is kept at every noise scale audited; ``n_above``,
            ``labels`` of the records above it, ``largest`` exposure, ``found_at_1pct``,
            ``levels`` (the same for each noise scale, with the best attack and the utility) and
            ``smallest``: the smallest noise that keeps the limit for everyone, and its utility
            beside that of a constant.

        Raises
        ------
        ValueError
            For an `of` that is none of these.
        """
        return decide(self, limit, of)

    @cached_property
    def _said(self) -> dict[str, Any]:
        """Facts and sentences of the page, computed once."""
        if self.results.empty:
            return {"lead": ("No attack was played: the audit says nothing.",), "notes": ()}
        facts = page_facts(self, self.decision())
        facts["lead"] = sentences("audit_lead", facts)
        facts["notes"] = sentences("audit_notes", facts)
        return facts

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences on the numbers, the decision first."""
        return (*self._said["lead"], *self._said["notes"])

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Conditions under which the numbers hold."""
        if self.results.empty:
            return ()
        decided = "exposure" in self.records and bool(self.records["exposure"].notna().any())
        return sentences("audit_assumptions", assumption_facts(self, decided))

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
        records = self.records
        found = _of_label(records["label"], label)
        if not found.any():
            examples = ", ".join(repr(each) for each in records["label"].drop_duplicates()[:3])
            raise KeyError(
                f"No record under attack is called {label!r}. They are called by "
                f"{self.settings['labels']}: {examples}, ... See `report.records['label']`."
            )
        at = records[found].sort_values(["noise_scale", "record"], kind="stable")
        limit = float(self.settings["max_advantage"])
        table, kind = _person_table(self, at), self.kind
        # The first sentence is about the row that tells most at the smallest noise.
        first = table[table["noise_scale"] == table["noise_scale"].min()]
        worst = table.groupby("noise_scale")["exposure"].max()
        kept = worst[worst <= limit]
        facts = {
            "first": first.loc[first["exposure"].fillna(-1.0).idxmax()].to_dict(),
            "who": label,
            "kind": kind,
            "attribute": self.attribute,
            "limit": limit,
            "guesses": counts_success(self),
            "several": len(worst) > 1,
            "kept": {"noise_scale": kept.index[0]} if len(kept) else None,
        }
        said = {"findings": sentences("audit_person", facts), "assumptions": self.assumptions}
        return PersonAudit(label, self.estimator, self.attribute, kind, limit, table, **said)

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
        decided: Any = self.decision() if len(self.results) else {}
        return entries(self, "audit_report", (*_ABOUT, *_FOUND), decision=decided)

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
        check_enough(int(self.settings["n_targets"]))
        if self.results.empty:
            return {}
        found, results = self.decision(), self.results
        numbers = {"max_advantage": found["limit"], "within_max_advantage": float(found["passes"])}
        numbers["n_exceeded_bounds"] = float((results["verdict"] == EXCEEDED).sum())
        shown = [f"{level['noise']:g}" for level in found["levels"]]
        if len(set(shown)) < len(shown):  # noise scales that agree in six digits
            shown = [str(level["noise"]) for level in found["levels"]]
        for level, text in zip(found["levels"], shown, strict=True):
            at, share = f"noise_scale_{text}", level["n_above"] / found["n_attacked"]
            numbers[f"{at}/share_above"] = rounded(share, up=True)
            numbers[f"{at}/mean_advantage"] = rounded(level["mean"], up=True)
            numbers[f"{at}/best_attack_advantage"] = rounded(level["attack_value"])
            numbers[f"{at}/utility"] = rounded(level["utility"])
        return {name: value for name, value in numbers.items() if math.isfinite(value)}

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
        if text not in ("edpb", "dpia", "nist"):
            raise ValueError(f'`text` must be "edpb", "dpia" or "nist"; got {text!r}.')
        check_enough(int(self.settings["n_targets"]))
        if self.results.empty:
            raise ValueError(
                "The audit has no results yet: nothing is evidence of anything. Run it to the end, "
                "from its checkpoint where it was interrupted."
            )
        table = noise_table(self, self.decision())
        asked = _read(sentences(f"dossier_{text}", _evidence(self)))
        return Dossier(asked, self.estimator, made(self), self.assumptions, table)

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
        if self.results.empty:
            return Document("Leakage audit", self.estimator, "", self.findings[0])
        return audit_document(self, self.decision(), self._said, figures=figures)

    def _overview(self) -> Document:
        check_enough(int(self.settings["n_targets"]))
        sections, lead = [], ""
        if len(self.results):
            lead = " ".join(shared_lead(self))
            sections = [
                Section("Noise by noise", (noise_table(self, self.decision()),)),
                Section("Checks", (Bullets(checks(self)),)),
            ]
        sections.append(Section("Assumptions", (Bullets(self.assumptions),)))
        return overview("Leakage audit", self.estimator, made(self), lead, *sections)
