"""Records that a model is asked about."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.adversary.hypotheses import PublicModel, plain_table
from skleak.adversary.knowledge import Secret
from skleak.utils._predictions import select_columns


def preprocessed(model: PublicModel, query: Any) -> Any:
    """Preprocess raw records, whose columns may be in any order."""
    steps = model.preprocessing
    return query if steps is None else steps.transform(select_columns(steps, query))


def check_categories(table: Any, secret: Secret) -> None:
    """Check that candidate values are categories of the column, which pandas would drop."""
    if secret.values is None or not isinstance(table, pd.DataFrame):
        return
    dtype = table.dtypes.iloc[secret.index]
    if not isinstance(dtype, pd.CategoricalDtype):
        return
    lacking = [value for value in secret.values if value not in dtype.categories]
    if lacking:
        raise ValueError(
            f"The categories of the attribute lack the candidate values {lacking[:5]}; got "
            f"{dtype.categories.tolist()[:10]}. Add them with `cat.add_categories`."
        )


def stacked(rows: Sequence[Any]) -> Any:
    """All targets under the first candidate, then all under the second, sparse or dense."""
    if isinstance(rows[0], pd.DataFrame):
        return pd.concat(rows)
    tables = [plain_table(row) for row in rows]
    return sparse.vstack(tables) if sparse.issparse(tables[0]) else np.concatenate(tables)
