"""Findings of an audit as SARIF 2.1.0, which code scanning shows; without rows of persons."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from skleak._version import __version__
from skleak.audit import AuditReport
from skleak.cli._limit import passing
from skleak.plotting.labels import attack_label, code, limit_text, number
from skleak.plotting.results import advantage_text

_ABOVE, _UNKNOWN, _NOISE = "advantage-above-limit", "advantage-not-known", "noise-check-failed"
# Identifier of a rule: what it finds, and what to do about it.
_RULES = {
    _ABOVE: (
        "Attackers may gain more than the limit",
        "At a noise scale audited the bounds allow attackers, or an attack has, a larger advantage "
        "over the prior than the limit, on average over the records.",
        "Train with more noise, with more records or with a stronger penalty; `--reweighting "
        "total` evens out what records leak. The report names the noise scale that keeps the "
        "limit.",
    ),
    _UNKNOWN: (
        "What attackers gain is not known",
        "Nothing bounds the attacks that were not played at a noise scale audited.",
        "A private estimator of skleak has bounds: leave out `--model`, or add noise.",
    ),
    _NOISE: (
        "The noise is not what the model states",
        "Releases differ from the noise that the bounds suppose, by more than chance explains.",
        "No bound holds. Repair the estimator, and audit again.",
    ),
}


def sarif(report: AuditReport, limit: float, file: Path, line: int) -> str:
    """Write what is above a limit; ``file`` with its line is where the audit was asked for."""
    where = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(file)},
            "region": {"startLine": line},
        }
    }
    results = [
        _result(rule, level, text, where, (report.kind, report.attribute, noise))
        for rule, level, text, noise in _found(report, limit)
    ]
    driver = {
        "name": "skleak",
        "version": __version__,
        "rules": [_rule(name) for name in _RULES],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "results": results,
        "properties": {"metrics": report.to_metrics()},
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _found(report: AuditReport, limit: float) -> list[tuple[str, str, str, float]]:
    """List rule, level, text and noise scale of each finding."""
    what = {"membership": "membership", "record": "whole records"}.get(report.kind)
    # Brackets would begin a link.
    name = code(report.attribute).replace("[", r"\[").replace("]", r"\]")
    about = what or f"the column {name}"
    found = []
    for noise, row in passing(report, limit).iterrows():
        if row["passes"]:
            continue
        where = "Without noise" if noise == 0.0 else f"At noise scale {number(float(noise))}"
        if row["advantage"] > limit:
            by = "the bound" if row["source"] == "bound" else attack_label(row["source"])
            least = "at least " if row["at_least"] else ""
            share = advantage_text(report, float(noise), row, limit)
            text = (
                f"{where} attackers on {about} may have an advantage of {least}{share} ({by}); the "
                f"limit is {limit_text(limit)}."
            )
            found.append((_ABOVE, "error", text, float(noise)))
        else:
            text = f"{where} nothing bounds the advantage of attackers on {about}."
            found.append((_UNKNOWN, "warning", text, float(noise)))
    checks = report.checks
    if not checks.empty:
        failed = checks[~checks["passed"].astype(bool)]
        for noise, part in failed.groupby("noise_scale"):
            names = ", ".join(sorted(set(part["check"])))
            text = f"At noise scale {number(float(noise))} checks of the noise failed: {names}."
            found.append((_NOISE, "error", text, float(noise)))
    return found


def _rule(name: str) -> dict[str, Any]:
    short, full, advice = _RULES[name]
    return {
        "id": name,
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "help": {"text": advice},
        "defaultConfiguration": {"level": "warning" if name == _UNKNOWN else "error"},
        "properties": {"tags": ["privacy"]},
    }


def _result(
    rule: str, level: str, text: str, where: dict[str, Any], about: tuple[Any, ...]
) -> dict[str, Any]:
    # The same finding of two runs is one alert, whatever its numbers.
    key = sha256(repr((rule, *about)).encode()).hexdigest()[:32]
    return {
        "ruleId": rule,
        "ruleIndex": list(_RULES).index(rule),
        "level": level,
        "message": {"text": text},
        "locations": [where],
        "partialFingerprints": {"skleakFinding/v1": key},
    }


def _uri(file: Path) -> str:
    """Write a path as a URI, relative to where the command runs if it lies below."""
    from urllib.parse import quote

    path = file.expanduser().resolve()
    try:
        return quote(path.relative_to(Path.cwd()).as_posix())
    except ValueError:
        return path.as_uri()
