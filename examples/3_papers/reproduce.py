"""Write docs/reproduction.md: every number of the papers' tables and figures, and ours.

    python examples/3_papers/reproduce.py              from the kept results, in a second
    python examples/3_papers/reproduce.py --recompute  run every script first, two at a time
    python examples/3_papers/reproduce.py --only fil21 --recompute
    python examples/3_papers/reproduce.py --check      fail where the page is not up to date

Scripts whose results are not kept are run in any case. Real data come from the data home
(``SKLEAK_DATA``) or are downloaded; figures are not shown.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _reproduction import AGREES, DIFFERS, NOT_RUN, SOURCES, UNKNOWN, shown

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reproduction.md"
PAPERS = {
    "FIL21": "Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with "
    "Fisher Information. UAI 2021",
    "DRA22": "Guo, Karrer, Chaudhuri, van der Maaten. Bounding Training Data Reconstruction in "
    "Private (Deep) Learning. ICML 2022",
    "FANO23": "Guo, Sablayrolles, Sanjabi. Analyzing Privacy Leakage in Machine Learning via "
    "Multiple Hypothesis Testing: A Lesson From Fano. ICML 2023",
    "BIL23": "Del Grosso, Pichler, Palamidessi, Piantanida. Bounding Information Leakage in "
    "Machine Learning. Neurocomputing 534, 2023",
}
INTRODUCTION = """\
# What the papers print, and what skleak finds

Each script in `examples/3_papers` makes a table or figure of a paper. This page is written by
`python examples/3_papers/reproduce.py` from the results that the scripts keep; with `--recompute`
it runs all of them first, but for the training runs of [DRA22] figure 5: with `--full` its script
adds those that the kept file lacks.

* **Published** is the number of the paper. "-" means that the paper prints none, or that it is not
  known to us: nothing is guessed.
* **Here** is what the script computes, on the data that it names. Beside its name stands the time
  that this took one core, at most: some were measured while other programs ran.
* **Tolerance** is half a unit of the last printed digit, unless there is a reason for another one.
* **Result** is *agrees* (within the tolerance, or the statement holds), *differs*, *no published
  number*, or *not run*, with the reason.
"""


def scripts():
    """All scripts of the folder that make a figure or table of a paper."""
    return sorted(HERE.glob("plot_*.py"))


def kept(script):
    """Where the results of a script are kept."""
    return HERE / "results" / (script.stem.removeprefix("plot_") + ".json")


def run(script):
    """Run a script again; return what it printed where it failed."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, str(script), "--recompute"],
        env={**os.environ, **threads, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{script.name}: {'done' if done.returncode == 0 else 'FAILED'}", flush=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def cell(text):
    """Text that stays in its cell of the table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def duration(facts):
    """Seconds or minutes in round numbers, up to a factor that differs between machines."""
    if "derived" in facts:
        return facts["derived"]
    seconds = facts["seconds"]
    return f"{max(seconds, 1.0):.0f} s" if seconds < 90.0 else f"{seconds / 60.0:.0f} min"


def section(facts):
    """The table of one script."""
    lines = [f"### {facts['item'][0].upper()}{facts['item'][1:]}: {facts['title']}", ""]
    lines += [f"`{facts['script']}`, {duration(facts)}. {facts['sizes']}", ""]
    lines += ["| | published | here | tolerance | result | remarks |", "|---|---|---|---|---|---|"]
    for number in facts["numbers"]:
        remarks = [number["why"]] if number["why"] else []
        if number["source"] not in ("printed", "claim"):
            remarks.insert(0, SOURCES[number["source"]])
        status = f"**{number['status']}**" if number["status"] == DIFFERS else number["status"]
        cells = [number["name"], shown(number["published"]), shown(number["here"])]
        cells += [shown(number["tolerance"]), status, "; ".join(remarks)]
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    return [*lines, ""]


def render(results):
    """The page, from the kept results of all scripts."""
    lines = [INTRODUCTION]
    lines += ["| paper | numbers | agree | differ | no published number | not run |"]
    lines += ["|---|---|---|---|---|---|"]
    for paper in PAPERS:
        found = [
            n["status"] for facts in results if facts["paper"] == paper for n in facts["numbers"]
        ]
        counts = [found.count(status) for status in (AGREES, DIFFERS, UNKNOWN, NOT_RUN)]
        lines.append(f"| [{paper}] | {len(found)} | {' | '.join(map(str, counts))} |")
    lines.append("")
    for paper, title in PAPERS.items():
        lines += [f"## [{paper}]", "", f"{title}.", ""]
        for facts in results:
            if facts["paper"] == paper:
                lines += section(facts)
    return "\n".join(lines).rstrip() + "\n"


def load():
    """Kept results of all scripts, in the order of their names."""
    found = [kept(script) for script in scripts()]
    return [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]


def main():
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recompute", action="store_true", help="run the scripts again")
    parser.add_argument("--only", default="", help="scripts whose names hold this text")
    parser.add_argument("--jobs", type=int, default=2, help="scripts that run at a time")
    parser.add_argument("--check", action="store_true", help="fail where the page is out of date")
    options = parser.parse_args()
    if options.check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        raise SystemExit(0 if current == render(load()) else f"{PAGE} is out of date.")
    wanted = [script for script in scripts() if options.only in script.name]
    to_run = [script for script in wanted if options.recompute or not kept(script).exists()]
    with ThreadPoolExecutor(options.jobs) as pool:
        failures = [text for text in pool.map(run, to_run) if text]
    print(*failures, sep="\n")
    if failures:
        raise SystemExit(f"{len(failures)} of {len(to_run)} scripts failed.")
    PAGE.write_text(render(load()), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
