"""The evaluator "skleak" of MLflow, which `mlflow.models.evaluate` finds by its entry point."""

from typing import Any

import mlflow
import numpy as np
from mlflow.models.evaluation import EvaluationResult, ModelEvaluator
from mlflow.models.evaluation.artifacts import TextEvaluationArtifact

from skleak.tracking._mlflow import ARTIFACT, log_report


class LeakageEvaluator(ModelEvaluator):
    """Play an auditor on a data set, and log what is found without rows of persons."""

    @classmethod
    def can_evaluate(cls, *, model_type: Any, evaluator_config: Any, **_: Any) -> bool:
        """Return True if an auditor is given: without one, every evaluation would be an audit."""
        return "auditor" in (evaluator_config or {})

    def evaluate(
        self,
        *,
        model_type: Any = None,
        dataset: Any,
        run_id: str,
        evaluator_config: Any,
        **_: Any,
    ) -> EvaluationResult:
        """Fit a copy of the auditor, log the overview of its report, and return that alone."""
        from sklearn.base import clone

        if not dataset.has_targets:
            raise ValueError(
                'The evaluator "skleak" trains models on the data: name the column of the targets '
                "in `targets`."
            )
        auditor = clone(evaluator_config["auditor"])
        auditor.fit(dataset.features_data, np.asarray(dataset.labels_data))
        metrics = log_report(auditor.report_, run_id=run_id)
        uri = f"{mlflow.get_run(run_id).info.artifact_uri}/{ARTIFACT}"
        page = TextEvaluationArtifact(uri=uri, content=auditor.report_.to_markdown())
        return EvaluationResult(metrics=metrics, artifacts={ARTIFACT: page}, run_id=run_id)
