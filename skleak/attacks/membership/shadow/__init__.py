"""Shadow models: trained like the model under attack, on sets whose members are known."""
