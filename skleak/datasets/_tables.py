"""Tables of persons: UCI Adult (census income) and IWPC (doses of warfarin)."""

import io
import os
from typing import Any

import numpy as np
import pandas as pd

from skleak.datasets._cache import SOURCES, bundle, load_file
from skleak.utils._arguments import check_choice

SUBSETS = ["train", "test", "all"]
INCOME, DOSE = "income", "dose"
NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
NOMINAL = [name for name in COLUMNS if name not in [*NUMERIC, INCOME]]
MARRIED = ["Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent"]
GENOTYPES = ["cyp2c9", "vkorc1"]


def fetch_adult(
    *,
    subset: str = "train",
    encoded: bool = False,
    complete_records: bool = True,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    as_frame: bool = True,
    download_if_missing: bool = True,
) -> Any:
    """Load the Adult data: income above 50,000 dollars from census records.

    The files ``adult.data.gz`` and ``adult.test.gz`` are looked for in the data home and else
    downloaded. Their uncompressed content is checked by SHA-256.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The part of the source; "all" is the training part followed by the test part. "train" needs
        the training file only, the others need both: levels and moments are those of the training
        part.
    encoded : bool, default=False
        False gives the source's 14 columns and ``married``, nominal columns as pandas categories,
        target "<=50K" or ">50K". True gives the numeric table of the papers, 86 columns:
        ``marital-status`` merged into ``married`` (0/1), ``relationship`` dropped, nominal columns
        one-hot with the first level dropped, numeric ones standardized with training moments,
        target 1 for ">50K", else 0.
    complete_records : bool, default=True
        Leave out records with missing values. False keeps them in the raw table, as NaN.
    data_home : str or path-like, default=None
        Folder of the data files. None takes the environment variable ``SKLEAK_DATA``, and where
        that is unset ``~/skleak_data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Return a DataFrame and a Series; else arrays, of float64 (target: int64) where encoded, and
        else of objects.
    download_if_missing : bool, default=True
        False raises an error where a file is missing.

    Returns
    -------
    Bunch or tuple
        ``data`` of shape (n_records, 15), or (n_records, 86) where encoded, with 30,162 training
        and 15,060 test records; ``target`` of shape (n_records,); ``frame`` (both, or None),
        ``feature_names``, ``target_names``, ``categorical_features`` (nominal columns of the raw
        table), ``one_hot_blocks`` (nominal column to the names of its columns in the encoded
        table), ``sensitive`` (``married``) and ``DESCR`` (source, license, columns).

    Raises
    ------
    FileNotFoundError
        Where a file is neither in the data home nor can be downloaded; says what to put where.
    ValueError
        Where the content of a file is not the expected one, where ``subset`` is unknown, or where
        incomplete records are to be encoded.

    Examples
    --------
    >>> from skleak.datasets import fetch_adult
    >>> X, y = fetch_adult(encoded=True, return_X_y=True)  # doctest: +SKIP
    >>> fetch_adult(data_home="no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: adult.data.gz is not in ...
    """
    check_choice("subset", subset, SUBSETS)
    if encoded and not complete_records:
        raise ValueError(
            "`encoded` needs `complete_records=True`; got False. Impute and encode the raw table, "
            "or leave incomplete records out."
        )
    names = ["adult.data.gz"] if subset == "train" else ["adult.data.gz", "adult.test.gz"]
    parts = [_read(load_file(SOURCES[name], data_home, download_if_missing)) for name in names]
    if complete_records:
        parts = [part.dropna() for part in parts]
    table, n_train = pd.concat(parts, ignore_index=True), len(parts[0])
    # Levels and moments are those of the training part, for the test part too.
    levels = {name: sorted(parts[0][name].dropna().unique()) for name in [*NOMINAL, INCOME]}
    table = table.astype({name: pd.CategoricalDtype(found) for name, found in levels.items()})
    inputs = table.drop(columns=["marital-status", "relationship", INCOME])
    details = {
        "categorical_features": NOMINAL.copy(),
        "one_hot_blocks": one_hot_blocks(inputs),
        "sensitive": ["married"],
    }
    if encoded:
        inputs = one_hot(inputs)
        train = inputs.loc[: n_train - 1, NUMERIC]
        inputs[NUMERIC] = (inputs[NUMERIC] - train.mean()) / train.std(ddof=0)
        table = inputs.assign(**{INCOME: (table[INCOME] == ">50K").astype(np.int64)})
    rows = {"train": slice(n_train), "test": slice(n_train, None), "all": slice(None)}[subset]
    X = table[rows].reset_index(drop=True)
    y = X.pop(INCOME)
    return bundle("adult", X, y, X.columns.tolist(), INCOME, as_frame, return_X_y, **details)


def _read(content: bytes) -> pd.DataFrame:
    """Table of one file, with ``married``; the test file has a first comment line and ``50K.``."""
    frame = pd.read_csv(
        io.BytesIO(content),
        names=COLUMNS,
        comment="|",
        skipinitialspace=True,
        na_values="?",
        keep_default_na=False,
    )
    frame[INCOME] = frame[INCOME].str.removesuffix(".")
    frame["married"] = frame["marital-status"].isin(MARRIED).astype(np.int64)
    return frame


def fetch_iwpc(
    *,
    encoded: bool = False,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    as_frame: bool = True,
    download_if_missing: bool = True,
) -> Any:
    """Load the IWPC warfarin data: dose from demography, co-medication and genotype.

    The file ``iwpc-scaled.csv`` is looked for in the data home and else downloaded. Its content is
    checked by SHA-256.

    Parameters
    ----------
    encoded : bool, default=False
        False gives the raw table, nominal columns as pandas categories. True gives the numeric
        table of [FIL21] and [FANO23]: ``race``, ``cyp2c9`` and ``vkorc1`` one-hot with the first
        level in alphabetical order dropped, 14 columns.
    data_home : str or path-like, default=None
        Folder of the data files. None takes the environment variable ``SKLEAK_DATA``, and where
        that is unset ``~/skleak_data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Return a DataFrame and a Series; else arrays, of float64 where encoded, and else of objects
        for the data.
    download_if_missing : bool, default=True
        False raises an error where the file is missing.

    Returns
    -------
    Bunch or tuple
        ``data`` of shape (4819, 8), or (4819, 14) where encoded; ``target`` (z-score of the dose)
        of shape (4819,); ``frame`` (both, or None), ``feature_names``, ``target_names``,
        ``categorical_features`` (nominal columns of the raw table), ``one_hot_blocks`` (nominal
        column to the names of its one-hot columns), ``sensitive`` (the genotypes) and ``DESCR``
        (source, license, columns).

    Raises
    ------
    FileNotFoundError
        Where the file is neither in the data home nor can be downloaded; says what to put where.
    ValueError
        Where its content is not the expected one.

    Examples
    --------
    >>> from skleak.datasets import fetch_iwpc
    >>> fetch_iwpc().frame.groupby("vkorc1")["dose"].mean()  # doctest: +SKIP
    >>> fetch_iwpc(data_home="no/such/folder", download_if_missing=False)
    Traceback (most recent call last):
        ...
    FileNotFoundError: iwpc-scaled.csv is not in ...
    """
    content = load_file(SOURCES["iwpc-scaled.csv"], data_home, download_if_missing)
    nominal = ["race", *GENOTYPES]
    X = pd.read_csv(io.BytesIO(content), dtype=dict.fromkeys(nominal, str))
    X = X.astype(dict.fromkeys(nominal, "category"))  # levels in alphabetical order
    y = X.pop(DOSE).astype(np.float64)
    blocks = one_hot_blocks(X)
    if encoded:
        X = one_hot(X)
    details = {
        "categorical_features": list(blocks),
        "one_hot_blocks": blocks,
        "sensitive": GENOTYPES.copy(),
    }
    return bundle("iwpc", X, y, X.columns.tolist(), DOSE, as_frame, return_X_y, **details)


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
