"""Whether a limit is kept, for whom it has to be: in a line, and as SARIF 2.1.0.

Both are read by others than those who may see the data: they count records, and name none.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skleak._version import __version__
from skleak.cli._options import Audit
from skleak.plotting.labels import code, count, limit_text, number
from skleak.report import AuditReport

# What a log of code scanning holds whatever was found, and its rules.
_LOG = Path(__file__).with_name("sarif.json")
_ABOVE, _UNKNOWN, _NOISE = "advantage-above-limit", "advantage-not-known", "noise-check-failed"


def judge(report: AuditReport, options: Audit) -> tuple[bool, str]:
    """Return whether the limit is kept at every noise scale, and a line that says so."""
    decision, found = _failing(report, options)
    kept = "kept" if decision["passes"] else "NOT KNOWN"
    kept = "NOT KEPT" if any(rule == _ABOVE for rule, _, _ in found) else kept
    told = ", ".join(text for _, _, text in found)
    advice = ""
    if decision["sampled"] and decision["of"] == "everyone" and kept == "NOT KNOWN":
        advice = " A random sample does not speak for everyone: ask with --of 99%."
    line = f"Limit {_limit(decision)}: {kept}{f' {told}' if found else ''}.{advice}"
    return bool(decision["passes"]), line


def _failing(report: AuditReport, options: Audit) -> tuple[Any, list[tuple[str, float, str]]]:
    """Return the decision; and rule, noise scale and words for each at which it fails."""
    decision = report.decision(options.fail_above, of=options.of or "everyone")
    found = []
    for level in decision["levels"]:
        if level["passes"]:
            continue
        above = level["verdict"] == "not_kept" or level["n_above"] > 0
        text = f"at noise {number(level['noise'])}" if level["noise"] else "without noise"
        if level["n_above"] > 0:
            least = "" if level["largest"] == level["largest"] else "at least "
            n, of = count(int(level["n_above"])), count(decision["n_attacked"])
            text += f" ({least}{n} of {of} above)"
        rule = _ABOVE if above and level["verdict"] != "not_known" else _UNKNOWN
        found.append((rule, level["noise"], text))
    return decision, found


def _limit(decision: Any) -> str:
    of = decision["of"]
    whom = of if isinstance(of, str) else f"{limit_text(of)} of people"
    return f"{limit_text(decision['limit'])} for {'the ' * (of == 'average')}{whom}"


def sarif(report: AuditReport, options: Audit) -> str:
    """Write where the limit is not kept; the place is the file that asked for the audit."""
    log = json.loads(_LOG.read_text(encoding="utf-8"))
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    driver["version"], run["properties"] = __version__, {"metrics": report.to_metrics()}
    rules = {rule["id"]: rule for rule in driver["rules"]}
    decision, found = _failing(report, options)
    # Brackets would begin a link.
    name = code(report.attribute).replace("[", r"\[").replace("]", r"\]")
    about = {"membership": "membership", "record": "whole records"}.get(report.kind, name)
    checks = report.checks
    failed = [] if checks.empty else checks["noise_scale"][~checks["passed"].astype(bool)].unique()
    found += [(_NOISE, float(noise), f"at noise {number(noise)}") for noise in failed]
    path, line = options.asked_in or (Path(options.data), 1)
    path, here = path.expanduser().resolve(), Path.cwd()
    below = path.is_relative_to(here)
    uri = quote(path.relative_to(here).as_posix()) if below else path.as_uri()
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    run["results"] = [
        {
            "ruleId": rule,
            "ruleIndex": list(rules).index(rule),
            "level": rules[rule]["defaultConfiguration"]["level"],
            "message": {
                "text": f"{rules[rule]['shortDescription']['text']} {text}: {about}, limit "
                f"{_limit(decision)}."
            },
            "locations": [{"physicalLocation": place}],
            # The same finding of two runs is one alert, whatever its numbers.
            "partialFingerprints": {"skleakFinding/v1": sha256(key.encode()).hexdigest()[:32]},
        }
        for rule, noise, text in found
        for key in [repr((rule, report.kind, report.attribute, noise))]
    ]
    return json.dumps(log, indent=2, allow_nan=False) + "\n"
