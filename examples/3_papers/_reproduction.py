"""What a script finds about a table or figure of a paper: printed, compared, and kept as JSON.

Every ``plot_*.py`` of this folder makes one ``Reproduction``. It takes its results from
``results/NAME.json`` where they are kept, and draws and compares from them in seconds:

    python plot_NAME.py              take the kept results; compute them where there are none
    python plot_NAME.py --recompute  compute all of it again, and keep it
    python plot_NAME.py --compare    take the kept results, and keep the comparisons anew
    python plot_NAME.py --out DIR    keep in another folder than ``results``

``reproduce.py`` writes all of it into ``docs/reproduction.md``.
"""

import json
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd

AGREES, DIFFERS, UNKNOWN, NOT_RUN = "agrees", "differs", "no published number", "not run"
SOURCES = {
    "printed": "printed in the paper",
    "figure": "read off the figure",
    "claim": "said in words",
    "formula": "computed here from the paper's formula",
    "notes": "from earlier notes of this project, not checked against the paper",
    "data": "in the data files of the authors' code",
    "ours": "of this project, not of the paper",
    "unknown": "not known to us",
}
RELATIVE = 1e-6  # kept and new comparisons are the same up to arithmetic


def _half_a_digit(published):
    """Half a unit of the last digit that is printed."""
    return 0.5 * 10.0 ** Decimal(published).as_tuple().exponent


def plain(value):
    """Value as JSON holds it: lists and dictionaries of numbers with six digits."""
    if isinstance(value, pd.DataFrame):
        return {str(name): plain(column) for name, column in value.items()}
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | pd.Series | pd.Index | list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, np.integer | int):
        return int(value)
    if isinstance(value, np.floating | float):
        return float(f"{value:.6g}")
    return value


def shown(value):
    """Number with the digits that matter, or text as it is."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"


class Reproduction:
    """Kept results and comparisons of one script.

    ``item`` is "table 1" or "figures 2 to 4"; ``sizes`` says on how much data it was computed, and
    how that compares with the paper; ``derived`` from which other results where it trains nothing
    itself, and what those took.
    """

    def __init__(self, script, paper, item, title, sizes, *, derived=""):
        self.script = Path(script)
        self.facts = {"script": self.script.name, "paper": paper, "item": item}
        self.facts |= {"title": title, "sizes": sizes}
        if derived:
            self.facts["derived"] = derived
        name = self.script.stem.removeprefix("plot_") + ".json"
        self.source = self.script.parent / "results" / name
        self.path = self.source
        if "--out" in sys.argv:
            self.path = Path(sys.argv[sys.argv.index("--out") + 1]) / name
        self.numbers = []
        self.kept = json.loads(self.source.read_text()) if self.source.exists() else None
        self.recompute = "--recompute" in sys.argv or self.kept is None
        self._data, self._seconds, self._start = {}, 0.0, time.process_time()

    def results(self, compute):
        """Kept results; those of ``compute()``, a dictionary, where asked for or none are kept."""
        if self.recompute:
            start = time.process_time()
            self._data = plain(compute())
            self._seconds = time.process_time() - start
            self._keep()  # nothing is lost where what follows fails
            print(f"computed in {self._seconds:.0f} s")
        else:
            self._data, self._seconds = self.kept["data"], self.kept["seconds"]
            print(f"kept results, computed in {self._seconds:.0f} s (--recompute: again)")
        return self._data

    def number(self, name, published, here, tolerance=None, *, source="printed", why=""):
        """Compare a number with a published one.

        ``published`` is text with the printed digits ("0.040"), which makes half a unit of the last
        digit the tolerance where none is given; a number, with a tolerance; or None where it is not
        known to us, or with ``source="ours"`` not in the paper. ``here`` is None where it was not
        computed, and ``why`` says why.
        """
        if published is None:
            source = "ours" if source == "ours" else "unknown"
        elif tolerance is None:
            tolerance = _half_a_digit(published)
        if here is None:
            status = NOT_RUN
        elif published is None:
            status = UNKNOWN
        else:
            # A ten-thousandth more, for numbers that are halfway between digits.
            close = abs(here - float(published)) <= 1.0001 * tolerance
            status = AGREES if close else DIFFERS
        self._add(name, published, plain(here), tolerance, status, source, why)

    def claim(self, name, published, here, holds, *, source="claim", why=""):
        """Compare what the paper says in words with what is found: a number or words.

        With ``source="formula"`` the words are not the paper's: they follow from its formula.
        """
        status = NOT_RUN if holds is None else AGREES if holds else DIFFERS
        self._add(name, published, plain(here), None, status, source, why)

    def _add(self, name, published, here, tolerance, status, source, why):
        if status in (DIFFERS, NOT_RUN) and not why:
            raise ValueError(f"{name}: {shown(here)} against {shown(published)}. Say why.")
        if source not in SOURCES:
            raise ValueError(f"source must be one of {sorted(SOURCES)}; got {source!r}.")
        values = (name, published, here, plain(tolerance), status, source, why)
        keys = ("name", "published", "here", "tolerance", "status", "source", "why")
        self.numbers.append(dict(zip(keys, values, strict=True)))

    def close(self):
        """Print all comparisons; keep them, or check that they are those kept."""
        width = max(len(number["name"]) for number in self.numbers)
        print(f"\n{'paper / here / difference':{width}}")
        for number in self.numbers:
            published, here = number["published"], number["here"]
            gap = "-"
            if number["status"] in (AGREES, DIFFERS) and number["tolerance"]:
                gap = f"{here - float(published):+.2g}"
            line = f"{shown(published)} / {shown(here)} / {gap}  ({number['status']})"
            print(f"{number['name']:{width}}  {line}")
            if number["why"]:
                print(f"{'':{width}}    {number['why']}")
        if self._seconds == 0.0:
            self._seconds = time.process_time() - self._start
        if self.recompute or "--compare" in sys.argv:
            self._keep()
        elif not same({**self.facts, "numbers": self.numbers}, self._without_times()):
            raise ValueError(f"{self.source.name} keeps other comparisons. Pass --compare.")

    def _without_times(self):
        return {key: part for key, part in self.kept.items() if key not in ("seconds", "data")}

    def _keep(self):
        facts = {**self.facts, "seconds": round(self._seconds, 1), "numbers": self.numbers}
        self.path.parent.mkdir(exist_ok=True, parents=True)
        text = json.dumps({**facts, "data": self._data}, ensure_ascii=False)
        self.path.write_text(_lines(text) + "\n", encoding="utf-8")


def same(first, second):
    """Tell whether two parts of a JSON are the same up to the last digits of numbers."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and isinstance(second, float | int):
        return bool(np.isclose(first, second, rtol=RELATIVE, atol=1e-12, equal_nan=True))
    return first == second


def _lines(text):
    """JSON with a line for each list of numbers, so that files are short and changes are seen."""
    parts = json.loads(text)

    def walk(part, depth):
        pad = " " * depth
        if isinstance(part, dict) and part:
            items = (f"{pad} {json.dumps(k)}: {walk(v, depth + 1)}" for k, v in part.items())
            return "{\n" + ",\n".join(items) + f"\n{pad}}}"
        if isinstance(part, list) and any(isinstance(item, dict | list) for item in part):
            return "[\n" + ",\n".join(f"{pad} {walk(v, depth + 1)}" for v in part) + f"\n{pad}]"
        return json.dumps(part, ensure_ascii=False)

    return walk(parts, 0)
