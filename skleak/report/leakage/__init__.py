"""The pages of leakage reports: facts, sentences and tables about one fitted model."""
