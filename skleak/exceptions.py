"""Warnings and errors of skleak that are not plain ``ValueError`` or ``TypeError``."""

__all__ = [
    "AttackNotApplicableError",
    "CheckpointWarning",
    "CostWarning",
    "IncompleteAuditWarning",
    "LeakageBudgetError",
    "NoGuaranteeError",
    "NoMinimizerWarning",
    "PartialBlockWarning",
    "PrivacyLeakWarning",
    "ReleaseMismatchWarning",
    "UnevenLeakageWarning",
    "UnprotectedValueWarning",
]


class PrivacyLeakWarning(UserWarning):
    """Something confidential may leave, or a stated guarantee does not hold.

    Examples
    --------
    Make an error of it where a script must not publish:

    >>> import warnings
    >>> import numpy as np
    >>> from skleak.exceptions import PrivacyLeakWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> model = PrivateLinearRegression(noise_scale=5.0, random_state=0)
    >>> model = model.fit(np.eye(4), np.arange(4.0))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PrivacyLeakWarning)
    ...     try:
    ...         model.release()
    ...     except PrivacyLeakWarning:
    ...         print("whoever guesses the seed can subtract the noise")
    whoever guesses the seed can subtract the noise
    """


class UnprotectedValueWarning(PrivacyLeakWarning):
    """The noise of a release is too small to hide some value of some record from anybody.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.exceptions import UnprotectedValueWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X = np.column_stack([np.arange(20) % 2, np.arange(20.0)])
    >>> model = PrivateLinearRegression(noise_scale=1e-6).fit(X, X[:, 1])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UnprotectedValueWarning)
    ...     try:
    ...         model.release()
    ...     except UnprotectedValueWarning:
    ...         print("a release would tell somebody's value")
    a release would tell somebody's value
    """


class ReleaseMismatchWarning(UserWarning):
    """A release is none of what an attack supposes: other data, weights, preprocessing or noise.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.attacks import WhiteBoxAttributeInference
    >>> from skleak.exceptions import ReleaseMismatchWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.integers(0, 2, (40, 3)), rng.normal(size=40)
    >>> model = PrivateLinearRegression(noise_scale=0.1)
    >>> attack = WhiteBoxAttributeInference(model, 0).fit(X, y)
    >>> released = model.fit(X, 5 + y).release()  # trained on other targets
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ReleaseMismatchWarning)
    ...     try:
    ...         attack.predict(released)
    ...     except ReleaseMismatchWarning:
    ...         print("the attack supposes other data")
    the attack supposes other data
    """


class IncompleteAuditWarning(UserWarning):
    """An audit stopped short; what was finished is kept.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.attacks import WhiteBoxAttributeInference
    >>> from skleak.audit import LeakageAuditor
    >>> from skleak.exceptions import IncompleteAuditWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> class Broken(WhiteBoxAttributeInference):
    ...     def predict(self, released, noise_scale=None):
    ...         raise OSError("the disk is full")
    >>> X = np.random.default_rng(0).integers(0, 2, (40, 3))
    >>> model = PrivateLinearRegression(noise_scale=1.0)
    >>> auditor = LeakageAuditor(model, 0, attacks=[Broken(model, 0)], n_releases=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     try:
    ...         auditor.fit(X, X[:, 0])
    ...     except OSError:
    ...         print(caught[-1].category.__name__)
    IncompleteAuditWarning
    """


class NoMinimizerWarning(UserWarning):
    """With another value of some records no minimizer is reached: what that tells is not known.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.influence import candidate_encodings
    >>> from skleak.linear_model import PrivateLogisticRegression
    >>> X = np.repeat([-1.0, 1.0], 10)[:, None]
    >>> y = (X[:, 0] > 0.0).astype(int)
    >>> y[[0, 10]] = 1, 0  # were one of these two another one, one value had one label only
    >>> model = PrivateLogisticRegression(alpha=0.0, noise_scale=1.0).fit(X, y)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     encodings = candidate_encodings(model, X, y, 0, [-1.0, 1.0])
    >>> [warning.category.__name__ for warning in caught]
    ['NoMinimizerWarning']
    """


class CostWarning(UserWarning):
    """A call takes long; or is about some of the records only, as all of them would take long.

    Examples
    --------
    Refuse what would take long:

    >>> import warnings
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.exceptions import CostWarning
    >>> from skleak.inspection import attribute_leakage
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=1.0).fit(X, y)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CostWarning)
    ...     len(attribute_leakage(model, X, y, "sex"))
    442
    """


class CheckpointWarning(UserWarning):
    """The checkpoint of an audit cannot be written; the audit goes on without it.

    Examples
    --------
    End an audit whose finished parts could not be kept:

    >>> import os
    >>> import tempfile
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.audit import LeakageAuditor
    >>> from skleak.exceptions import CheckpointWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X = np.random.default_rng(0).integers(0, 2, (40, 3))
    >>> model = PrivateLinearRegression(noise_scale=1.0)
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckpointWarning)
    ...     path = os.path.join(folder, "audit.npz")
    ...     auditor = LeakageAuditor(model, 0, n_releases=2, checkpoint=path).fit(X, X[:, 0])
    ...     os.path.exists(path)
    True
    """


class PartialBlockWarning(UserWarning):
    """A noise goal names some columns of a one-hot block, which change only together.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.exceptions import PartialBlockWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import MaxLeakage
    >>> X = np.eye(3)[np.arange(60) % 3]  # one-hot
    >>> y = np.random.default_rng(0).normal(size=60)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PartialBlockWarning)
    ...     try:
    ...         PrivateLinearRegression(MaxLeakage(2.0, features=1), alpha=0.5).fit(X, y)
    ...     except PartialBlockWarning:
    ...         print("pass features=slice(0, 3), which is the block")
    pass features=slice(0, 3), which is the block
    """


class UnevenLeakageWarning(UserWarning):
    """A reweighting that was to even what records leak did not make it equal.

    Or a reweighting, or a shape of the noise, raised the largest loss above that of a plain fit.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skleak.exceptions import UnevenLeakageWarning
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = np.random.default_rng(0).normal(size=(2, 40, 1))
    >>> model = PrivateLinearRegression(noise_scale=1.0, reweighting="total").fit(X, y[:, 0])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     losses = model.fisher_information_loss_
    >>> [warning.category.__name__ for warning in caught]
    ['UnevenLeakageWarning']
    """


class AttackNotApplicableError(ValueError):
    """An attack cannot be played on this estimator or attribute.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skleak.attacks import WhiteBoxAttributeInference
    >>> from skleak.exceptions import AttackNotApplicableError
    >>> try:
    ...     WhiteBoxAttributeInference(DecisionTreeClassifier(), 0).fit(np.eye(4), [0, 1, 0, 1])
    ... except AttackNotApplicableError:
    ...     print("a tree has no coefficients: try BlackBoxAttributeInference")
    a tree has no coefficients: try BlackBoxAttributeInference
    """


class NoGuaranteeError(ValueError):
    """A guarantee was required, and none holds.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.exceptions import NoGuaranteeError
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> model = PrivateLinearRegression(noise_scale=1.0).fit(np.eye(4), np.arange(4.0))
    >>> try:
    ...     model.release(require_guarantee=True)
    ... except NoGuaranteeError:
    ...     print("the gradient of the squared loss has no bound")
    the gradient of the squared loss has no bound
    """


class LeakageBudgetError(ValueError):
    """A release would take the total leakage of a data set past its ceiling.

    Examples
    --------
    >>> from skleak.accounting import LeakageLedger
    >>> from skleak.exceptions import LeakageBudgetError
    >>> ledger = LeakageLedger(":memory:", max_leakage=6.0, units=1.0)
    >>> try:
    ...     ledger.record("clinic", [7.0, 1.0])
    ... except LeakageBudgetError:
    ...     print("not recorded: release nothing")
    not recorded: release nothing
    """
