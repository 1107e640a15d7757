"""Numbers, names and figures as reports show them."""
