"""The noise of releases: as it is stated, as it is measured, and as games draw it."""
