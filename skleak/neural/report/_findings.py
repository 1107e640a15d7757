"""Facts: what the numbers of a report of private SGD say, most important first."""

import numpy as np

from skleak.neural.report._facts import SGDFacts
from skleak.report import Finding

# A bound on what is gained that excludes nothing worth speaking of.
VACUOUS = 0.99


def facts(report: SGDFacts) -> tuple[Finding, ...]:
    """Find what the numbers of a report say; the first entry is the answer."""
    data = report.dataset
    if data["noise_multiplier"] == 0.0:
        return (Finding("no_noise", {}),)
    found = []
    guess, whole = _guess(report), _reconstruction(report)
    vacuous = guess is None or guess["gain"] > VACUOUS
    first = [guess, whole] if not vacuous else [whole, guess]
    if data["seeded"]:
        found.append(Finding("seeded", {}))
    found += [each for each in first if each is not None]
    found += [each for each in (_renyi(report), _prior(report)) if each is not None]
    if data["missing"]:
        found.append(Finding("unknown", {"why": data["missing"], "clipping": data["clipping"]}))
    if guess is None:
        reasons = report.differential_privacy["reasons"]
        found.append(Finding("not_computed", {"reasons": list(reasons)}))
    return tuple(found)


def _guess(report: SGDFacts) -> Finding | None:
    """Say what the guarantee leaves of guesses, whoever guesses about whom."""
    if not len(report.guesses):
        return None
    table = report.guesses.set_index("secret")
    two, member = table.iloc[0], table.iloc[-1]
    privacy = report.differential_privacy
    return Finding(
        "guess",
        {
            "gain": float(two["advantage"]),
            "success": float(two["success"]),
            "true_positives": float(two["true_positives_at_1pct"]),
            "membership_gain": float(member["advantage"]),
            "membership_true_positives": float(member["true_positives_at_1pct"]),
            "epsilon": float(privacy["epsilon"]),
            "delta": float(privacy["delta"]),
        },
    )


def _reconstruction(report: SGDFacts) -> Finding | None:
    """Say how far off an unbiased attacker is who reconstructs the most exposed record."""
    table, data = report.reconstruction, report.dataset
    if "most_exposed" not in table.index:
        return None
    place = report.records["unbiased_mse"].idxmin()
    own = report.records.loc[place]
    loss, error = (own[name] for name in _LOSS_AND_ERROR)
    printed = float(table["mse"].get("printed", np.nan))
    return Finding(
        "reconstruction",
        {
            "record": place,
            "mse": float(own["unbiased_mse"]),
            "root": float(np.sqrt(own["unbiased_mse"])),
            "over_guess": float(table.loc["most_exposed", "over_guess"]),
            "loss": float(loss),
            "loss_error": float(error),
            "relative_error": float(error / loss) if loss > 0.0 else 0.0,
            "printed_ratio": float(own["unbiased_mse"]) / printed if printed > 0.0 else np.nan,
            "scope": data["scope"],
            "exact": data["exact"],
            "n_followed": data["n_followed"],
            "n_records": data["n_records"],
        },
    )


_LOSS_AND_ERROR = ("diagonal_fisher_information_loss", "diagonal_fisher_information_loss_error")


def _renyi(report: SGDFacts) -> Finding | None:
    """Compare what holds for every record with what holds for the most exposed one."""
    table = report.reconstruction
    if "renyi" not in table.index:
        return None
    own = float(table["mse"].get("most_exposed", np.nan))
    row = table.loc["renyi"]
    told = {"mse": float(row["mse"]), "root": float(row["root"])}
    told |= {"over_guess": float(row["over_guess"]), "most_exposed_mse": own}
    return Finding("renyi", told | {"renyi": float(report.differential_privacy["renyi"])})


def _prior(report: SGDFacts) -> Finding | None:
    """Say what the release removes of the error of who knows how entries are distributed."""
    table = report.reconstruction
    if "van_trees" not in table.index or not table.loc["guess", "mse"] > 0.0:
        return None
    row = table.loc["van_trees"]
    removed = float(np.clip(1.0 - row["over_guess"], 0.0, 1.0))
    told = {"mse": float(row["mse"]), "root": float(row["root"]), "share_removed": removed}
    return Finding("prior", told)
