"""Figures of README and docs are those of the committed JSON; see "Figures" in CONTRIBUTING.md."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *ROOT.glob("docs/**/*.md")]
PAGES = sorted(page for page in PAGES if "_build" not in page.parts)
NUMBER = r"(?P<number>\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?P<percent>\s?%)?"
MARK = re.compile(
    NUMBER + r"[^\d<>|\n]{0,40}<!--\s*(?P<kind>figure|timing):\s*(?P<file>\S+)\s+(?P<key>.+?)\s*-->"
)
ANY_MARK = re.compile(r"<!--\s*(figure|timing)\b")
# What looks like a measurement: a multiple, a share, a time.
MEASURED = re.compile(
    r"(?<![\w.^])\d[\d,.]*(?: to \d[\d.]*)? ?"
    r"(?:times|percent|%|ms|milliseconds?|seconds?|minutes?|hours?)(?!\w)"
)
# Pages that explain with invented numbers, or are held to the JSON as a whole.
EXEMPT = {"tour.md", "guides/reading_a_report.md", "guides/which_noise.md", "guides/membership.md"}
EXEMPT |= {"reference/audit_columns.md", "pitfalls.md", "reproduction.md", "benchmarks.md"}
# Settings and arithmetic.
DERIVED = ["20 seconds of a core", "1 % false", "leaks 20 times what a row of weight 1 does"]
DERIVED += ["a pass takes 2.2 hours", "needs 7 minutes a pass"]
CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def look_up(found, key):
    """Follow `step / step / ...` through JSON, or find `row | column` in the tables of a benchmark.

    A step into a list is an index, or `name=value` of the object to take.
    """
    if " | " in key:
        label, column = key.split(" | ")
        cells = [
            row[table["header"].index(column)]
            for table in found["tables"]
            if column in table["header"]
            for row in table["rows"]
            if ", ".join(row[table["header"].index(name)] for name in table["keys"]) == label
        ]
        assert len(cells) == 1, f"{len(cells)} cells for {key!r}"
        return as_number(cells[0])
    for step in key.split(" / "):
        if isinstance(found, dict):
            found = found[step]
        elif "=" in step:
            name, value = step.split("=")
            (found,) = [one for one in found if str(one.get(name)) == value]
        else:
            found = found[int(step)]
    return as_number(found)


def as_number(value):
    text = str(value).strip()
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)


def written(match):
    """The number as a page states it, and how far it may be off by rounding."""
    text = match["number"].replace(",", "")
    mantissa, _, exponent = text.partition("e")
    whole, _, decimals = mantissa.partition(".")
    # Zeros at the end of a whole number are taken as rounded, up to a tenth of it.
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    unit = 10.0 ** (zeros - len(decimals) + int(exponent or 0))
    factor = 0.01 if match["percent"] else 1.0
    value = float(text)
    rounding = min(0.5 * unit, 0.1 * value) if zeros else 0.5 * unit
    return factor * value, factor * rounding * (1.0 + 1e-9)


def wrong_figures(text, root=ROOT):
    """Sentences about marks that do not agree with the file that they name."""
    text, wrong = CODE.sub("", text), []
    matches = list(MARK.finditer(text))
    if len(matches) != len(ANY_MARK.findall(text)):
        wrong.append(f"{len(ANY_MARK.findall(text))} marks, {len(matches)} of them after a number")
    for match in matches:
        value, rounding = written(match)
        expected = look_up(json.loads((root / match["file"]).read_text()), match["key"])
        if match["kind"] == "timing":
            fine = 0.5 <= value / expected <= 2.0
        else:
            fine = abs(value - expected) <= rounding
        if not fine:
            wrong.append(f"{match['number']}, but {match['key']} is {expected:g}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_are_those_of_the_json(page):
    assert not wrong_figures(page.read_text(encoding="utf-8"))


def test_every_figure_of_the_readme_has_a_mark():
    text = without_marks((ROOT / "README.md").read_text(encoding="utf-8"))
    for setting in ("Python 3.11", "noise 0.003", "BSD-3-Clause"):
        text = text.replace(setting, " ")
    assert not re.findall(NUMBER, text), "a number that no mark follows"


def without_marks(text):
    """The prose of a page, without its figures that have marks, code and links."""
    text = re.sub(r"<!--.*?-->", "", MARK.sub(" ", CODE.sub("", text)), flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)|<[^>]*>|`[^`]*`|\$[^$]*\$", " ", text)


MARKED = [page for page in PAGES if not any(page.match(f"docs/{name}") for name in EXEMPT)]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_measurement_of_the_docs_has_a_mark(page):
    text = without_marks(page.read_text(encoding="utf-8"))
    for known in DERIVED:
        text = text.replace(known, " ")
    assert not MEASURED.findall(text), "say which JSON it is from; see Figures in CONTRIBUTING.md"


def test_measurements_are_found():
    for text in ("3 times faster", "in 0.65 to 3.6 times", "of 93 % of", "1,200 seconds", "2 ms,"):
        assert MEASURED.search(without_marks(text))
    for text in ("`5 %`", "3 s^2", "6%<!-- figure: found.json score -->", "version 3", "5 columns"):
        assert not MEASURED.search(without_marks(text))


@pytest.mark.parametrize(
    "text",
    [
        "it is 0.94<!-- figure: found.json score -->",
        "94%<!-- figure: found.json score --> of them",
        "93.7 %<!-- figure: found.json runs / 1 / share -->",
        "about 1,600 times<!-- figure: found.json runs / noise=0.5 / ratio -->",
        "20 s<!-- timing: found.json tables / 0 / rows / 0 / 2 -->, 12<!-- timing: found.json "
        "adult, squared | s -->",
        "1.2e-13<!-- figure: found.json error -->",
        "```\nsix<!-- figure: found.json score -->\n```",
    ],
)
def test_marks_that_hold(text, tmp_path):
    assert not wrong_figures(text, save(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "0.93<!-- figure: found.json score -->",
        "0.940<!-- figure: found.json score -->",
        "9.4%<!-- figure: found.json score -->",
        "1,500<!-- figure: found.json runs / noise=0.5 / ratio -->",
        "5<!-- timing: found.json adult, squared | s -->",
        "many<!-- figure: found.json score -->",
    ],
)
def test_marks_that_do_not(text, tmp_path):
    assert wrong_figures(text, save(tmp_path))


def save(folder):
    table = {"header": ["data", "loss", "s"], "keys": ["data", "loss"]}
    table["rows"] = [["adult", "squared", "12.5"], ["adult", "logistic", "2"]]
    found = {"score": 0.9374, "error": 1.23e-13, "tables": [table]}
    found["runs"] = [{"noise": 0.5, "ratio": 1619.0}, {"noise": 1.0, "share": "93.7 %"}]
    (folder / "found.json").write_text(json.dumps(found))
    return folder
