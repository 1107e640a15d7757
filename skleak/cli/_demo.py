"""``skleak demo``: what a private model on bundled data tells of one column."""

from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor
from skleak.cli._options import AUDIT, REPORT, Demo
from skleak.cli._terminal import say, wrap, write
from skleak.linear_model import PrivateLinearRegression
from skleak.report.document import sentences

_SECRET = "sex"
_N_RELEASES = 50


def demo(options: Demo) -> int:
    """Run the command; its exit code is 0."""
    noise, out = options.noise_scale, options.out
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X_train, X_test, y_train, y_test = train_test_split(X.astype({_SECRET: int}), y, random_state=1)
    columns = make_column_transformer(
        (OneHotEncoder(drop="if_binary", sparse_output=False), [_SECRET]),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    )
    private = PrivateLinearRegression(noise, alpha=0.1)
    model = make_pipeline(columns.set_output(transform="pandas"), private)
    model.fit(X_train, y_train)
    groups = (f"{_SECRET} " + X_train[_SECRET].astype(str)).to_numpy()
    write(private.leakage_report(groups=groups), out)
    auditor = LeakageAuditor(model, _SECRET, noise_scales=[noise], n_releases=_N_RELEASES)
    audit = auditor.fit(X_train, y_train, X_test, y_test).report_
    page = AUDIT if out.name == REPORT else f"{out.stem}-audit{out.suffix}"
    write(audit, out.with_name(page))
    facts = {"n": len(X_train), "noise": noise, "verdict": audit.findings[:2], "report": str(out)}
    facts |= {"audit": str(out.with_name(page)), "limit": audit.settings["max_advantage"]}
    for paragraph in sentences("command_demo", facts):
        say(wrap([paragraph]), "")
    return 0
