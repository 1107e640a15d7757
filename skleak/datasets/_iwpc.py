"""Warfarin dosing (IWPC), in the preprocessed table of Yeom et al. 2018."""

import io
import os
from typing import Any

import numpy as np
import pandas as pd

from skleak.datasets._cache import SourceFile, load_file
from skleak.datasets._table import bundle_frame, one_hot, one_hot_blocks

IWPC = SourceFile(
    name="iwpc-scaled.csv",
    url=(
        "https://raw.githubusercontent.com/samuel-yeom/ml-privacy-csf18/"
        "5b176c3025b02ce5853448dbe6365ce7f0eecbf4/data/iwpc-scaled.csv"
    ),
    sha256="fc81402548298d703a92c63d84c8d2e2da266af7ccda35025d35f431934977f3",
)
NOMINAL = ["race", "cyp2c9", "vkorc1"]
TARGET = "dose"

DESCR = """\
IWPC warfarin dosing
====================

4,819 patients of the International Warfarin Pharmacogenetics Consortium; the target is the stable
dose of warfarin. The table is the preprocessed one of Yeom et al. 2018 (Privacy Risk in Machine
Learning: Analyzing the Connection to Overfitting), which [FIL21] and [FANO23] use as well.

Source: https://github.com/samuel-yeom/ml-privacy-csf18, file data/iwpc-scaled.csv.
Licence: MIT (that repository). Data: International Warfarin Pharmacogenetics Consortium,
Estimation of the Warfarin Dose with Clinical and Pharmacogenetic Data, NEJM 2009.

Columns
-------
race        asian, black, white
age         decade of age, z-score
height      z-score
weight      z-score
amiodarone  1 where the patient takes amiodarone, else 0
decr        1 where the patient takes an enzyme inducer, else 0
cyp2c9      genotype, a code of two alleles: 11, 12, 13, 22, 23, 33 (names, not numbers)
vkorc1      genotype: CC, CT, TT
dose        target, z-score

There are no missing values. The genotypes cyp2c9 and vkorc1 are the sensitive columns.

Encoding (``encoded=True``)
---------------------------
race, cyp2c9 and vkorc1 one-hot, the first level in alphabetical order dropped: 5 numeric columns,
then 2 + 5 + 2 indicators, 14 in all. The papers split the records 80/20 at random.
"""


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
        (source, licence, columns).

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
    content = load_file(IWPC, data_home, download_if_missing)
    X = pd.read_csv(io.BytesIO(content), dtype=dict.fromkeys(NOMINAL, str))
    X = X.astype(dict.fromkeys(NOMINAL, "category"))  # levels in alphabetical order
    y = X.pop(TARGET).astype(np.float64)
    blocks = one_hot_blocks(X)
    if encoded:
        X = one_hot(X)
    details = {
        "categorical_features": list(blocks),
        "one_hot_blocks": blocks,
        "sensitive": ["cyp2c9", "vkorc1"],
    }
    return bundle_frame(X, y, as_frame, return_X_y, DESCR, **details)
