"""Tables of an audit from the outcomes of its cells."""
