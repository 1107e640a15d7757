import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow

from skleak.cli._columns import Decisions, read_table
from skleak.cli._options import Audit
from skleak.cli._reading import check_columns, check_file, read_names

FRAME = pd.DataFrame({"name": ["a;b", "c,d", "e"], "x": [1.5, -2.25, np.nan], "n": [1, 2, 3]})


def read(path, as_text=()):
    """Frame, how it was read, and what was said of its columns; the names come first, alike."""
    decisions = Decisions()
    names = read_names(path)
    frame, how = read_table(path, as_text, decisions)
    assert sorted(names) == sorted(frame.columns)
    return frame, how, dict(line.split(": ", 1) for line in decisions.lines())


@pytest.mark.parametrize(
    "separator, word", [(",", "commas"), (";", "semicolons"), ("\t", "tabs"), ("|", "bars")]
)
def test_separators_are_found_with_quotes_in_the_way(tmp_path, separator, word):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, sep=separator, index=False)
    frame, how, told = read(path)
    pd.testing.assert_frame_equal(frame, FRAME, check_dtype=False, check_column_type=False)
    assert word in how
    assert told == {}


def test_compressed_files_and_byte_order_marks(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode("utf-8-sig")))
    assert read(path)[0].columns.tolist() == ["name", "x", "n"]
    wide = tmp_path / "w.csv"
    wide.write_bytes(FRAME.to_csv(index=False).encode("utf-16"))
    assert read(wide)[0]["n"].tolist() == [1, 2, 3]


def test_decimal_commas_and_dots_between_thousands(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        "größe;preis;name;miete\n1,5;1.234,5;1,x;950\n2;7;2,y;1.234\n;-0,25;z;12.000.000\n"
        "3;8;2,z;1.000\n".encode("cp1252")
    )
    frame, how, told = read(path)
    assert frame["größe"].tolist()[:2] == [1.5, 2.0]
    assert np.isnan(frame["größe"][2])
    assert frame["preis"].tolist() == [1234.5, 7.0, -0.25, 8.0]
    assert frame["name"].tolist() == ["1,x", "2,y", "z", "2,z"]
    assert "cp1252" in how
    # Where commas are before decimals, a point is between thousands.
    assert frame["miete"].tolist() == [950.0, 1234.0, 12e6, 1000.0]
    assert list(told) == ["größe, preis, miete"]


@pytest.mark.parametrize("values", [["1.234", "0.5"], ["1.234", "12.34"]])
def test_fractions_beside_decimal_commas_stay_fractions(tmp_path, values):
    path = tmp_path / "t.csv"
    path.write_text(f"a;b\n1,5;{values[0]}\n2,5;{values[1]}\n")
    assert read(path)[0]["b"].tolist() == list(map(float, values))


@pytest.mark.parametrize(
    "text, separator, number",
    [
        ("1,234.50", ",", 1234.5),
        ("1,234", ",", 1234.0),
        ("-1,234,567", ";", -1234567.0),
        ("1.234,50", ",", 1234.5),
        ("1.234,50", ";", 1234.5),
        ("1,234", ";", 1.234),
        ("1 234,5", ";", 1234.5),
        ("1\u202f234,5", ";", 1234.5),
        ("1'234,5", ";", 1234.5),
        ("1,5e3", ";", 1500.0),
        ("31.01.1950", ";", None),
        ("192.168.0.1", ";", None),
        ("0123,45,6", ",", None),
        ("12,34", ",", 12.34),
        ("1.2.3", ",", None),
        ("E01", ",", None),
        (".", ",", None),
    ],
)
def test_numbers_as_people_write_them(tmp_path, text, separator, number):
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [text] * 3, "b": [1, 2, 3]}).to_csv(path, sep=separator, index=False)
    frame, _, told = read(path)
    assert frame["a"].tolist() == [text if number is None else number] * 3
    assert ("a" in told) == (number is not None)


def test_one_odd_value_among_numbers_is_missing_and_told_by_its_row(tmp_path):
    path = tmp_path / "t.csv"
    ages = [str(20 + k) for k in range(30)]
    ages[16] = "oops"
    pd.DataFrame({"age": ages, "code": ["1", "2", "x"] * 10}).to_csv(path, index=False)
    frame, _, told = read(path)
    assert frame["age"].isna().to_numpy().nonzero()[0].tolist() == [16]
    assert frame["age"].sum() == sum(range(20, 50)) - 36
    assert "row 17" in told["age"]
    assert "oops" not in told["age"]
    assert frame["code"].tolist() == ["1", "2", "x"] * 10


def test_codes_stay_as_they_are_written(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,n\n01067,1\n99999,2\n")
    assert read(path, ["zip"])[0]["zip"].tolist() == ["01067", "99999"]
    assert read(path)[0]["zip"].tolist() == [1067, 99999]


def test_missing_values_and_spaces(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age, work \n39, ?\n?, State-gov\n, Private\n")
    frame = read(path)[0]
    assert frame.columns.tolist() == ["age", "work"]
    assert frame["age"].isna().sum() == 2
    assert frame["work"].isna().tolist() == [True, False, False]


def test_parquet_with_an_index_that_has_a_name(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    FRAME.set_index("name").to_parquet(path)
    assert sorted(read(path)[0].columns) == ["n", "name", "x"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ImportError("no engine")

    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        read_table(path, (), Decisions())


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"a,b\n1,2\n", "holds 1 record of 2 columns"),
        (
            "t.csv",
            b"a,b\n1,2\n3,4,5\n",
            "^cannot read .*Expected 2 fields in line 3, saw 3",
        ),
        ("t.csv", b"a,b\n1,2,3\n3,4,5\n", "more cells than the first"),
        ("t.csv", b"\x00\x01\x02", "not text"),
        ("t.csv.gz", b"plain text", "cannot read"),
        ("t.parquet", b"nothing", "cannot read"),
    ],
)
def test_files_that_are_no_table(tmp_path, name, content, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(path, (), Decisions())


def test_columns_of_one_name_are_told_by_their_places(tmp_path):
    """The name may be a value of the first person, of a file without a head."""
    file = tmp_path / "people.csv"
    for head in ("dose;sex;;age; sex ;", '\n"dose";"sex";"";"age";"sex";'):
        file.write_text(f"{head}\n1;2;3;4;5;\n1;2;3;4;5;\n")
        with pytest.raises(ValueError, match="columns 2 and 5 have the same name") as told:
            read_table(file, (), Decisions())
        assert "sex" not in str(told.value)
    file.write_text("dose,,,\n1,2,3,4\n5,6,7,8\n")
    assert len(read(file)[0].columns) == 4


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        check_file(str(tmp_path / "t.csv"))
    with pytest.raises(ValueError, match="is a folder"):
        check_file(str(tmp_path))


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"target": "dose"}, "--target: .*'dose'. Did you mean 'Dose'"),
        ({"target": "zzzz"}, "The columns are 'Dose', 'weight', 'age'"),
        ({"sensitive": "wait"}, "--sensitive: .*Did you mean 'weight'"),
        ({"person": "no"}, "--person: there is no column 'no'"),
        ({"drop": ["age", "x"]}, "--drop: there is no column 'x'"),
        ({"sensitive": "age"}, "target itself"),
        ({"drop": ["age"]}, "--drop would leave out 'age', which --target names"),
        ({"id": "age"}, "--id would leave out 'age'"),
        ({"sensitive": "Dose", "person": "Dose"}, "which --sensitive names"),
    ],
)
def test_columns_that_cannot_be_meant(asked, message):
    columns = ["Dose", "weight", "age"]
    with pytest.raises(ValueError, match=message):
        check_columns(columns, Audit(**{"data": "", "target": "age"} | asked))
    check_columns(columns, Audit("", "age", sensitive="Dose", drop=["weight"], id="weight"))


def test_nothing_of_a_table_is_quoted_where_others_read():
    with pytest.raises(ValueError, match=r"no column 'x'$"):
        check_columns(["Anna", "41"], Audit("", "x", brief=True))


@pytest.mark.parametrize("ending", mostly_slow([".csv", ".parquet"]))
def test_a_wrong_name_is_told_before_anything_heavy_is_imported(tmp_path, ending):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"t{ending}"
    (FRAME.to_csv if ending == ".csv" else FRAME.to_parquet)(path, index=False)
    code = (
        "import sys; from skleak.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'pandas', 'sklearn', 'scipy', 'matplotlib', 'joblib'}; "
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    for data, target in (
        (path, "nane"),
        (tmp_path / "nowhere.csv", "name"),
        (tmp_path, "name"),
    ):
        command = [sys.executable, "-c", code, "audit", data, "--target", target]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "2 []\n"
        assert done.stderr.count("\n") == 1
