"""An adversary's knowledge, and everything that follows from it without an attack."""
