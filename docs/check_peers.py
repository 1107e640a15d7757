"""Run the commands of the comparison for the libraries that this environment has.

`python docs/check_peers.py` in an environment of its own for each library; a project that is no
package is checked in a clone of it: `python docs/check_peers.py leakpro PATH`.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from peers import PEERS, QUESTIONS, READ_ONLY


def wrong(name: str, folder: str | None = None) -> list[str]:
    """Return the questions whose command fails for a library."""
    found = []
    for question, cells in QUESTIONS.items():
        answer, command = cells[name]
        call = ["bash", "-c", command] if name in READ_ONLY else [sys.executable, "-c", command]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            found.append(f"{name}: {question}: {answer!r} is not so\n{done.stderr[-300:]}")
    return found


def main() -> int:
    """Check what there is, and say what was."""
    if len(sys.argv) > 1:
        names, folder = [sys.argv[1]], sys.argv[2]
    else:
        present = [name for name in PEERS if importlib.util.find_spec(name)]
        names, folder = [name for name in present if name not in READ_ONLY], None
    faults = [fault for name in names for fault in wrong(name, folder)]
    print("\n".join(faults) or f"every command runs for {', '.join(names)}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
