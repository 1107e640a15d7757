"""What an audit says of nobody in particular: overviews, and dossiers for those who supervise."""
