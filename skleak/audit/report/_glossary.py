"""What the words of the report of an audit mean; only those that it uses."""

from skleak.audit.report._facts import AuditFacts
from skleak.metrics import BIASED, CONSISTENT, EXCEEDED, INCOMPARABLE, VACUOUS
from skleak.plotting.labels import limit_text
from skleak.plotting.results import SHARE, counts_success

_VERDICTS = {
    CONSISTENT: "The interval of the attack reaches below the bound. It proves nothing: "
    "another attack may do better, and a wide interval is consistent with much.",
    EXCEEDED: "The whole interval lies beyond the bound. What the bound supposes is then not so: "
    "the prior, the noise, or what the attack was told.",
    BIASED: "The error is smaller than unbiased attacks can have. Nothing is wrong: an attack "
    "that leans on prior knowledge is biased, and the bound is not about it.",
    VACUOUS: "The bound excludes nothing, such as a success of at most 100%.",
    INCOMPARABLE: "No verdict: the attack uses what the prior of the bound leaves out, such as "
    "the other columns of the record.",
}


def glossary(report: AuditFacts) -> tuple[tuple[str, str], ...]:
    """List terms and what they mean."""
    guesses, membership = counts_success(report), report.kind == "membership"
    rows = []
    if not report.noiseless:
        said = "Standard deviation of the noise that is added to each parameter."
        if report.settings.get("private_sgd"):
            said = (
                "Standard deviation of the noise on the sum of the gradients of a batch, over the "
                "norm to which each is clipped: the noise multiplier."
            )
        rows.append(("Noise scale", said))
    if not guesses:
        rows.append(
            (
                "Advantage",
                "1 minus the mean squared error over that of guessing the mean of the others: 0% "
                "is no better than that guess, 100% is exact.",
            )
        )
    else:
        over = "a guess that ignores the model" if membership else "the prior"
        rows.append(
            (
                "Advantage",
                f"How much of what {over} gets wrong an attack gets right: (success - p) / (1 - "
                "p), with p the success of that guess. 0% is no better, 100% always right.",
            )
        )
    rows.append(
        (
            "Limit",
            f"The advantage that is tolerated, here {limit_text(report.settings['max_advantage'])} "
            "on average over records: `max_advantage`, on the command line `--fail-above`.",
        )
    )
    if report.kind == "categorical":
        rows += _OF_VALUES
    if SHARE in report.results:
        known = "the number is distributed"
        if report.kind == "record":
            known = "the columns are distributed, by their means and covariances"
        rows += [
            (term, said.replace("the number is distributed", known)) for term, said in _OF_NUMBERS
        ]
    if "posterior_mean" in set(report.results["attack"]):
        rows.append(("Posterior mean", _POSTERIOR_MEAN))
    bounds = [name for name in report.bounds if report.results[name].notna().any()]
    kinds = {"fano" if "fano" in name else name for name in bounds}
    rows += [(term, said) for kind, term, said in _BOUNDS if kind in kinds]
    shown = set(report.results["verdict"]) if "verdict" in report.results else set()
    rows += [
        (name[:1].upper() + name[1:], said) for name, said in _VERDICTS.items() if name in shown
    ]
    return tuple(rows)


# Kinds of bounds, and what they are.
_BOUNDS = (
    (
        "bayes",
        "Exact (Bayes)",
        "Success of the best possible attack, which knows all but the secret and the noise, "
        "computed rather than bounded: no attack exceeds it, and one reaches it.",
    ),
    ("dp", "Differential privacy", "What the estimator guarantees whatever the records are."),
    (
        "fano",
        "Fano, trade-off, Rényi and others",
        "Bounds on the success of every attack from how much a release tells of the secret. They "
        "hold like the exact value, and are looser.",
    ),
    (
        "bayes_mse",
        "Bayes risk",
        "Mean squared error of the best attacker, who knows all but the number and the noise, and "
        "how the number is distributed: computed rather than bounded, as a mean over what the "
        "number may be. No attacker with that knowledge errs less, and the posterior mean reaches "
        "it.",
    ),
    (
        "van_trees",
        "Van Trees",
        "A bound on the mean squared error of the same attackers, biased or not, from the Fisher "
        "information of the release and of the distribution. It holds like the Bayes risk, and is "
        "looser.",
    ),
    (
        "cramer_rao",
        "Cramér–Rao",
        "Smallest error of an attack that is right on average, whatever the truth is (unbiased). "
        "Attacks that lean on prior knowledge may err less.",
    ),
)
_POSTERIOR_MEAN = (
    "The attack that knows how the number is distributed and guesses its mean given the release. "
    "It errs least on average over what the number may be."
)
_OF_NUMBERS = [
    (
        "Squared error removed",
        "By how much an attack errs less than guessing the mean, over the variance of the "
        "distribution: on the scale of the bound, as a mean over what the numbers may be. What an "
        "attack removes depends on how far a number is from its mean, and these numbers may be "
        "further or closer than usual: the figure is adjusted for that.",
    ),
    (
        "Removed at most",
        "The largest share of the squared error of guessing the mean that any attacker removes who "
        "knows how the number is distributed: 1 minus the Bayes risk, or van Trees where that is "
        "larger, over the variance of the distribution. The limit is about its mean over records, "
        "and the most exposed record is the one with the largest of its own.",
    ),
]
_OF_VALUES = [
    (
        "Prior",
        "What is known of the secret before the release. Bounds and advantages are relative to it.",
    ),
    (
        "Imputation",
        "A guess from the other columns of the record, without the model. What it gets right is "
        "known of the population, and no noise hides it.",
    ),
]
