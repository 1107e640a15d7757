"""What the fetchers share: one-hot columns, choices, and the form of what they return."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import Bunch


def one_hot_blocks(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Names of the one-hot columns of each category column, its first level dropped."""
    nominal = frame.select_dtypes("category")
    return {
        name: [f"{name}_{level}" for level in column.cat.categories[1:]]
        for name, column in nominal.items()
    }


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace each category column by indicators of all its levels but the first.

    Shapes: ``frame`` (n_records, n_columns); returns: the other columns in their order, then the
    indicators.
    """
    return pd.get_dummies(frame, drop_first=True, dtype=np.float64).astype(np.float64)


def bundle_frame(
    X: pd.DataFrame, y: pd.Series, as_frame: bool, return_X_y: bool, descr: str, **details: Any
) -> Any:
    """Return a table and its target as frames, or as writable arrays, named by its columns.

    The arrays are of float64 where every column is numeric, else of objects.
    """
    return bundle(
        X if as_frame else np.array(X),
        y if as_frame else np.array(y),
        return_X_y=return_X_y,
        feature_names=X.columns.tolist(),
        target_name=str(y.name),
        descr=descr,
        **details,
    )


def bundle(
    X: Any,
    y: Any,
    *,
    return_X_y: bool,
    feature_names: list[str],
    target_name: str,
    descr: str,
    **details: Any,
) -> Any:
    """Return ``(X, y)``, or a Bunch with the fields of scikit-learn's ``fetch_openml``."""
    if return_X_y:
        return X, y
    return Bunch(
        data=X,
        target=y,
        frame=pd.concat([X, y], axis=1) if isinstance(X, pd.DataFrame) else None,
        feature_names=feature_names,
        target_names=[target_name],
        DESCR=descr,
        **details,
    )
