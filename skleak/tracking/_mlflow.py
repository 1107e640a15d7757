"""Overviews of reports in a run of MLflow."""

from typing import Any

from skleak._version import __version__
from skleak.report.reports import SharedReport
from skleak.utils._arguments import import_optional

ARTIFACT = "skleak-overview.md"


def log_report(
    report: Any, *, run_id: str | None = None, prefix: str = "skleak/", artifact: str = ARTIFACT
) -> dict[str, float]:
    """Log the overview of a report to a run of MLflow: metrics and a page of Markdown.

    What is logged are the numbers of ``report.to_metrics()`` and the text of
    ``report.to_markdown()``: no label, no value of a record, and no largest or smallest record. A
    tracking server is read by many. But the numbers are functions of the training records: runs on
    data that differ by one person differ by what that person changes.

    Parameters
    ----------
    report : AuditReport or LeakageReport
        What was measured.
    run_id : str, default=None
        Run to log to; None for the active one, which MLflow starts where there is none.
    prefix : str, default="skleak/"
        Before the name of each metric.
    artifact : str, default="skleak-overview.md"
        Name of the page among the artifacts of the run.

    Returns
    -------
    dict of str to float
        The metrics that were logged, by name.

    Raises
    ------
    ImportError
        Without MLflow: ``pip install 'skleak[mlflow]'``.
    TypeError
        For what is no report of an audit or of leakage, such as a report about one person.
    ValueError
        Where means would be over fewer than ten records.

    Notes
    -----
    With `mlflow.models.evaluate` an audit is made and logged by the evaluator "skleak", which
    plays the auditor that it is given on the data set:
    ``evaluate(data=table.assign(guess=0.0), targets="income", predictions="guess",
    model_type="regressor", evaluators="skleak", evaluator_config={"auditor": auditor})``. MLflow
    wants a column of predictions where no model is passed, and a type of model; the evaluator
    looks at neither, nor at a model: the auditor trains its own.

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_report(auditor.report_)
    """
    if not isinstance(report, SharedReport):
        raise TypeError(
            "`report` must be the report of an audit (`auditor.report_`) or a leakage report; got "
            f"{type(report).__name__}, of which nothing is about nobody in particular."
        )
    mlflow = import_optional("mlflow", "mlflow", "Logging to an experiment tracker")
    page = report.to_markdown()
    # MLflow takes no plus sign in a name, as of 1e+06.
    numbers = {f"{prefix}{name}".replace("+", ""): x for name, x in report.to_metrics().items()}
    if run_id is None:
        run_id = (mlflow.active_run() or mlflow.start_run()).info.run_id
    mlflow.log_metrics(numbers, run_id=run_id)
    mlflow.log_text(page, artifact, run_id=run_id)
    mlflow.tracking.MlflowClient().set_tag(run_id, "skleak.version", __version__)
    return numbers
