"""What the comparisons share: another library in an environment of its own, fed through files."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # for _common and _results
HOME = Path(os.environ.get("SKLEAK_PEERS", Path(__file__).parents[2] / ".venv-peers"))


def environment(name: str, requirements: Sequence[str]) -> Path:
    """The Python of an environment with some packages from PyPI, made on the first call."""
    folder = HOME / name
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    done = folder / "installed.txt"
    if not done.exists() or done.read_text().split("\n") != list(requirements):
        install = [str(python), "-m", "pip", "install", "--quiet", *requirements]
        subprocess.run(install, check=True)
        done.write_text("\n".join(requirements))
    return python


def ask(script: str, python: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run the worker of a script in another environment: arrays there, arrays back."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "task.npz", **arrays)
        command = [str(python), "-W", "ignore", os.path.abspath(script), "--worker", folder]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        with np.load(Path(folder) / "answer.npz") as answer:
            return dict(answer)


def answer(work: Callable[..., Mapping[str, np.ndarray]]) -> None:
    """Do the work of a worker: read the task, save the answer."""
    folder = Path(sys.argv[sys.argv.index("--worker") + 1])
    os.chdir(folder)  # some libraries write files wherever they are
    with np.load(folder / "task.npz") as task:
        found = work(**dict(task))
    np.savez(folder / "answer.npz", **found)


def is_worker() -> bool:
    return "--worker" in sys.argv


def versions(python: Path, names: Sequence[str]) -> str:
    """Versions of some packages in an environment, as text."""
    code = "import json, importlib.metadata as m, sys; "
    code += "print(json.dumps([m.version(name) for name in sys.argv[1:]]))"
    found = subprocess.run(
        [str(python), "-c", code, *names], capture_output=True, text=True, check=True
    )
    return ", ".join(f"{a} {b}" for a, b in zip(names, json.loads(found.stdout), strict=True))


def timed(function: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result
