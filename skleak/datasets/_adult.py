"""UCI Adult (census income): the raw table and the papers' numeric one."""

import io
import os
from typing import Any

import numpy as np
import pandas as pd

from skleak.datasets._cache import SourceFile, load_file
from skleak.datasets._table import bundle_frame, one_hot, one_hot_blocks
from skleak.utils._arguments import check_choice

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
TRAIN = SourceFile(
    name="adult.data.gz",
    url=f"{UCI}/adult.data",
    sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
)
TEST = SourceFile(
    name="adult.test.gz",
    url=f"{UCI}/adult.test",
    sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
)
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
NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
TARGET = "income"
NOMINAL = [name for name in COLUMNS if name not in [*NUMERIC, TARGET]]
MARRIED = ["Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent"]
SUBSETS = ["train", "test", "all"]

DESCR = """\
UCI Adult (census income)
=========================

Persons of the 1994 census of the USA; the target is whether the yearly income exceeds 50,000
dollars. 32,561 training records, of which 30,162 are complete, and 16,281 test records, of which
15,060 are complete.

Source: https://archive.ics.uci.edu/dataset/2/adult, files adult.data and adult.test.
Becker, B. and Kohavi, R. (1996), Adult, UCI Machine Learning Repository, doi 10.24432/C5XW20.
Licence: CC BY 4.0.

Columns
-------
The 14 columns of the source under its names: age, workclass, fnlwgt, education, education-num,
marital-status, occupation, relationship, race, sex, capital-gain, capital-loss, hours-per-week,
native-country; then married, made from marital-status: 1 for Married-AF-spouse,
Married-civ-spouse and Married-spouse-absent, else 0. Target income: "<=50K" or ">50K".

By default only complete records are given. The levels of a nominal column are those of the
training part, in alphabetical order, for the test part too. The sensitive column is married:
marital-status holds it, and relationship gives most of it away, so leave both out to study it.

Encoding (``encoded=True``)
---------------------------
Complete records; marital-status merged into married and relationship dropped; nominal columns
one-hot, the first level in alphabetical order dropped; the six numeric columns standardised with
the mean and the standard deviation of the training part, the test part with the same ones;
married 0/1; target 1 for an income above 50,000 dollars, else 0. 86 columns. education-num is a
function of education, so with an intercept the columns are linearly dependent.
"""


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
        one-hot with the first level dropped, numeric ones standardised with training moments,
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
        table), ``sensitive`` (``married``) and ``DESCR`` (source, licence, columns).

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
    sources = [TRAIN] if subset == "train" else [TRAIN, TEST]
    parts = [_read(load_file(source, data_home, download_if_missing)) for source in sources]
    if complete_records:
        parts = [part.dropna(ignore_index=True) for part in parts]
    parts = _categorize(parts)
    blocks = one_hot_blocks(_inputs_of_the_papers(parts[0]))
    if encoded:
        parts = _encode(parts)
    X = pd.concat(parts if subset == "all" else parts[-1:], ignore_index=True)
    y = X.pop(TARGET)
    details = {
        "categorical_features": NOMINAL.copy(),
        "one_hot_blocks": blocks,
        "sensitive": ["married"],
    }
    return bundle_frame(X, y, as_frame, return_X_y, DESCR, **details)


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
    frame[TARGET] = frame[TARGET].str.removesuffix(".")
    frame["married"] = frame["marital-status"].isin(MARRIED).astype(np.int64)
    return frame


def _categorize(parts: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Nominal columns as categories with the sorted levels of the first part, the training one."""
    levels = {name: sorted(parts[0][name].dropna().unique()) for name in [*NOMINAL, TARGET]}
    dtypes = {name: pd.CategoricalDtype(values) for name, values in levels.items()}
    return [part.astype(dtypes) for part in parts]


def _inputs_of_the_papers(part: pd.DataFrame) -> pd.DataFrame:
    return part.drop(columns=["marital-status", "relationship", TARGET])


def _encode(parts: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """One-hot and standardised with the moments of the first part, the training one."""
    mean = parts[0][NUMERIC].mean()
    spread = parts[0][NUMERIC].std(ddof=0)
    encoded = []
    for part in parts:
        X = one_hot(_inputs_of_the_papers(part))
        X[NUMERIC] = (X[NUMERIC] - mean) / spread
        encoded.append(X.assign(**{TARGET: (part[TARGET] == ">50K").astype(np.int64)}))
    return encoded
