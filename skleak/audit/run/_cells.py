"""Play the cells of an audit in parallel, and keep those that are finished."""

from collections.abc import Callable, Mapping

from joblib import Parallel, delayed
from tqdm import tqdm

from skleak.audit.games._game import Cell
from skleak.audit.tables._design import Outcome
from skleak.utils._confidential import to_own_workers


def run_cells(
    cells: Mapping[str, Cell],
    done: dict[str, Outcome],
    *,
    n_jobs: int | None,
    verbose: int,
    keep: Callable[[], None],
) -> dict[str, Exception]:
    """Run what is not done yet; every finished cell enters `done` at once.

    A cell that fails does not stop the others.

    Returns: what went wrong, by key.
    """
    open_cells = {key: cell for key, cell in cells.items() if key not in done}
    failed: dict[str, Exception] = {}
    with (
        to_own_workers(),
        tqdm(
            total=len(cells),
            initial=len(cells) - len(open_cells),
            desc="audit",
            unit="cell",
            disable=verbose <= 0,
        ) as bar,
    ):
        results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(_run)(key, cell) for key, cell in open_cells.items()
        )
        for key, outcome, error in results:
            if error is None:
                done[key] = outcome
                keep()
            else:
                failed[key] = error
            bar.update()
    return failed


def _run(key: str, cell: Cell) -> tuple[str, Outcome, Exception | None]:
    function, arguments = cell
    try:
        return key, function(*arguments), None
    except Exception as error:  # told to the caller, who has other cells to finish
        return key, {}, error
