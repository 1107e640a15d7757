"""The version: apart from the root, so that a module can name it and import nothing else."""

__version__ = "0.1.0"
