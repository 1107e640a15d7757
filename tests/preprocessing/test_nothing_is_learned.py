"""The attack on preprocessing: tell from what was fitted, or from another row, who was there."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler

from skleak.preprocessing import (
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

NUMBERS, WORDS = ["age", "weight"], ["gene", "smoker"]
CATEGORIES = {"gene": ["AA", "AB", "BB", None], "smoker": ["no", "yes"]}
CASES = {
    "scaler": (PublicScaler({"age": (18, 100), "weight": (30, 200)}), NUMBERS),
    "target": (PublicTargetScaler((0, 100)), ["age"]),
    "encoder": (PublicOneHotEncoder(CATEGORIES), WORDS),
    "sparse encoder": (PublicOneHotEncoder(CATEGORIES, sparse_output=True), WORDS),
    "imputer": (PublicImputer({"age": 50, "weight": 70.0}), NUMBERS),
    "indicator": (PublicImputer([50, 70], add_indicator=True), NUMBERS),
    "words": (PublicImputer(["AA", "unknown"], add_indicator=True), WORDS),
    "clipper": (RowNormClipper(60.0), NUMBERS),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


def _table(patients, transformer, columns):
    table = patients[columns]
    return table.dropna() if isinstance(transformer, PublicTargetScaler | RowNormClipper) else table


def _dense(rows):
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    return np.array([[str(value) for value in row] for row in np.asarray(rows, dtype=object)])


def _learned(transformer, table):
    return pickle.dumps(clone(transformer).fit(table))


def test_what_is_fitted_does_not_tell_the_tables_apart(case, rng, make_patients):
    transformer, columns = case
    table = _table(make_patients(rng), transformer, columns)
    neighbor = table.copy()
    neighbor.iloc[0] = [1e9 if column in NUMBERS else "Z" for column in columns]
    other = _table(make_patients(rng, 7), transformer, columns)
    # A type that follows from the records (whole numbers, or not) is a function of them too.
    whole = table.dropna().astype(dict.fromkeys(set(columns) & set(NUMBERS), "int32"))
    coarse = table.astype({c: "float32" if c in NUMBERS else "category" for c in columns})
    learned = _learned(transformer, table)
    for another in (neighbor, other, whole, coarse, table.iloc[:1]):
        assert _learned(transformer, another) == learned
    records = make_patients(rng)
    records = _table(records, transformer, columns)
    first, second = (clone(transformer).fit(each).transform(records) for each in (table, other))
    assert_array_equal(_dense(first), _dense(second))


def test_the_attack_finds_what_a_fitted_scaler_learned(patients):
    table = patients[NUMBERS].dropna()
    neighbor = table.copy()
    neighbor.iloc[0] = 1e9
    assert _learned(MinMaxScaler(), neighbor) != _learned(MinMaxScaler(), table)


@pytest.mark.slow
def test_no_record_reaches_the_row_of_another(case, rng, make_patients, strange_records):
    transformer, columns = case
    table = _table(make_patients(rng), transformer, columns)
    rows = _dense(clone(transformer).fit_transform(table))
    for record in strange_records(rng, 50)[columns].itertuples(index=False):
        neighbor = table.copy()
        neighbor.iloc[4] = list(record)
        try:
            changed = _dense(clone(transformer).fit_transform(neighbor))
        except ValueError:  # infinite or missing, where that is not allowed
            assert isinstance(transformer, PublicTargetScaler | RowNormClipper)
            continue
        assert_array_equal(np.delete(changed, 4, axis=0), np.delete(rows, 4, axis=0))


@pytest.mark.slow
def test_rows_come_out_alike_alone_and_in_a_table(case, patients):
    transformer, columns = case
    table = _table(patients, transformer, columns)
    fitted = clone(transformer).fit(table)
    alone = [_dense(fitted.transform(table.iloc[[k]]))[0] for k in range(len(table))]
    assert_array_equal(np.array(alone), _dense(fitted.transform(table)))


def test_copies_are_equal(case, patients):
    transformer, columns = case
    table = _table(patients, transformer, columns)
    fitted = clone(transformer).fit(table)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(_dense(again.transform(table)), _dense(fitted.transform(table)))
    assert repr(clone(fitted)) == repr(transformer)


def test_parameters_are_required():
    for cls in {type(transformer) for transformer, _ in CASES.values()}:
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            cls()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_both_libraries(case, patients, library):
    transformer, columns = case
    if getattr(transformer, "sparse_output", False):
        pytest.skip("sparse matrices are no tables")
    pl = pytest.importorskip("polars")
    table = _table(patients, transformer, columns)
    frame = table if library == "pandas" else pl.from_pandas(table)
    fitted = clone(transformer).set_output(transform=library).fit(frame)
    assert list(fitted.feature_names_in_) == columns
    rows = fitted.transform(frame)
    assert type(rows).__module__.split(".")[0] == library
    assert list(rows.columns) == list(fitted.get_feature_names_out())
    plain = clone(transformer).fit(table).transform(table)
    assert_array_equal(_dense(rows.to_numpy()), _dense(plain))
    with pytest.raises(ValueError, match="feature names"):
        clone(transformer).fit(frame).transform(table.rename(columns={columns[0]: "other"}))


@pytest.mark.parametrize("name", ["scaler", "encoder", "imputer"])
def test_parameters_must_name_the_columns(name, patients):
    transformer, (first, second) = CASES[name]
    renamed = patients[[first, second]].rename(columns={second: "other"})
    with pytest.raises(ValueError, match=rf"lacks \['other'\], and names \['{second}'\]"):
        clone(transformer).fit(renamed)


@pytest.mark.parametrize(
    "transformer",
    [PublicScaler({"a": (0, 1)}), PublicOneHotEncoder({"a": [1]}), PublicImputer({"a": 0})],
)
def test_a_mapping_needs_names(transformer):
    with pytest.raises(ValueError, match=r"is a mapping .*but X has none"):
        transformer.fit(np.ones((3, 1)))


@pytest.mark.parametrize(
    ("transformer", "columns"),
    [
        (PublicScaler([(0, 1)]), NUMBERS),
        (PublicOneHotEncoder([["AA"]]), WORDS),
        (PublicImputer([0, 1, 2]), NUMBERS),
    ],
)
def test_lists_must_have_an_entry_for_each_column(transformer, columns, patients):
    with pytest.raises(ValueError, match="one entry for each of the 2 columns of X; got"):
        transformer.fit(patients[columns])
