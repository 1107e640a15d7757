"""Which libraries of the field install from PyPI into an environment of their own, and load.

    python benchmarks/peers/compare_installs.py

Each is installed by its name alone, with what it asks for, and the module that a user would import
first is imported. Where that fails, the error is shown.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import _peer

LIBRARIES = {
    "adversarial-robustness-toolbox": "art.attacks.inference.membership_inference",
    "diffprivlib": "diffprivlib.models",
    "leakpro": "leakpro.leakpro",
    "opendp": "opendp.prelude",
    "privacy-meter": "privacy_meter.audit",
    "riskcal": "riskcal",
    "sacroml": "sacroml.attacks.likelihood_attack",
}
HEADER = ["package", "version", "scikit-learn there", "loads", "error"]


def attempt(name, module):
    """A line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-input", name]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            return [name, "", "", "no", done.stderr.strip().splitlines()[-1]]
        shown = []
        for package in (name, "scikit-learn"):
            try:
                shown.append(_peer.versions(python, [package]).split()[-1])
            except subprocess.CalledProcessError:
                shown.append("")
        load = [str(python), "-W", "ignore", "-c", f"import {module}"]
        done = subprocess.run(load, capture_output=True, text=True, check=False)
        error = done.stderr.strip().splitlines()[-1] if done.returncode else ""
        error = re.sub(r" \([^)]*[/\\][^)]*\)", "", error)  # the place of a file
        return [name, *shown, "no" if done.returncode else "yes", error]


def main():
    from _common import exit_status, parse_options, print_table
    from _results import legend

    options = parse_options(__doc__)
    some = dict(list(LIBRARIES.items())[1:2]) if options.quick else LIBRARIES
    lines = [attempt(name, module) for name, module in some.items()]
    print_table("Installed from PyPI by name", HEADER, lines)
    legend(f"Python {sys.version.split()[0]}")
    return exit_status([])


if __name__ == "__main__":
    sys.exit(main())
