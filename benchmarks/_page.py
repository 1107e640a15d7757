"""The page of the benchmarks, from what they kept: sections with plots, then every table."""

import json
from pathlib import Path

from _pictures import draw_pictures
from _plots import draw_bars, draw_bounds, draw_growth, draw_peers

# Tables whose ratio says how many times faster skleak is, and what a bar of them is called.
FASTER = {
    "Fisher information loss of every record (spectral norm)": "leakage",
    "Fisher information loss of every record, many classes": "leakage, many classes",
    "Whole data set, against the SVD of the n(d+1)-wide matrix": "whole data set",
    "Encodings of two values of an attribute for every record": "encodings",
    "Total leakage of every record of a reweighted fit": "leakage of a reweighted fit",
    "Exact membership test of every record": "exact membership",
    "Shadow models for every record": "shadow models",
    "Audit of 'married': 4 attacks, all bounds, 5 noise scales, 100 releases each": "whole audit",
}
TIGHTNESS = "Ratio of each bound to the Bayes advantage"
INTRO = """\
# Benchmarks

This page is written by `python benchmarks/run.py` from the JSON files in `benchmarks/results`. Each
benchmark first checks that skleak and its rival give the same result. Then it times them in turns,
in one run. The seconds are those of a shared machine with {cores} cores: trust the ratios more.
Adult, MNIST and IWPC are read from `SKLEAK_DATA`; where they are absent, data of the same shape are
made up, or the row is left out.
"""
STRAIGHTFORWARD = """\
## Against the straightforward method

How many times faster skleak is than the method that a textbook would give: a dense Jacobian and its
singular values for each record, or a refit for each record. The line shows the range over the
rounds of the run. Where the rival would take hours, its time is extrapolated from a sample of
records, and the table below says from how many.

![How many times faster skleak is than the straightforward method](benchmarks/faster.svg)
"""
GROWTH = """\
## How cost grows

Time against the number of records *n* and the number of columns *d*, with the slope of the straight
line that fits best on these logarithmic axes. A slope of 1 means: twice the data, twice the time.

![Time against the number of records and of columns](benchmarks/growth.svg)
"""
BOUNDS = """\
## How tight the bounds are

Each bound on an attacker's advantage, divided by the advantage of the best possible attack (Bayes).
A ratio of 1 would be a perfect bound. Below 1 it would be wrong: no bound was, on any channel.

![Ratio of each bound to the best attack](benchmarks/bounds.svg)

Bounds on the error of a reconstruction and on membership are in the table of
`bench_bounds_errors.py` below.
"""
PEERS = """\
## Against other libraries

The same data, the same records, the same target models. Each library is installed by itself with
pip, and called as its documentation says. What a library does not offer is left out. No library
wins every row: diffprivlib, for one, is more accurate than skleak at most epsilons, under a
stronger promise. The seconds of attacks were taken one library after the other on a busy machine:
they say how long about, the strengths of the attacks are what to compare.
"""


def load_results(folder: Path) -> dict[str, dict]:
    """All results of a folder, by the name of the benchmark."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def plots(results: dict[str, dict]) -> dict[str, str]:
    """Plots as SVG, by the name of the file; those without anything to show are left out."""
    drawn = {"faster.svg": draw_bars(bars(results)), "growth.svg": draw_growth(curves(results))}
    drawn["bounds.svg"] = draw_bounds(tightness(results))
    drawn |= {f"{name}.svg": draw_peers(panels) for name, panels in peer_panels(results).items()}
    for result in results.values():
        drawn |= draw_pictures(result.get("pictures", {}))
    return {name: svg for name, svg in drawn.items() if svg}


def write_page(results: dict[str, dict], docs: Path) -> None:
    folder = docs / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in plots(results).items():
        (folder / name).write_text(svg)
    (docs / "benchmarks.md").write_text(page(results))


def page(results: dict[str, dict]) -> str:
    """The page as Markdown."""
    cores = max((result["machine"]["cores"] for result in results.values()), default=0)
    parts = [INTRO.format(cores=cores)]
    parts += [STRAIGHTFORWARD] if bars(results) else []
    parts += [GROWTH] if curves(results) else []
    parts += [BOUNDS] if tightness(results) else []
    peers = {name: result for name, result in results.items() if name.startswith("compare_")}
    own = {name: result for name, result in results.items() if name not in peers}
    parts += [PEERS] if peers else []
    for name, result in peers.items():
        parts.append(described(name, result))
        if name in peer_panels(results):
            parts.append(f"![{result['description'].splitlines()[0]}](benchmarks/{name}.svg)\n")
    parts += ["## Every table\n"] if own else []
    parts += [described(name, result) for name, result in own.items()]
    return "\n".join(parts)


def described(name: str, result: dict) -> str:
    """A benchmark: what it is about, its tables, and what their columns mean."""
    folder = "benchmarks/peers" if name.startswith("compare_") else "benchmarks"
    parts = [f"### `{folder}/{name}.py`\n", paragraphs(result["description"])]
    for table in result["tables"]:
        parts.append(f"**{plain(table['title'])}**\n")
        parts.append(markdown_table(table["header"], table["rows"]))
        parts += [f"{plain(line)}  " for text in table["legend"] for line in text.splitlines()]
        parts += [""] if table["legend"] else []
    return "\n".join(parts)


def paragraphs(description: str) -> str:
    """A docstring without its indented commands."""
    lines = description.strip().splitlines()
    return plain("\n".join(line for line in lines if not line.startswith("    "))) + "\n"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    cells = [[plain(cell).replace("|", "/") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells) + "\n"


def plain(text: str) -> str:
    """Text whose stars and brackets mean nothing."""
    return text.replace("[", "\\[").replace("]", "\\]").replace("*", "\\*").replace("<", "&lt;")


def labeled(result: dict, title: str) -> list[tuple[str, dict[str, str]]]:
    """Rows of the table of a title: their name, and their cells by column."""
    for table in result["tables"]:
        if table["title"] == title:
            rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
            return [(", ".join(row[key] for key in table["keys"]), row) for row in rows]
    return []


def bars(results: dict[str, dict]) -> list[tuple[str, float, float, float]]:
    """Name, least, stated and largest ratio of everything that is faster, the largest first."""
    found = []
    for title, name in FASTER.items():
        for result in results.values():
            for label, row in labeled(result, title):
                low, high = (float(end) for end in row["range of ratio"].split(" .. "))
                found.append((f"{name}: {label}", low, float(row["ratio"]), high))
    return sorted(found, key=lambda bar: -bar[2])


def curves(results: dict[str, dict]) -> list[dict]:
    return [curve for result in results.values() for curve in result["curves"]]


def tightness(results: dict[str, dict]) -> list[tuple[str, float, float, float]]:
    """Name, median, 95th percentile and largest ratio of each bound, on random channels."""
    rows = [row for result in results.values() for row in labeled(result, TIGHTNESS)]
    columns = ("random: median", "random: 95 %", "random: largest")
    return [(name, *(float(row[column]) for column in columns)) for name, row in rows]


def peer_panels(results: dict[str, dict]) -> dict[str, list[dict]]:
    """What peers are drawn with: curves over something other than size, by the benchmark."""
    return {name: result["panels"] for name, result in results.items() if result.get("panels")}
