"""Raw tables outside memory: facts of all records, and some of these in memory."""

from skleak.inspection.large._facts import ColumnFacts
from skleak.inspection.large._some import SomeRecords, some_records

__all__ = ["ColumnFacts", "SomeRecords", "some_records"]
