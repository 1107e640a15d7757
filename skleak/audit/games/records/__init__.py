"""The game of whole records: all that the model sees of a record is secret."""
