import gzip

import numpy as np
import pandas as pd
import pytest

from skleak.cli._reading import read_table, resolve_column

FRAME = pd.DataFrame({"name": ["a;b", "c,d", "e"], "x": [1.5, -2.25, np.nan], "n": [1, 2, 3]})


@pytest.mark.parametrize(
    "separator, word", [(",", "commas"), (";", "semicolons"), ("\t", "tabs"), ("|", "bars")]
)
def test_separators_are_found_with_quotes_in_the_way(tmp_path, separator, word):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, sep=separator, index=False)
    reading = read_table(str(path))
    pd.testing.assert_frame_equal(reading.frame, FRAME, check_dtype=False, check_column_type=False)
    assert reading.notes == (f"Read t.csv: 3 records, 3 columns (separated by {word}).",)


def test_compressed_files_and_byte_order_marks(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode("utf-8-sig")))
    assert read_table(str(path)).frame.columns.tolist() == ["name", "x", "n"]
    wide = tmp_path / "w.csv"
    wide.write_bytes(FRAME.to_csv(index=False).encode("utf-16"))
    assert read_table(str(wide)).frame["n"].tolist() == [1, 2, 3]


def test_decimal_commas_and_dots_between_thousands(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe;preis;name\n1,5;1.234,5;1,x\n2;7;2,y\n;-0,25;z\n".encode("cp1252"))
    reading = read_table(str(path))
    assert reading.frame["größe"].tolist()[:2] == [1.5, 2.0]
    assert np.isnan(reading.frame["größe"][2])
    assert reading.frame["preis"].tolist() == [1234.5, 7.0, -0.25]
    assert reading.frame["name"].tolist() == ["1,x", "2,y", "z"]
    assert "encoded as cp1252" in reading.notes[0]
    assert reading.notes[1] == "Numbers with a decimal comma: größe, preis."


def test_a_comma_between_thousands_is_no_decimal_comma(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"1,234",1\n"2,345",2\n')
    assert read_table(str(path)).frame["a"].tolist() == ["1,234", "2,345"]


def test_missing_values_and_spaces(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age, work \n39, ?\n?, State-gov\n, Private\n")
    frame = read_table(str(path)).frame
    assert frame.columns.tolist() == ["age", "work"]
    assert frame["age"].isna().sum() == 2
    assert frame["work"].isna().tolist() == [True, False, False]


def test_parquet_with_an_index_that_has_a_name(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    FRAME.set_index("name").to_parquet(path)
    assert sorted(read_table(str(path)).frame.columns) == ["n", "name", "x"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ImportError("no engine")

    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        read_table(str(path))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"a,b\n1,2\n", "holds 1 record of 2 columns"),
        (
            "t.csv",
            b"a,b\n1,2\n3,4,5\n",
            "^cannot read .*: Expected 2 fields in line 3, saw 3. Expected a table",
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
        read_table(str(path))


def test_columns_of_one_name_are_told_by_their_places(tmp_path):
    """The name may be a value of the first person, of a file without a head."""
    file = tmp_path / "people.csv"
    for head in ("dose;sex;;age; sex ;", '\n"dose";"sex";"";"age";"sex";'):
        file.write_text(f"{head}\n1;2;3;4;5;\n1;2;3;4;5;\n")
        with pytest.raises(ValueError, match="columns 2 and 5 have the same name") as told:
            read_table(str(file))
        assert "sex" not in str(told.value)
    file.write_text("dose,,,\n1,2,3,4\n5,6,7,8\n")
    assert len(read_table(str(file)).frame.columns) == 4


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_table(str(tmp_path / "t.csv"))
    with pytest.raises(ValueError, match="is a folder"):
        read_table(str(tmp_path))


def test_an_unknown_column_gets_the_nearest_names():
    frame = pd.DataFrame({"Dose": [1], "weight": [1], "age": [1]})
    assert resolve_column(frame, "age", "--drop") == "age"
    with pytest.raises(ValueError, match=r"--target: .*'dose'. Did you mean 'Dose'"):
        resolve_column(frame, "dose", "--target")
    with pytest.raises(ValueError, match="The columns are 'Dose', 'weight', 'age'"):
        resolve_column(frame, "zzzz", "--target")
