"""The comparison with other libraries: an answer and a command for every cell.

A command is Python that runs without an error where the answer is right, in an environment that has
the library; or, for projects that are no package, a line of shell in a clone of them.
`docs/check_peers.py` runs them.
"""

from typing import NamedTuple


class Peer(NamedTuple):
    """A library, its version when the commands were run, and how to get it."""

    label: str
    version: str
    get: str


PEERS = {
    "skleak": Peer("skleak", "this", "pip install ."),
    "art": Peer("ART", "1.20.1", "pip install adversarial-robustness-toolbox"),
    "diffprivlib": Peer("diffprivlib", "0.6.6", 'pip install diffprivlib "scikit-learn<1.6"'),
    "sacroml": Peer("SACRO-ML", "2.0.1", "pip install sacroml"),
    "opendp": Peer("OpenDP", "0.16.0", "pip install opendp"),
    "riskcal": Peer("riskcal", "1.5.1", "pip install riskcal"),
    "leakpro": Peer("LeakPro", "", "git clone https://github.com/aidotse/LeakPro"),
    "privacy_meter": Peer(
        "ML Privacy Meter", "", "git clone https://github.com/privacytrustlab/ml_privacy_meter"
    ),
}
# Read in their repositories, not run.
READ_ONLY = {"leakpro", "privacy_meter"}

ART_INFERENCE = "art.attacks.inference"
SACRO = "sacroml.attacks"
MIA = "leakpro/attacks/mia_attacks"
DPL = "import diffprivlib.models as m"
ODP = "import opendp.prelude as dp"
RISK = "import riskcal.analysis as a"

Cell = tuple[str, str]
NO_ATTACKS: dict[str, Cell] = {
    "diffprivlib": ("no", f'{DPL}; assert not any("attack" in n.lower() for n in dir(m))'),
    "opendp": ("no", f'{ODP}; assert not hasattr(dp, "attacks")'),
    "riskcal": ("no", f'{RISK}; assert not any("attack" in n.lower() for n in dir(a))'),
}
NO_PRIVATE_MODELS: dict[str, Cell] = {
    "art": ("no", "import art.defences as d; assert not hasattr(d, 'private')"),
    "leakpro": ("no", "! ls leakpro/models/private"),
    "privacy_meter": ("no", "! ls modules/private"),
}
QUESTIONS: dict[str, dict[str, Cell]] = {
    "Attack the membership of any classifier": {
        "skleak": ("yes", "from skleak.audit import MembershipAuditor"),
        "art": (
            "yes",
            f"from {ART_INFERENCE}.membership_inference import MembershipInferenceBlackBox",
        ),
        **NO_ATTACKS,
        "sacroml": ("yes", f"from {SACRO}.likelihood_attack import LIRAAttack"),
        "leakpro": ("yes, most kinds", f"ls {MIA}/lira.py {MIA}/base.py"),
        "privacy_meter": ("yes", "ls modules/mia/attacks/rmia.py"),
    },
    "Attack the membership of a regressor": {
        "skleak": (
            "yes",
            "from sklearn.linear_model import Ridge; from skleak.audit import MembershipAuditor; "
            "MembershipAuditor(Ridge())",
        ),
        "art": (
            "yes, by the loss",
            "from art.attacks.inference.membership_inference import "
            "MembershipInferenceBlackBox as A; "
            "from art.estimators.regression import RegressorMixin; "
            "assert any(RegressorMixin in (r if isinstance(r, tuple) else (r,)) "
            "for r in A._estimator_requirements)",
        ),
        **NO_ATTACKS,
        "sacroml": (
            "no, classifiers",
            "import inspect; from sacroml.attacks import likelihood_attack as l; "
            'assert "predict_proba" in inspect.getsource(l) + inspect.getsource('
            "__import__('sacroml.attacks.model_sklearn', fromlist=['x']))",
        ),
        "leakpro": ("yes, for time series", f"ls {MIA}/dts.py"),
        "privacy_meter": ("no", "! grep -rl Regress modules/mia"),
    },
    "Infer a sensitive column": {
        "skleak": ("yes", "from skleak.audit import LeakageAuditor"),
        "art": (
            "yes",
            f"from {ART_INFERENCE}.attribute_inference import AttributeInferenceBlackBox",
        ),
        **NO_ATTACKS,
        "sacroml": ("yes", f"import {SACRO}.attribute_attack"),
        "leakpro": ("for synthetic data", "ls leakpro/synthetic_data_attacks"),
        "privacy_meter": ("no", "! ls modules/attribute"),
    },
    "A limit on attacks that nobody played": {
        "skleak": (
            "yes, for one data set and in general",
            "from skleak.channels import GaussianChannel; "
            "GaussianChannel([[0.0], [1.0]], 1.0).advantage_bounds()",
        ),
        "art": ("no", f"import {ART_INFERENCE} as a; assert not hasattr(a, 'bounds')"),
        "diffprivlib": ("by epsilon", f"{DPL}; m.LogisticRegression(epsilon=1.0)"),
        "sacroml": (
            "no",
            "import pkgutil, sacroml.attacks as a; "
            "assert not any('bound' in m.name for m in pkgutil.iter_modules(a.__path__))",
        ),
        "opendp": (
            "by epsilon, proved",
            f'{ODP}; dp.enable_features("contrib"); dp.m.make_gaussian',
        ),
        "riskcal": (
            "yes, in general",
            f"{RISK}; assert abs(a.get_advantage_from_gdp(1.0) - 0.3829) < 1e-4",
        ),
        "leakpro": ("no", "! ls leakpro/bounds"),
        "privacy_meter": ("no", "! ls modules/bounds"),
    },
    "What each record leaks, without attacks": {
        "skleak": (
            "yes, exact",
            "from skleak.linear_model import PrivateLinearRegression as P; "
            "P.fisher_information_loss",
        ),
        "art": ("SHAPr scores", "from art.metrics import SHAPr"),
        "diffprivlib": (
            "no",
            f"{DPL}; assert not any('leak' in n for n in dir(m.LogisticRegression))",
        ),
        "sacroml": (
            "equivalence classes",
            f"from {SACRO}.structural_attack import StructuralAttack",
        ),
        "opendp": ("no", f"{ODP}; assert not any('fisher' in n for n in dir(dp))"),
        "riskcal": ("no", f"{RISK}; assert not any('fisher' in n for n in dir(a))"),
        "leakpro": ("no", "! grep -rl fisher_information_loss leakpro"),
        "privacy_meter": ("no", "! grep -rl fisher_information_loss modules"),
    },
    "Train a private linear or logistic model": {
        "skleak": ("yes", "from skleak.linear_model import PrivateLogisticRegression"),
        **NO_PRIVATE_MODELS,
        "diffprivlib": ("yes", f"{DPL}; m.LogisticRegression; m.LinearRegression"),
        "sacroml": ("a private SVC", "from sacroml.safemodel.classifiers.dp_svc import DPSVC"),
        "opendp": (
            "linear, one column",
            "from opendp.extras.sklearn.linear_model import LinearRegression",
        ),
        "riskcal": ("noise for a risk", "import riskcal.calibration"),
    },
    "Train other private models": {
        "skleak": ("private SGD", "from skleak.neural import PrivateSGDClassifier"),
        **NO_PRIVATE_MODELS,
        "diffprivlib": (
            "trees, forests, naive Bayes, k-means, PCA",
            f"{DPL}; m.RandomForestClassifier; m.GaussianNB; m.KMeans; m.PCA",
        ),
        "sacroml": (
            "safer trees and forests",
            "from sacroml.safemodel.classifiers import SafeDecisionTreeClassifier",
        ),
        "opendp": (
            "PCA, any query of one's own",
            "from opendp.extras.sklearn.decomposition import PCA",
        ),
        "riskcal": ("no", f"{RISK}; assert not hasattr(a, 'fit')"),
    },
    "Noise that floating point does not give away": {
        "skleak": ("yes", "from skleak.mechanisms import discrete_gaussian"),
        "art": ("no noise", "import art.defences as d; assert not hasattr(d, 'private')"),
        "diffprivlib": (
            "yes, four samples summed",
            "import inspect, diffprivlib.mechanisms as m; "
            "assert 'standard_normal' in inspect.getsource(m.Vector)",
        ),
        "sacroml": ("by the model's own library", "import sacroml.safemodel"),
        "opendp": ("yes, proved", f'{ODP}; dp.enable_features("contrib"); dp.m.make_gaussian'),
        "riskcal": ("no noise", f"{RISK}; assert not hasattr(a, 'sample')"),
        "leakpro": ("no noise", "! ls leakpro/noise"),
        "privacy_meter": ("no noise", "! ls modules/noise"),
    },
    "Count several releases": {
        "skleak": ("a file for all processes", "from skleak.accounting import LeakageLedger"),
        "art": ("no", "import art; assert not hasattr(art, 'accounting')"),
        "diffprivlib": ("an object", "from diffprivlib import BudgetAccountant"),
        "sacroml": ("no", "import sacroml; assert not hasattr(sacroml, 'accounting')"),
        "opendp": ("an object, any mechanism", f"{ODP}; dp.Context; dp.Odometer"),
        "riskcal": ("curves composed", "import riskcal.accountants"),
        "leakpro": ("no", "! ls leakpro/accounting"),
        "privacy_meter": ("no", "! ls modules/accounting"),
    },
    "Images, text, language models": {
        "skleak": (
            "torch modules, one record at a time",
            "from skleak.neural import CanaryExtraction",
        ),
        "art": (
            "yes, many frameworks",
            "from art.estimators.classification import PyTorchClassifier",
        ),
        "diffprivlib": ("no", f"{DPL}; assert not hasattr(m, 'MLPClassifier')"),
        "sacroml": ("torch models", f"import {SACRO}.model_pytorch"),
        "opendp": ("no", f"{ODP}; assert not hasattr(dp, 'torch')"),
        "riskcal": ("no", f"{RISK}; assert not hasattr(a, 'torch')"),
        "leakpro": (
            "yes, most kinds",
            "ls leakpro/attacks/gia_attacks/invertinggradients_text.py",
        ),
        "privacy_meter": ("yes", "ls dataset/agnews.py models/wide_resnet.py"),
    },
    "Evasion, poisoning, model theft": {
        "skleak": ("no", "import skleak.attacks as a; assert not hasattr(a, 'evasion')"),
        "art": ("yes", "import art.attacks.evasion, art.attacks.poisoning, art.attacks.extraction"),
        "diffprivlib": ("no", f"{DPL}; assert not hasattr(m, 'evasion')"),
        "sacroml": ("no", f"import {SACRO} as a; assert not hasattr(a, 'evasion')"),
        "opendp": ("no", f"{ODP}; assert not hasattr(dp, 'evasion')"),
        "riskcal": ("no", f"{RISK}; assert not hasattr(a, 'evasion')"),
        "leakpro": ("no", "! ls leakpro/attacks/evasion"),
        "privacy_meter": ("no", "! ls modules/evasion"),
    },
}


def overview() -> str:
    """Return one table of all answers."""
    text = "| | " + " | ".join(peer.label for peer in PEERS.values()) + " |\n"
    text += "|---|" + "---|" * len(PEERS) + "\n"
    for question, cells in QUESTIONS.items():
        text += f"| **{question}** | " + " | ".join(cells[name][0] for name in PEERS) + " |\n"
    return text


def commands() -> str:
    """Return a table of commands for every question."""
    text = ""
    for question, cells in QUESTIONS.items():
        text += f"\n### {question}\n\n| library | answer | command |\n|---|---|---|\n"
        for name, peer in PEERS.items():
            answer, command = cells[name]
            text += f"| {peer.label} | {answer} | `{command.replace('|', chr(92) + '|')}` |\n"
    return text


def versions() -> str:
    """Return how to get each library, and which version was checked."""
    text = "| library | version | get it by |\n|---|---|---|\n"
    for peer in PEERS.values():
        text += f"| {peer.label} | {peer.version or 'its repository'} | `{peer.get}` |\n"
    return text
