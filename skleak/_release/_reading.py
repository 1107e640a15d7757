"""Read what was published as JSON."""

from skleak._release._pipeline import ReleasedPipeline
from skleak._released import ReleasedModel
from skleak.utils._json import read_document


def from_json(text: "str | bytes") -> "ReleasedModel | ReleasedPipeline":
    """Read a release that ``to_json`` wrote, of a model or of a pipeline.

    Parameters
    ----------
    text : str or bytes
        The document. It is data only: nothing in it is run.

    Returns
    -------
    ReleasedModel or ReleasedPipeline
        Predicts like the release that was written, to the last bit.

    Raises
    ------
    ValueError
        For a document of another kind or version, or a damaged one.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import skleak
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> released = PrivateLinearRegression().fit(X, y).release()
    >>> again = skleak.from_json(released.to_json())
    >>> bool((again.predict(X) == released.predict(X)).all())
    True
    """
    kind, _ = read_document(text)
    reader = ReleasedPipeline if kind == ReleasedPipeline.__name__ else ReleasedModel
    return reader.from_json(text)
