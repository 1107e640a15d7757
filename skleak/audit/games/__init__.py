"""Games that an audit plays, each a `Game`: an attribute, whole records, membership."""
