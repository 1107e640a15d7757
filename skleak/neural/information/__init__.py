"""The Fisher information of every record, added up over the steps."""
