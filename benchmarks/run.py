"""Run all benchmarks, keep what they find as JSON, and write the page of it with its plots.

    python benchmarks/run.py                        # what is not there yet, and docs/benchmarks.md
    python benchmarks/run.py --only bench_growth    # one; --again replaces what is there
    python benchmarks/run.py --quick --out FOLDER   # small sizes, page and plots into FOLDER too
    python benchmarks/run.py --only page            # nothing but the page, from the committed JSON
    python benchmarks/run.py --only compare_art     # a peer, in an environment of its own

A benchmark whose JSON exists is not run again, so a run that was stopped goes on where it stopped.
Peers are run where they are named, or all of them with `--peers`: they are installed from PyPI.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _page import load_results, plots, write_page

HERE = Path(__file__).parent
RESULTS, DOCS = HERE / "results", HERE.parent / "docs"
# Many threads on few cores are slower, and less even.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="one benchmark, or `page`")
    parser.add_argument("--quick", action="store_true", help="small sizes; needs --out")
    parser.add_argument("--again", action="store_true", help="run what is there already")
    parser.add_argument("--peers", action="store_true", help="peers as well, from PyPI")
    parser.add_argument("--out", type=Path, help="folder for JSON, page and plots")
    options = parser.parse_args()
    if options.quick and options.out is None:
        parser.error("--quick needs --out FOLDER: small sizes are not what the page shows")
    return options, parser


def chosen(options, parser):
    """Scripts to run, in the order of their names."""
    own, peers = sorted(HERE.glob("bench_*.py")), sorted(HERE.glob("peers/compare_*.py"))
    scripts = {script.stem: script for script in own + peers}
    if options.only:
        unknown = sorted(set(options.only) - set(scripts) - {"page"})
        if unknown:
            parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(scripts)}")
        return [scripts[name] for name in options.only if name != "page"]
    return own + (peers if options.peers else [])


def run(script, folder, options):
    """Return True if the result is there, from now or from before."""
    kept = folder / f"{script.stem}.json"
    if kept.exists() and not options.again:
        print(f"{script.stem}: kept")
        return True
    print(f"{script.stem}: runs", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / kept.name
        command = [sys.executable, str(script), "--json", str(found)]
        command += ["--quick"] if options.quick else []
        status = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=False).returncode
        if status == 0 and found.exists():
            kept.write_text(found.read_text())
            return True
    print(f"{script.stem}: FAILED, nothing kept")
    return False


def main():
    options, parser = parse_options()
    results = RESULTS if options.out is None else options.out / "results"
    docs = DOCS if options.out is None else options.out
    results.mkdir(parents=True, exist_ok=True)
    fine = [run(script, results, options) for script in chosen(options, parser)]
    found = load_results(results)
    write_page(found, docs)
    print(f"{docs / 'benchmarks.md'}: {len(found)} benchmarks, {len(plots(found))} plots")
    return int(not all(fine))


if __name__ == "__main__":
    sys.exit(main())
