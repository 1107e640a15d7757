"""Fields of the JSON files: what each means, and small files to read them off."""

import json
import warnings
from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline

import skleak
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.preprocessing import PublicScaler

MODEL = PrivateLinearRegression(2.0, random_state=0)
GAME: dict[str, Any] = {"noise_scales": [2.0], "n_releases": 4, "random_state": 0}

# What is the same in several files stands once; `file:field` is about one file alone.
MEANINGS: dict[str, str] = {
    "schema": "name of the format",
    "schema_version": "rises with every change that breaks a reader",
    "skleak": "version that wrote the file",
    "confidential": "whether the file says something of single persons",
    "estimator": "class of the audited estimator",
    "attribute": "the sensitive column; null of whole records and of membership",
    "kind": "what is under attack: categorical, number, records or membership",
    "released:kind": "class of the released model; what `from_json` builds",
    "format": "name of the format",
    "version": "version of the format",
    "findings": "the sentences of the report, the answer first",
    "assumptions": "what the numbers suppose",
    "facts": "the findings as data",
    "carriers": "records with rare values, and how surely each is known",
    "features": "a row for each column, the most exposed first",
    "groups": "leakage by group; of an audit of membership, guesses by class, group and copies",
    "leakage:records": "a row for each record: its losses, and what shows that it was trained on",
    "results": "a row for each noise scale and attack; see [its columns](audit_columns.md)",
    "records": "a row for each noise scale and record; see [its columns](audit_columns.md)",
    "checks": "whether the estimator adds the noise that it states",
    "settings": "what was audited, and how",
    "reproducibility": "versions, constructor calls, seeds and a digest of the data",
    "decision": "the first sentence of the report as data",
    "dataset": "the data set as a whole, and the fit",
    "differential_privacy": "the guarantee that holds beside the losses, or why none does",
    "content": "the fitted attributes of the released model, and nothing else",
}
DATASET = {
    "converged": "whether the fit reached its minimum; without it no loss is known",
    "n_records": "number of records",
    "labels": "whether records are called by the index of their table, or by position",
    "n_rows": "number of rows of that table",
    "n_features": "number of columns",
    "noise_scale": "standard deviation of the noise on each coefficient",
    "noise_covariance": "shape of the noise",
    "alpha": "strength of the penalty, relative to the mean loss",
    "loss": "loss that was minimized",
    "private_target": "whether the target counts as unknown to the attacker",
    "reweighting": "name of the reweighting, or null",
    "mean_loss": "mean Fisher information loss of a record",
    "std_loss": "standard deviation of the losses",
    "min_loss": "smallest loss",
    "median_loss": "median loss",
    "max_loss": "largest loss",
    "spread": "standard deviation over mean of the losses",
    "joint_loss": "loss of all records together",
    "conditional_mean_loss": "under a reweighting: mean loss were the weights fixed",
    "conditional_max_loss": "the largest of those",
    "through_mean_mean_loss": "under noise shaped by the data: mean loss through the mean alone",
    "through_mean_max_loss": "the largest of those",
    "through_covariance_mean_loss": "mean loss through the shape of the noise alone",
    "through_covariance_max_loss": "the largest of those",
    "plain_mean_loss": "under a reweighting or shape: mean loss without, at the same noise scale",
    "plain_max_loss": "the largest of those",
    "plain_spread": "standard deviation over mean of those",
    "mechanism": "where the noise is, if not on the coefficients",
    "n_simulated_fits": "fits under noise drawn anew, of which losses are means",
    "simulation_error": "largest standard error of a loss by that, over the loss",
    "group_spread": "standard deviation over mean of the mean losses of groups",
    "most_exposed_records": "labels of the records of largest loss",
    "noise_goal": "the goal that the noise was found for, or null",
    "seeded": "whether the noise can be replayed, and so protects nobody",
    "n_records_moving_rung": "records that could move the published noise scale, where counted",
    "loss_quantiles": "quantiles of the losses",
    "quantile_error": "relative error of these and of the median; 0 where they are exact",
    "unequal_weights": "whether two sample weights differ",
    "carriers": "records with rare values, by column",
    "raw_columns": "whether columns are those of the raw table",
    "individual_privacy": "settings of the guarantee for each person",
}
GUARANTEE = {
    "holds": "whether a guarantee is claimed",
    "reasons": "what is missing for one",
    "sensitivity": "how far replacing a record moves the coefficients at most",
    "mu": "sensitivity over noise",
    "delta": "the delta of epsilon",
    "epsilon": "epsilon at that delta",
}
SETTINGS = {
    "utility_name": "score by which the model is judged",
    "utility_data": "records on which it is judged",
    "noiseless_utility": "that score without noise",
    "constant_utility": "that score of the best constant",
    "smallest_noise": "smallest noise scale at which everyone attacked keeps the limit",
    "smallest_noise_utility": "score at that noise scale",
    "curve": "people above the limit, and the largest gain, over the noise",
    "preprocessing": "whether preprocessing is held fixed, refitted, or absent",
    "n_records": "number of records",
    "n_columns": "number of columns",
    "n_targets": "number of records under attack",
    "sampled": "whether these are a random sample of all",
    "n_releases": "simulated releases at each noise scale",
    "releases": "simulated, or fitted: those of real fits",
    "n_fitted": "games of each record in which a model was fitted; 0 where secrets are actual",
    "secrets": "drawn from the prior, or the actual ones",
    "prior": "what attackers know beforehand",
    "values": "values that the secret may have",
    "confidence_level": "level of the intervals shown",
    "verdict_level": "level of the intervals behind verdicts",
    "bounds": "bounds that were computed",
    "attacks": "attacks that were played",
    "noise_covariance": "shape of the noise",
    "imputed": "share of secrets that imputation gets right without the model",
    "determined_by": "columns that determine the sensitive one, and how surely",
    "determines": "columns that the sensitive one determines",
    "target_counts": "whether the target is a count",
    "has_noise": "whether the release is noisy",
    "wrappers": "searches and wrappers around the audited model",
    "chosen": "parameters that a search chose",
    "transformed": "whether the target was transformed",
    "seeded": "parts of the model that carry a seed",
    "replayable": "whether the noise can be replayed, and so protects nobody",
    "outputs": "what each attack was shown of the release",
    "private_sgd": "whether the model was trained by private SGD",
    "reweighting": "name of the reweighting, or null",
    "labels": "what records are called by",
    "max_advantage": "the limit of the decision",
    "membership_prior": "probability with which each candidate is a member",
    "reference": "where the records come from that set thresholds",
    "n_reference": "number of those records",
    "n_always": "records that are members in every release",
    "gap_loss": "loss of the generalization gap",
    "exact_test": "why the exact test was not played; empty where it was",
    "unchecked": "why the noise was not checked; empty where it was",
}
DECISION = {
    "verdict": "everyone, all_but, average, sample, not_kept, not_known or unseen",
    "passes": "whether the limit is kept, at every noise scale audited, for whom it was asked",
    "noise": "the noise scale that the sentence is about",
    "limit": "the largest gain over a coin that is accepted",
    "of": "for whom it was asked: everyone, a share of people, or average",
    "n_above": "people above the limit; by attacks, at least; null: unknown",
    "n_attacked": "number of records under attack",
    "n_records": "number of records",
    "share_above": "share of people above the limit; of a sample at most, among the others (95%)",
    "sampled": "whether those under attack are a random sample of all",
    "labels": "who is above the limit, the most exposed first",
    "largest": "the largest gain, whatever else is known of the record",
    "found_at_1pct": "share of carriers found at 1% false alarms, of the most exposed record",
    "levels": "the same at every noise scale, with the best attack played and the score",
    "smallest": "the smallest noise that keeps the limit for everyone, and the score there",
    "failed": "whether the noise is not what the model states",
    "contradicted": "whether an attack surely exceeds a bound that is a theorem",
}
FACTS = {
    "state": "known, nothing, not_known, no_noise or not_converged",
    "noise": "the noise scale of the model",
    "limit": "the largest gain over a coin that is accepted",
    "columns": "number of columns of which something is told",
    "total": "number of records",
    "most": "the column that is told best, of the most exposed record",
    "above": "whether that is above the limit",
    "carriers": "columns with rare values, and how surely their carriers are found",
    "membership": "the record whose membership shows most",
    "membership_missing": "why that is not known; empty where it is",
    "notes": "what is not exact, or not known, and of which columns",
    "number": "the number that is told best",
    "unnamed": "whether columns have no names",
    "weighted": "whether records have weights",
    "doubts": "why the numbers are unreliable; empty where they are not",
    "conditions": "what the numbers suppose beside the assumptions",
}
CONTENT = {
    "coef_": "noisy coefficients",
    "intercept_": "noisy intercept",
    "noise_scale_": "standard deviation of the noise on each coefficient",
    "noise_step_": "step of the public grid on which the numbers lie",
    "noise_sampler_": "how the noise was drawn",
    "coef_noise_scale_": "standard deviation by coefficient",
    "intercept_noise_scale_": "standard deviation of the noise on the intercept",
    "n_features_in_": "number of columns",
    "feature_names_in_": "names of the columns",
    "provenance_": "how the model was trained, and the guarantee that holds",
    "classes_": "labels of the classes, in the order of the scores",
    "steps": "of a pipeline: name and content of each step",
    "container": "of a pipeline: kind of tables that its steps hand on, or null",
}
for start, part in {
    "dataset": DATASET,
    "differential_privacy": GUARANTEE,
    "settings": SETTINGS,
    "decision": DECISION,
    "facts": FACTS,
    "content": CONTENT,
}.items():
    MEANINGS |= {f"{start}.{name}": meaning for name, meaning in part.items()}
# Objects whose inner names depend on the data or the machine.
CLOSED = {"reproducibility"}


def _records() -> Any:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return X.iloc[:60], y.iloc[:60]


def _audited(auditor: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return auditor.fit(*_records()).report_.to_dict()


def _fitted() -> Any:
    return MODEL.fit(*_records())


def _released(preprocessing: Any = None) -> dict[str, Any]:
    X, y = _records()
    model: Any = PrivateLogisticRegression(2.0, random_state=0)
    if preprocessing is not None:
        model = make_pipeline(preprocessing, model)
    model.fit(X, y > 140.0)
    with warnings.catch_warnings():  # of the seed, which protects nobody
        warnings.simplefilter("ignore")
        return json.loads(skleak.release(model).to_json())


# The title, the call, and a file of each format.
EXAMPLES: dict[str, tuple[str, str, Callable[[], dict[str, Any]]]] = {
    "leakage": (
        "Leakage report",
        "estimator.leakage_report().to_json()",
        lambda: _fitted().leakage_report().to_dict(),
    ),
    "attribute": (
        "Audit of a column",
        "LeakageAuditor(...).fit(X, y).report_.to_json()",
        lambda: _audited(LeakageAuditor(MODEL, "sex", **GAME)),
    ),
    "membership": (
        "Audit of membership",
        "MembershipAuditor(...).fit(X, y).report_.to_json()",
        lambda: _audited(MembershipAuditor(MODEL, **GAME)),
    ),
    "released": ("Released model", "estimator.release().to_json()", _released),
    "pipeline": (
        "Released pipeline",
        "skleak.release(pipeline).to_json()",
        lambda: _released(PublicScaler((0.0, 300.0))),
    ),
}


def fields(document: dict[str, Any], start: str = "") -> list[tuple[str, Any]]:
    """Return the path and the value of every field, down to two levels."""
    found = []
    for name, value in document.items():
        found.append((start + name, value))
        if isinstance(value, dict) and not start and name not in CLOSED:
            found += fields(value, f"{name}.")
    return found


def meaning(file: str, path: str) -> str | None:
    """Return what a field of a file means, None where nobody wrote it down."""
    return MEANINGS.get(f"{file}:{path}", MEANINGS.get(path))
