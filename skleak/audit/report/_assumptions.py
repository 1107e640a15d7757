"""Sentences: under which conditions the findings of an audit hold."""

from skleak.audit.report._facts import AuditFacts
from skleak.plotting.labels import count, number, percent, plural, shorten
from skleak.plotting.results import SHARE

_PRIORS = {
    "marginal": (
        "The prior is marginal: how often each value occurs among the records. What the other "
        "columns of a record tell of the secret is not in it."
    ),
    "uniform": "The prior is uniform: every value counts as equally likely beforehand.",
    "conditional": (
        "The prior is conditional: the probabilities of a classifier that was fitted on the other "
        "columns of other records. It knows what this classifier finds, and no more."
    ),
    "given": "The prior was given by whoever ran the audit; it was not checked against the data.",
}
_PREPROCESSING = {
    "none": "There is no preprocessing: the model is fitted on the columns as they are.",
    "in the model": (
        "The preprocessing is part of the model: attackers pass it raw records, and what it "
        "learned of others counts as far as answers show it."
    ),
    "public": (
        "The preprocessing was fitted once and counts as public: what its categories, means or "
        "scales reveal of the records is not counted."
    ),
    "refitted": (
        "The preprocessing was fitted anew with the model: what a record changes in it is counted "
        "as far as it changes the coefficients."
    ),
}
_PLAYED = (
    "The attacks that were played say what is possible at least; only the bounds speak about "
    "attacks that were not."
)
_LESS = "Whoever knows less learns less."


def assumptions(report: AuditFacts) -> tuple[str, ...]:
    """Say under which conditions the findings hold."""
    settings, membership = report.settings, report.kind == "membership"
    lines = _members(report) if membership else _adversary(report)
    conditions = {"categorical": _prior, "membership": _membership_bounds}
    of_errors = _unbiased
    if SHARE in report.results:
        of_errors = _of_records if report.kind == "record" else _of_numbers
    lines += conditions.get(report.kind, of_errors)(report)
    done = settings["preprocessing"]
    lines += [
        _PREPROCESSING.get(done, f"Preprocessing: {shorten(done, 80)}."),
        "One model without noise is asked. Every further model of the same records tells more."
        if report.unbounded
        else "One release is counted. Every further release from the same records tells more.",
        *_noise(report),
        *_intervals(report),
        *_sampled(report),
        *([] if membership else _weights(report)),
    ]
    if "training records" in settings["utility_data"]:
        lines.append(
            "Utility is measured on the training records and is optimistic: on new records it is "
            "lower."
        )
    if not membership and report.records["eta"].notna().any():
        lines.append(
            "The Fisher information loss treats every column as continuous and is a local "
            "measure. "
            + (
                "For labels it orders the records and bounds nothing."
                if report.kind == "categorical"
                else "It bounds unbiased attackers only."
            )
        )
    return tuple(lines)


def _adversary(report: AuditFacts) -> list[str]:
    settings, record = report.settings, report.kind == "record"
    secret = "this one record" if record else "the secret of this one record"
    also = "" if record else "the other columns of the record, "
    target = "" if record and settings["target_counts"] else "its target, "
    knows = (
        f"The informed attacker is assumed to know everything but {secret}: all other records, "
        f"{also}{target}the algorithm with its parameters, and the noise scale. {_LESS}"
    )
    played = _PLAYED
    if report.unbounded:
        knows = (
            f"The attacker is assumed to know everything about the records but {secret}, and asks "
            f"the model about the record with every value that it may have. {_LESS}"
        )
        played = "The attacks that were played say what is possible at least, and nothing more."
    lines = [knows, played, *_attacked(report)]
    if record:
        counts = "part of the record", "public and is not reconstructed"
        lines.append(f"The target counts as {counts[0 if settings['target_counts'] else 1]}.")
    return lines


def _members(report: AuditFacts) -> list[str]:
    """Say how members were drawn, and what the attackers know."""
    settings = report.settings
    prior = percent(settings["membership_prior"])
    if settings["secrets"] == "drawn":
        return [
            f"One record at a time was trained on with probability {prior}; all others always "
            "were. The attacker knows the others, the record itself, the algorithm with its "
            f"parameters, and the noise scale. {_LESS}",
            _PLAYED,
            *_attacked(report),
        ]
    always = ""
    if settings["n_always"]:
        always = f" {plural(settings['n_always'], 'more record')} had a place in every training."
    held_out = (
        f"{plural(settings['n_reference'], 'candidate')}, others in each release, were held out "
        "and not attacked there"
    )
    if settings["reference"] != "held out":
        tested = plural(settings["n_reference"], "test record")
        held_out = f"{tested}, taken to be of the same population, were never trained on"
    return [
        f"In each of {plural(settings['n_releases'], 'release')}, every one of "
        f"{count(settings['n_targets'])} candidates was trained on with probability {prior}, "
        f"independently of the others.{always} These models see fewer records than one trained on "
        "all of them, which each of its records moves less.",
        f"{held_out}. They calibrate attacks and measure utility.",
        "The attackers know the records and targets of all candidates, and how the model is "
        "trained. Those that learn a threshold or a law from the other releases know who was "
        f"trained on there; the exact test is told all memberships but the one it guesses. {_LESS}",
        _PLAYED,
    ]


def _attacked(report: AuditFacts) -> list[str]:
    n_targets, n_records = (report.settings[f"n_{name}"] for name in ("targets", "records"))
    if n_targets >= n_records:
        return []
    if report.settings.get("sampled", False):
        return [
            f"{count(n_targets)} of {plural(n_records, 'record')}, drawn at random, were attacked. "
            "Shares and means are estimates for all records, and their intervals allow for who was "
            "drawn; the prior and imputation that they are compared with are those of the records "
            "drawn. What is said of single records, and of the most exposed, is about those drawn: "
            "another record may be more exposed."
        ]
    return [
        f"{count(n_targets)} of {plural(n_records, 'record')} were attacked. Shares and means are "
        "over those; a record that was not attacked may be more exposed."
    ]


def _prior(report: AuditFacts) -> list[str]:
    stated = report.settings["prior"]
    prior = _PRIORS.get(stated, f"Prior: {shorten(stated, 80)}.")
    if report.unbounded:
        return [prior]
    return [
        prior,
        "The bounds hold for secrets drawn from that prior. "
        + (
            "Here they were: in every game a secret was drawn and the model made with it."
            if report.settings["secrets"] == "drawn"
            else "Here the secrets are those of the data, so a bound holds on average over draws "
            "of the secrets and not for these records in particular."
        ),
    ]


def _unbiased(report: AuditFacts) -> list[str]:
    if report.unbounded:
        return ["Errors are means over the attacked records: single ones can be much smaller."]
    lines = [
        "The bound of Cramér and Rao is for unbiased attackers. Those who lean on prior knowledge "
        "are biased and may have a smaller error; a verdict says so where their bias is beyond "
        "doubt.",
        "Errors are means over the attacked records: single records can have a much smaller one. "
        "The bound is that of the median record, and so is the error over the bound; figures show "
        "the mean of the bounds, in which a record counts with no more than the error of guessing.",
    ]
    if report.kind == "record":
        lines.append(
            "The bound takes every number of a record to be free. An attacker who knows that some "
            "belong together, as the columns of one category do, may have a smaller error."
        )
    return lines


def _of_numbers(report: AuditFacts) -> list[str]:
    """Say what the bounds for attackers with the prior of a number suppose."""
    drawn = report.settings["secrets"] == "drawn"
    return [
        "The prior of the number is how it is distributed among the other records. What the other "
        "columns of a record tell of it is not in it, and whoever knows that may have a smaller "
        "error.",
        "The Bayes risk and the bound of van Trees hold for every attacker with that prior, biased "
        "or not, on average over what the number may be. "
        + (
            "Here it was drawn from the prior, and the model made with it."
            if drawn
            else "Here the numbers are those of the data, a single draw: about some of them an "
            "attack errs less, about others more."
        ),
        "The limit is about the share of the squared error that such attackers remove on average "
        "over the records; from single records more is removed.",
        *_computed(report),
        "The bound of Cramér and Rao is for unbiased attackers. Those who lean on prior knowledge "
        "are biased and may have a smaller error. It is that of the median record, and so is the "
        "error over the bound.",
    ]


def _of_records(report: AuditFacts) -> list[str]:
    """Say what the bounds for attackers with a prior of whole records suppose."""
    target, given = "the target, which attackers know, tells", ""
    if report.settings["prior"] == "conditional":
        target, given = "more than a straight line of the target tells", ", given the target"
    return [
        "The prior of a record is the normal distribution with the means and covariances of the "
        f"columns, as the model sees them, of the other records{given}. Whoever knows more (that a "
        f"column has few values or long tails, or what {target} of the columns) may have a smaller "
        "error: audit such a column by itself.",
        "The bound of van Trees holds for every attacker with that prior, biased or not, on "
        "average over what the record may be. Here the records are those of the data, a single "
        "draw: about some of them an attack errs less, about others more.",
        "The limit is about the share of the squared error, summed over the columns in the units "
        "in which the model sees them, that such attackers remove on average over the records; "
        "from single records, or columns, more is removed.",
        *_computed(report),
        *_unbiased(report),
    ]


def _computed(report: AuditFacts) -> list[str]:
    """Say about whom the bounds on errors were computed, and where they are not resolved."""
    results, n, lines = report.results, report.settings["n_targets"], []
    if "n_computed" in results and (known := results["n_computed"].dropna()).size:
        lines.append(
            f"Bounds on errors were computed for {count(int(known.min()))} of the {count(n)} "
            "records, chosen at random, and four standard errors of their mean are allowed for. A "
            "record that was not chosen may be more exposed."
        )
    if "n_unresolved" in results and (most := int(results["n_unresolved"].max())):
        at = results.loc[results["n_unresolved"].idxmax(), "noise_scale"]
        lines.append(
            f"At noise scale {number(at)} the refits behind the Bayes risk do not resolve what "
            f"{plural(most, 'record')} would change: there the bound of van Trees stands for it, "
            "which is 0 where nothing is known."
        )
    return lines


def _membership_bounds(report: AuditFacts) -> list[str]:
    settings = report.settings
    has_guarantee = "dp" in report.bounds and report.results["dp"].notna().any()
    lines = [
        "What some attack surely reaches follows from the generalisation gap ([BIL23] theorem 2), "
        "with the confidence of its interval; it does not say which attack. A gap of zero excludes "
        "no attack.",
    ]
    if settings["exact_test"]:
        lines.append(
            f"No exact bound is known: {shorten(settings['exact_test'], 160)}."
            + ("" if has_guarantee else " Better attacks than those played may exist.")
        )
    elif settings["secrets"] == "actual":
        lines.append(
            "The exact bound (Bayes) is the success of the best attacker who is told all other "
            "memberships, computed for the members of every release; an attacker who is told less "
            "cannot exceed it on average."
        )
    if has_guarantee and settings.get("private_sgd"):
        lines.append(
            "The bound from differential privacy is that of the trade-off curve of the training, "
            "in real numbers. Sums of gradients are divided by a number that is the same in all "
            "releases."
        )
    elif has_guarantee:
        lines.append(
            "The bound from differential privacy is the estimator's own guarantee for its "
            "`data_norm`, at the number of records that each model was trained on."
        )
    return lines


def _noise(report: AuditFacts) -> list[str]:
    settings, membership = report.settings, report.kind == "membership"
    has_noise = settings.get("has_noise", True)
    if not has_noise and not (report.results["noise_scale"] > 0.0).any():
        return []
    lines = [
        "The noise is assumed to be secret, independent of everything else, and never drawn again."
    ]
    if settings.get("private_sgd"):
        lines.append(
            "Noise scales are noise multipliers: standard deviations of the noise on the sum of "
            "the gradients of a batch, over the norm to which each is clipped."
        )
    if not has_noise:
        lines.append("The noise was added to the parameters by the audit, not by the estimator.")
    if settings.get("releases") == "fitted":
        lines.append(
            "In every game the estimator was fitted anew, and attackers saw what it released; "
            "utility is of simulated releases."
        )
    shape = settings.get("noise_covariance", "isotropic")
    scale = "" if membership else " The noise scale is its root mean square over the parameters."
    if shape == "given":
        lines.append(
            "The noise has a covariance that was given, and counts as public: what it reveals, had "
            f"it been computed from these records, is not counted.{scale}"
        )
    elif shape != "isotropic" and not membership:
        lines.append(
            f"The covariance of the noise follows the data (`{shape}`), so every value of a secret "
            "has a covariance of its own. What a release reveals through it is counted, by the "
            f"attacks that read parameters, the bounds and the Fisher information loss.{scale}"
        )
    return lines


def _weights(report: AuditFacts) -> list[str]:
    if report.settings["reweighting"] is None:
        return []
    return [
        f"The records were reweighted ({shorten(report.settings['reweighting'], 80)}), and the "
        "weights depend on the data. What a record reveals through the weights is counted, in the "
        "Fisher information loss and by attacks on an attribute; attacks on whole records take the "
        "weights as known."
    ]


def _sampled(report: AuditFacts) -> list[str]:
    """Say of how many records the bounds were computed, where not of all."""
    if "n_bounded" not in report.results:
        return []
    known = report.results.dropna(subset=["n_bounded"])
    if known.empty:
        return []
    counts, error = known["n_bounded"].astype(int), float(known["bound_error"].max())
    low, high = count(counts.min()), count(counts.max())
    if report.settings.get("sampled", False):
        return [
            f"Bounds were computed for the {low} records that were attacked. As means of bounds of "
            f"all records they are estimates, with a standard error of at most {number(error)}: "
            "the decision allows for four of them. Verdicts compare attacks on the records "
            "attacked with the bounds of these."
        ]
    return [
        f"Bounds were computed for {low if low == high else f'{low} to {high}'} of the "
        f"{count(report.settings['n_targets'])} records at a noise scale: for those that may be "
        "the most exposed, and for a random sample of the others. Their means are estimates, with "
        f"a standard error of at most {number(error)}. Verdicts and the decision allow for "
        "four of them, or for what is known of every record where that is less. Of a record that "
        "was not computed a bound is shown that is known of all of them."
    ]


def _intervals(report: AuditFacts) -> list[str]:
    settings, membership = report.settings, report.kind == "membership"
    level, n = percent(settings["confidence_level"]), plural(settings["n_releases"], "release")
    other = "They say what other noise would change, not what other data would."
    if settings["secrets"] == "drawn":
        of = " of the success" if membership else ""
        games = f"Intervals{of} ({level}) are exact binomial ones over independent games."
        drawn = f"Intervals ({level}) are over records, which were drawn at random from all."
        sampled = settings.get("sampled", False)
        made = drawn if sampled else games if membership else f"{games} {other}"
    elif membership:
        made = (
            f"Intervals ({level}) are over {n} and clustered by release, since all records share "
            "its model. Those of the gap are Student's, those of the true positive rate by "
            "bootstrap over releases. They say what other members and other noise would change, "
            "not what other candidates would."
        )
    elif report.unbounded:
        return [_of_trainings(report, level)]
    else:
        made = (
            f"Intervals ({level}) are over {n} and clustered by release, since all records share "
            f"the noise of one. {other}"
        )
    return [
        made,
        "Behind every verdict stands an interval of its own, at level "
        f"{percent(settings['verdict_level'])}: widened so that all verdicts of this report hold "
        f"together with {level} confidence.",
    ]


def _of_trainings(report: AuditFacts, level: str) -> str:
    """Say what intervals of a model that is asked are over."""
    if not report.settings["random"]:
        return (
            "One training was asked. What attacks get right of it is exact for these records, and "
            "says nothing of other records."
        )
    n = plural(report.settings["n_releases"], "training")
    return (
        f"Intervals ({level}) are over {n} and clustered by training, since all records share the "
        "model of one. They say what other seeds would change, not what other data would."
    )
