"""Games that an audit plays: an attribute, whole records, membership."""
