"""A ledger of releases in a file."""
