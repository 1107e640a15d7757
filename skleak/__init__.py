"""What a trained model leaks, for every person and every attribute, and how to leak less."""

from skleak._version import __version__

__all__ = ["__version__", "from_json", "release"]


def __getattr__(name: str) -> object:
    if name in ("from_json", "release"):  # imported when asked for: `import skleak` stays light
        import skleak._release

        return getattr(skleak._release, name)
    raise AttributeError(f"module 'skleak' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
