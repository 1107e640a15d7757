"""Membership in the auditor's contract: parameters, seeds, checkpoints, reports and plots."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.attacks import MembershipInference
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.exceptions import AttackNotApplicableError, IncompleteAuditWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.plotting import AuditDisplay

COLUMNS = [
    *("noise_scale", "attack", "success", "success_low", "success_high", "baseline"),
    *("advantage", "advantage_low", "advantage_high"),
    *("tpr_at_1pct_fpr", "tpr_at_1pct_fpr_low", "tpr_at_1pct_fpr_high", "auc"),
    *("gap", "gap_low", "gap_high", "lower_bound", "verdict", "utility", "n_games"),
    *("detectable_excess", "dp", "bayes"),
]
STRICT = [
    *("tpr_at_0.1pct_fpr", "tpr_at_0.1pct_fpr_low", "tpr_at_0.1pct_fpr_high"),
    *("auc_low", "auc_high", "tpr_at_1pct_fpr_least", "auc_least"),
    *("bayes_tpr_at_1pct_fpr", "bayes_tpr_at_0.1pct_fpr"),
]


@pytest.fixture
def data(rng):
    X = rng.normal(size=(40, 3))
    return X, (X[:, 0] + rng.normal(size=40) > 0.0).astype(int)


def make(model=None, **options):
    model = PrivateLogisticRegression() if model is None else model
    options = {"noise_scales": [0.1, 1.0], "n_releases": 9} | options
    if not hasattr(model, "noise_scale"):
        options.pop("noise_scales")
    return MembershipAuditor(model, **{"random_state": 0} | options)


def same(first, second):
    pd.testing.assert_frame_equal(first.results_, second.results_, check_exact=True)
    pd.testing.assert_frame_equal(first.records_, second.records_, check_exact=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "marginal"}, "The 'prior' parameter of MembershipAuditor"),
        ({"prior": "conditional"}, "The 'prior' parameter of MembershipAuditor"),
        ({"prior": [0.5, 0.5]}, "The 'prior' parameter of MembershipAuditor"),
        ({"prior": 0.0}, "The 'prior' parameter of MembershipAuditor"),
        ({"prior": 1.0}, "The 'prior' parameter of MembershipAuditor"),
        ({"prior": True}, "The 'prior' parameter of MembershipAuditor"),
        ({"prior": float("nan")}, "The 'prior' parameter of MembershipAuditor"),
        ({"attacks": "white_box"}, "'default' or name some of"),
        ({"attacks": []}, "at least one attack"),
        ({"attacks": {"bounds": "loss"}}, "named by strings other than"),
        ({"attacks": "likelihood_ratio", "n_releases": 2}, "`n_releases` of at least 3"),
        ({"attacks": "likelihood_ratio", "secrets": "drawn"}, "needs `secrets='actual'`"),
        ({"attacks": "loss", "secrets": "drawn"}, "Pass `X_test` and `y_test`"),
        ({"bounds": "nonsense"}, "`bounds` must be 'all' or name some of"),
        ({"noise_scales": [-1.0]}, "`noise_scales` must hold finite numbers"),
        ({"noise_scales": []}, "`noise_scales` must hold finite numbers"),
        ({"records": [0, 1, 2]}, "takes at least 8; got 3"),
        ({"records": [99]}, "must lie in"),
        ({"secrets": "shared"}, "The 'secrets' parameter of MembershipAuditor"),
    ],
)
def test_invalid_parameters(options, message, data):
    with pytest.raises(ValueError, match=message):
        make(**options).fit(*data)


@pytest.mark.parametrize("attack", [3, MembershipInference, object()])
def test_attacks_that_are_none(attack, data):
    with pytest.raises(TypeError, match="must hold names or attacks"):
        make(attacks=[attack]).fit(*data)


def test_a_number_is_no_prior_of_an_attribute(data):
    with pytest.raises(ValueError, match="The 'prior' parameter of LeakageAuditor"):
        LeakageAuditor(PrivateLinearRegression(), 0, prior=0.5).fit(*data)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (DecisionTreeClassifier(), {"secrets": "drawn"}, "Pass `secrets='actual'`"),
        (DecisionTreeClassifier(), {"attacks": "exact"}, "'likelihood_ratio' takes any estimator"),
        (LinearSVC(), {}, "Wrap a classifier in CalibratedClassifierCV"),
        (
            Ridge(),
            {"attacks": "modified_entropy"},
            "Ridge has no `predict_proba`.*attack a regressor",
        ),
    ],
)
def test_attacks_that_do_not_apply(model, options, message, data):
    with pytest.raises(AttackNotApplicableError, match=message):
        make(model, **options).fit(*data)


def test_test_records_need_targets(data):
    X, y = data
    with pytest.raises(ValueError, match="`X_test` needs its targets"):
        make().fit(X, y, X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        make().fit(X, y, X, y[:-1])


def test_a_released_model_cannot_be_trained(data):
    released = PrivateLogisticRegression(noise_scale=1.0).fit(*data).release()
    with pytest.raises(AttackNotApplicableError, match="released model"):
        make(released).fit(*data)


@pytest.mark.slow
def test_guesses_are_checked(data):
    class Odd:
        def __init__(self, answer):
            self.answer = answer

        def fit(self, X, y, X_reference=None, y_reference=None):
            return self

        def predict(self, model):
            return self.answer

    for answer, message in ((np.zeros(3), "one number for each"), (np.full(40, 2), "1 for mem")):
        for secrets in ("actual", "drawn"):
            if secrets == "drawn" and len(answer) == 40:
                continue
            with pytest.warns(IncompleteAuditWarning), pytest.raises(ValueError, match=message):
                make(attacks=[Odd(answer)], secrets=secrets, records=slice(40)).fit(*data)


def test_a_training_that_fails_says_what_it_was_trained_on(data):
    class Refusing(LogisticRegression):
        def fit(self, X, y):
            raise ValueError("never")

    with pytest.warns(IncompleteAuditWarning), pytest.raises(ValueError, match="never") as caught:
        make(Refusing(), attacks="loss").fit(*data)
    assert "members of one release" in caught.value.__notes__[0]


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 0))
def test_tables(secrets, data):
    auditor = make(secrets=secrets).fit(*data)
    assert list(auditor.results_.columns)[: len(COLUMNS)] == COLUMNS
    assert set(STRICT) <= set(auditor.results_.columns)
    attacks = ["exact"] if secrets == "drawn" else ["loss", "likelihood_ratio", "exact"]
    assert list(auditor.results_["attack"]) == attacks * 2
    pd.testing.assert_frame_equal(auditor.results_, auditor.partial_results_)
    assert len(auditor.records_) == 80
    assert list(auditor.attacks_) == attacks
    decided = ["distance", "advantage_any_prior", "found_at_1pct", "exposure"]
    for noise, at in auditor.results_.groupby("noise_scale"):
        own = auditor.records_[auditor.records_["noise_scale"] == noise]
        assert (at[decided] == own[decided].max()).all(axis=None)
        assert (at["n_above"] == (own["exposure"] > 0.05).sum()).all()
    assert auditor.n_features_in_ == 3
    expected = 9 * 40 if secrets == "drawn" else 9 * 30
    assert (auditor.results_["n_games"] == expected).all()
    shares = auditor.records_[auditor.records_["noise_scale"] == 0.1]
    mean = np.average(shares["success_exact"], weights=shares["n_games"])
    assert np.isclose(mean, auditor.results_.query("attack == 'exact'")["success"].iloc[0])


@pytest.mark.slow
@pytest.mark.parametrize("secrets", mostly_slow(["actual", "drawn"], 0))
def test_persons_go_by_their_labels(secrets, data):
    X, y = data
    options = {"secrets": secrets, "attacks": "exact", "n_releases": 3, "noise_scales": 0.3}
    options["bounds"] = ["bayes"]
    options["records"] = [7, 3, *range(20, 30)]
    plain = make(**options).fit(X, y)
    names = [f"person {i}" for i in range(40)]
    pairs = pd.MultiIndex.from_product([list("abcd"), range(10)])
    for index in (pd.Index(names[:20] * 2), pairs):
        auditor = make(**options).fit(pd.DataFrame(X, columns=list("abc"), index=index), y)
        table = auditor.records_
        labels = [index[i] for i in table["record"]]
        joined = [", ".join(map(str, label)) if index is pairs else label for label in labels]
        assert table["label"].tolist() == joined
        pd.testing.assert_frame_equal(
            table.drop(columns="label"), plain.records_.drop(columns="label")
        )
    # The best test of one record, at one false alarm in a hundred and in a thousand.
    found = plain.records_
    if secrets == "drawn":
        for name, rate in (("1", 0.01), ("0.1", 0.001)):
            expected = stats.norm.cdf(stats.norm.ppf(rate) + found["distance"])
            np.testing.assert_allclose(found[f"bayes_tpr_at_{name}pct_fpr"], expected)


@pytest.mark.slow
def test_bounds_are_chosen(data):
    options = {"attacks": "exact", "noise_scales": 0.3}
    drawn = make(secrets="drawn", bounds=["fano", "dp"], **options).fit(*data)
    assert drawn.report_.settings["bounds"] == ("dp", "fano")
    assert "tradeoff" not in drawn.results_
    actual = make(bounds="bayes", **options).fit(*data)
    assert actual.report_.settings["bounds"] == ("bayes",)
    none = make(bounds=[], **options).fit(*data)
    assert (none.results_["verdict"] == "bound vacuous").all()
    assert none.report_.settings["bounds"] == ()
    # The decision rests on no bound for a prior.
    assert none.report_.decision()["largest"] == actual.report_.decision()["largest"] > 0.0


# Threads share the filters of warnings, and one may end where another still relies on them.
@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "secrets"),
    [
        (PrivateLogisticRegression(), "actual"),
        (PrivateLogisticRegression(), "drawn"),
        (DecisionTreeClassifier(), "actual"),
    ],
)
def test_workers_do_not_matter(secrets, model, data):
    options = {"secrets": secrets, "noise_scales": 0.3}
    one = make(model, **options).fit(*data)
    with joblib.parallel_config("threading"):
        same(one, make(model, n_jobs=2, **options).fit(*data))
    other = make(model, random_state=1, **options).fit(*data)
    assert not other.results_["success"].equals(one.results_["success"])


@pytest.mark.slow
def test_processes_do_not_matter(data):
    one = make(attacks=["loss", "exact"]).fit(*data)
    with joblib.parallel_config("loky"):
        same(one, make(attacks=["loss", "exact"], n_jobs=2).fit(*data))
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)


class Fails:
    """Guesses nobody, and fails at some release."""

    fail_at = 5
    calls = 0
    error = ValueError

    def fit(self, X, y, X_reference=None, y_reference=None):
        self.n_ = len(y)
        return self

    def predict(self, model):
        Fails.calls += 1
        if Fails.calls == Fails.fail_at:
            raise Fails.error("cannot guess here")
        return np.zeros(self.n_, dtype=int)


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_checkpoint_goes_on(error, data, tmp_path, monkeypatch):
    path = tmp_path / "audit.npz"
    options = {"attacks": {"mine": Fails(), "exact": "exact"}, "noise_scales": 0.3}
    monkeypatch.setattr(Fails, "error", error)
    monkeypatch.setattr(Fails, "calls", 0)
    auditor = make(checkpoint=path, **options)
    with pytest.warns(IncompleteAuditWarning, match="cells are finished"), pytest.raises(error):
        auditor.fit(*data)
    n_done = 8 if error is ValueError else 4
    assert (auditor.partial_results_["n_games"] == 30 * n_done).all()
    assert not hasattr(auditor, "results_")
    monkeypatch.setattr(Fails, "fail_at", 0)
    Fails.calls = 0
    resumed = make(checkpoint=path, **options).fit(*data)
    assert Fails.calls == 9 - n_done
    same(resumed, make(**options).fit(*data))


@pytest.mark.slow
def test_a_checkpoint_of_another_audit_is_refused(data, tmp_path):
    path = tmp_path / "audit.npz"
    options = {"secrets": "drawn", "prior": 0.4, "noise_scales": 0.3}
    first = make(checkpoint=path, **options).fit(*data)
    same(first, make(checkpoint=path, **options).fit(*data))
    for others in ({"prior": 0.5}, {"secrets": "actual"}):
        with pytest.raises(ValueError, match="is of another audit"):
            make(checkpoint=path, **options | others).fit(*data)


@pytest.mark.slow
def test_cloning_and_refitting(data):
    auditor = make(DecisionTreeClassifier(), prior=0.3)
    copy = clone(auditor)
    assert copy.get_params()["prior"] == 0.3
    first = auditor.fit(*data).results_
    pd.testing.assert_frame_equal(first, auditor.fit(*data).results_)


def test_only_the_estimator_is_positional():
    with pytest.raises(TypeError, match="positional"):
        MembershipAuditor(PrivateLinearRegression(), "loss")
    with pytest.raises(TypeError, match="positional"):
        LeakageAuditor(PrivateLinearRegression(), 0, "white_box")


def test_each_auditor_has_its_own_parameters():
    """What does not concern membership is no parameter of its audit."""
    other = LeakageAuditor(PrivateLinearRegression()).get_params(deep=False)
    own = make().get_params(deep=False)
    assert set(other) - set(own) == {"attribute", "rare_value", "releases", "values"}
    assert set(own) - set(other) == {"groups"}


@pytest.mark.slow
def test_a_checkpoint_of_the_other_auditor_is_refused(data, tmp_path):
    X, y = data
    X = np.column_stack([X[:, 0] > 0.0, X[:, 1:]])
    path, options = tmp_path / "audit.npz", {"noise_scales": 0.5, "n_releases": 8}
    make(checkpoint=path, **options).fit(X, y)
    with pytest.raises(ValueError, match="is of another audit"):
        LeakageAuditor(PrivateLogisticRegression(), 0, checkpoint=path, **options).fit(X, y)


def test_a_plot_needs_a_fit():
    with pytest.raises(NotFittedError):
        make().plot()


FORMS = {
    "levels": {},
    "tested": {"noise_scales": 0.5},
    "drawn": {"secrets": "drawn"},
    "tree": {"model": DecisionTreeClassifier()},
    "few": {"model": DecisionTreeClassifier(), "records": slice(10), "n_releases": 2, "prior": 0.9},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", mostly_slow(FORMS, 2, 4))
def test_reports_in_every_form(form, data, read_page):
    report = make(**FORMS[form]).fit(*data, *(data if form == "tested" else ())).report_
    assert report.kind == "membership"
    whole = json.loads(report.to_json())
    assert whole["schema"] == "skleak.audit_report"
    assert whole["attribute"] is None
    assert whole["settings"]["membership_prior"] in (0.5, 0.9)
    assert {"record", "n_games", "distance", "bayes", "prior"} <= set(whole["records"][0])
    assert set(COLUMNS) <= set(whole["results"][0])
    text = report.to_text(full=True)
    assert "CONFIDENTIAL" in text
    assert max(map(len, text.splitlines())) <= 88
    page = read_page(report.to_html())
    for sentence in (*report.findings, *report.assumptions):
        assert " ".join(sentence.replace("`", "").split()) in page.words
    assert "imputation" not in page.words.lower()
    assert "secrets are drawn" not in page.words
    assert "safe" not in page.words.lower()
    assert "nan" not in page.words.split()
    display = report.plot()
    assert isinstance(display, AuditDisplay)
    display.figure_.canvas.draw()
    pd.testing.assert_frame_equal(report.to_frame(), report.results)


@pytest.mark.slow
def test_attacks_refute_and_releases_decide(data):
    """Of a model that is only attacked little is known; of one with noise what nobody exceeds."""
    tree = make(DecisionTreeClassifier(), attacks="loss").fit(*data).report_.decision()
    level = tree["levels"][0]
    assert (tree["verdict"], tree["passes"], level["attack"]) == ("not_kept", False, "loss")
    assert level["attack_value"] >= level["attack_low"] > tree["limit"]
    assert np.isnan(tree["largest"])
    auditor = make(noise_scales=0.2, attacks="exact").fit(*data)
    choice, records = auditor.report_.decision(), auditor.records_
    assert (choice["noise"], choice["levels"][0]["attack"]) == (0.2, "exact")
    np.testing.assert_allclose(
        records["exposure"], 2.0 * stats.norm.cdf(records["distance"] / 2) - 1
    )
    over = records[records["exposure"] > choice["limit"]]
    assert choice["n_above"] == len(over) > 0
    order = over.sort_values("exposure", ascending=False, kind="stable")
    assert choice["labels"] == order["label"].tolist()
    assert choice["largest"] == records["exposure"].max()


@pytest.mark.slow
def test_most_exposed_records_are_named_with_care(data):
    """Among many records some are told apart by chance: those are not named."""
    X, y = data
    report = make(LogisticRegression(C=1e-3), n_releases=12).fit(X, y).report_
    choice = report.decision()
    assert (choice["verdict"], choice["labels"]) == ("not_known", [])
    heavy = np.r_[[[50.0, 0.0, 0.0]], X[1:]]
    report = make(noise_scales=0.3, secrets="drawn").fit(heavy, np.r_[0, y[1:]]).report_
    assert report.decision()["labels"][0] == 0


@pytest.mark.slow
def test_reports_hold_no_records(data):
    X, y = data
    X = X + 1234.5
    for options in ({"attacks": "loss"}, {"secrets": "drawn"}):
        report = make(noise_scales=0.3, **options).fit(X, y).report_
        for form in (report.to_json(), report.to_html(), report.to_text(full=True)):
            for number in np.unique(X)[:20]:
                assert f"{number:.4f}" not in form
                assert repr(float(number)) not in form


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph .* missing from:UserWarning")  # of matplotlib's font
def test_names_of_attacks_are_not_trusted(data, evil_names, read_page):
    X, y = data
    # Tables of pandas hold no lone surrogates.
    attacks = dict.fromkeys((name for name in evil_names if "\ud800" not in name), "loss")
    report = make(DecisionTreeClassifier(), attacks=attacks).fit(X, y).report_
    page = read_page(report.to_html())
    assert "script" not in page.tags
    assert "\x1b" not in report.to_text(full=True)
    report.plot().figure_.canvas.draw()


class Memorizes(ClassifierMixin, BaseEstimator):
    """Be sure of the label of members of a rare class, and know nothing of any other record."""

    def fit(self, X, y):
        self.classes_ = np.unique(["common", "rare", *y])
        self._rows = np.asarray(X)[np.asarray(y) == "rare"]
        return self

    def predict_proba(self, X):
        known = (np.asarray(X)[:, None] == self._rows[None]).all(axis=2).any(axis=1)
        return np.where(known[:, None], [[0.01, 0.99]], [[0.7, 0.3]])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def rare_class():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "place"])
    X["place"] = np.where(np.arange(200) < 4, "north", "south")
    X.index = [f"p{k}" for k in range(200)]
    y = np.where(np.arange(200) < 2, "rare", "common")
    test = pd.DataFrame(rng.normal(size=(50, 3)), columns=X.columns).assign(place="south")
    return X, y, test, np.repeat("common", 50)


@pytest.mark.slow
def test_a_rare_class_is_tested_by_itself():
    """Right in nearly all games about two records, and a coin about 198: no mean shows it."""
    X, y, X_test, y_test = rare_class()
    auditor = MembershipAuditor(
        Memorizes(), attacks="loss", groups="place", n_releases=24, random_state=0
    )
    report = auditor.fit(X, y, X_test, y_test).report_
    row = report.results.iloc[0]
    assert row["success"] < 0.55
    table = report.groups.set_index(["kind", "group"])
    rare = table.loc[("class", "rare")]
    assert (rare["n_records"], rare["n_games"]) == (2, 48)
    assert rare["n_right"] >= 40
    assert rare["p_value"] < 1e-4
    assert rare["success_low"] > 0.5
    assert table.loc[("class", "common"), "p_value"] > 0.05
    assert table.loc[("group", "south"), "p_value"] > 0.05
    assert table["p_value"].between(0.0, 1.0).all()
    assert report.to_dict()["groups"][0]["kind"] == "class"
    assert "By class, group and copies" in report.to_text(full=True)


@pytest.mark.slow
def test_copies_of_a_record_are_a_group():
    """Each of three copies shows itself, whatever the other two do."""
    X, y, X_test, y_test = rare_class()
    X, X_test = X[["a", "b"]], X_test[["a", "b"]]
    X = pd.concat([X, X.iloc[[7, 7]].set_axis(["q1", "q2"])])
    auditor = MembershipAuditor(DecisionTreeClassifier(), attacks="loss", n_releases=8)
    table = auditor.fit(X, np.r_[y, y[[7, 7]]], X_test, y_test).report_.groups
    copies = table[table["kind"] == "copies"]
    assert copies["group"].tolist() == ["p7"]
    assert copies["n_records"].tolist() == [3]
    even = np.where(np.arange(202) % 2, "ill", "well")
    drawn = make(noise_scales=0.3, secrets="drawn").fit(X, even).report_
    assert drawn.groups.empty


@pytest.mark.slow
def test_as_many_are_above_the_limit_as_is_shown_and_not_as_tests_reject(data):
    """A tree that memorizes everybody: no test rejects in five releases, and nearly all count."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.normal(size=120)
    counted = {}
    for n_releases in (3, 6):
        options = {"attacks": "loss", "n_releases": n_releases, "random_state": 0}
        report = MembershipAuditor(DecisionTreeRegressor(), **options).fit(X, y).report_
        choice = report.to_dict()["decision"]
        counted[n_releases] = choice["n_above"]
        row = report.results.iloc[0]
        if n_releases == 3:
            assert np.isnan(row["records_above"])
        else:
            assert row["records_above"] == choice["n_above"]
    assert counted[3] is None
    assert 60 <= counted[6] <= 120
    # Who always guesses the same is always right about some: of values nobody knows how many.
    auditor = LeakageAuditor(RandomForestRegressor(3), "sex", n_releases=2)
    people = pd.DataFrame(X, columns=["a", "b", "sex"]).assign(sex=np.where(y > 1.0, "f", "m"))
    people = people.assign(sex=people["sex"] == "f").astype(float)
    choice = auditor.fit(people, y).report_.to_dict()["decision"]
    assert choice["n_above"] is None
    assert choice["labels"] == []
