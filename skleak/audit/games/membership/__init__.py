"""Games of membership: one record at a time, or a random training set."""
