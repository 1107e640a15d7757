"""A pipeline as it may be published."""

from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skleak._release._document import pipeline_from_json, pipeline_to_json
from skleak._release._tree import is_skipped, rebuilt, with_output


class ReleasedPipeline(Pipeline):
    """A pipeline as it may be published: public steps, and a released model.

    Objects of this kind come from `skleak.release`. Their steps are made anew from public
    parameters and the names of the columns; the last one holds what `ReleasedModel` lists. They are
    already trained: ``fit`` returns the pipeline unchanged, and ``clone`` the pipeline itself.

    Parameters
    ----------
    steps : list of (str, estimator)
        The steps, each fitted. They may be known: steps before the last are functions of public
        parameters and the names of the columns (with ``allow_fitted=True`` of the records too),
        and the last one is a released model.
    transform_input : None
        As of scikit-learn's ``Pipeline``; a release has none.
    memory : None
        Likewise.
    verbose : bool, default=False
        Likewise.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> import skleak
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.preprocessing import PublicScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pipeline = make_pipeline(PublicScaler(bounds=(-0.2, 0.2)), PrivateLinearRegression())
    >>> released = skleak.release(pipeline.fit(X, y))
    >>> released.to_sklearn()
    Pipeline(steps=[('publicscaler', MinMaxScaler(clip=True, feature_range=(-1.0, 1.0))),
                    ('privatelinearregression', LinearRegression())])
    """

    _is_released_pipeline: ClassVar[bool] = True

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Return the pipeline unchanged: it is already trained.

        Parameters
        ----------
        X : object
            Ignored.
        y : object, default=None
            Ignored.
        **params : dict
            Ignored.

        Returns
        -------
        ReleasedPipeline
        """
        return self

    def to_sklearn(self) -> Pipeline:
        """Return a pipeline of scikit-learn's own classes that predicts alike.

        For finite numbers, of a floating-point type where they are imputed, and NaN (not None)
        for what is missing.

        Returns
        -------
        Pipeline
            Fitted.

        Raises
        ------
        NotImplementedError
            For a `RowNormClipper`, which has no counterpart.
        """
        return rebuilt(self, lambda path, step: _counterpart(step))

    def to_json(self) -> str:
        """Write the pipeline as JSON, to be read by ``from_json`` without pickle.

        Returns
        -------
        str
            Every double reads back as the same double.

        Raises
        ------
        TypeError
            For steps other than those of `skleak.preprocessing`, a ColumnTransformer, a Pipeline
            and a TransformedTargetRegressor of them, and the released model.
        """
        return pipeline_to_json(self)

    @classmethod
    def from_json(cls, text: "str | bytes") -> Self:
        """Read a pipeline that ``to_json`` wrote.

        Parameters
        ----------
        text : str or bytes
            The document. It is data only: nothing in it is run.

        Returns
        -------
        ReleasedPipeline

        Raises
        ------
        ValueError
            For a document of another kind or version, or a damaged one.
        """
        steps, container = pipeline_from_json(text)
        made: Self = with_output(cls(steps), container)
        return made

    def __sklearn_clone__(self) -> Self:
        return self


def _counterpart(step: Any) -> BaseEstimator:
    """Return scikit-learn's own estimator for ours; steps of scikit-learn as they are."""
    if is_skipped(step) or not hasattr(step, "to_sklearn"):
        return step
    return step.to_sklearn()
