"""The command line: ``skleak audit`` for data of your own, ``skleak demo`` for bundled data."""

from skleak.cli._main import main as main
