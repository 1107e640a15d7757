"""The report of an audit: facts, sentences, and the forms it takes."""
