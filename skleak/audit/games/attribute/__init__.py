"""The game of one column: its value in every record under attack is secret."""
