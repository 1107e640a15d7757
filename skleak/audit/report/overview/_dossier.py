"""A dossier: what a text asks for, filled from an audit, with the blanks marked."""

from dataclasses import dataclass
from typing import Any, Literal

from skleak.audit.report._facts import AuditFacts
from skleak.audit.report.overview._criteria import BLANK, Criterion, Text
from skleak.audit.report.overview._overview import about
from skleak.audit.report.overview._texts import dpia, edpb, nist
from skleak.plotting.results import made_at_once
from skleak.report import (
    NAMES_NOBODY,
    Block,
    Bullets,
    Card,
    Document,
    Paragraph,
    Report,
    Section,
    check_enough,
    header,
)

Asked = Literal["edpb", "dpia", "nist"]
_TEXTS = {"edpb": edpb, "dpia": dpia, "nist": nist}
_DECIDES_NOTHING = (
    "This is evidence for an assessment, and no assessment: whether the law is kept is for those "
    "who answer for the data, and for the authorities."
)


@dataclass(frozen=True, repr=False)
class Dossier(Report):
    """The evidence that a text asks for, filled from an audit.

    Objects of this kind come from ``AuditReport.to_dossier``. They name no record.

    Parameters
    ----------
    text : Text
        What is asked, with the evidence.
    subject : str
        What was audited.
    made : str
        How the numbers came about.
    assumptions : tuple of str
        Conditions under which the numbers hold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.audit import LeakageAuditor
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=0.1, alpha=1e-2)
    >>> auditor = LeakageAuditor(model, "sex", n_releases=5, records=range(20), random_state=0)
    >>> dossier = auditor.fit(X, y).report_.to_dossier("dpia")
    >>> dossier.subject
    'PrivateLinearRegression'
    >>> dossier.to_html().startswith("<!DOCTYPE html>")
    True
    """

    text: Text
    subject: str
    made: str
    assumptions: tuple[str, ...]

    @property
    def n_blanks(self) -> int:
        """Number of blanks that are left to fill in."""
        return sum(len(one.blanks) for one in self.text.criteria)

    def to_dict(self) -> dict[str, Any]:
        """Return the dossier as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            ``text`` (what asks), ``criteria`` with ``paragraph``, ``title``, ``asks``,
            ``evidence`` and ``blanks``, and ``assumptions``.
        """
        told = [
            {
                "paragraph": one.paragraph,
                "title": one.title,
                "asks": one.asks,
                "evidence": list(one.evidence),
                "blanks": list(one.blanks),
            }
            for one in self.text.criteria
        ]
        about = {"estimator": self.subject, "text": self.text.cited, "criteria": told}
        return header("dossier") | about | {"assumptions": list(self.assumptions)}

    def _document(self, *, figures: bool) -> Document:
        n, answered = len(self.text.criteria), sum(bool(one.evidence) for one in self.text.criteria)
        cards = (
            Card("Questions", f"{answered} of {n}", "with evidence from the audit"),
            Card("Blanks", str(self.n_blanks), f"marked [{BLANK}]", "bad" if self.n_blanks else ""),
        )
        sources = (Paragraph(self.text.cited), Paragraph(self.text.note, soft=True))
        return Document(
            f"Dossier for {self.text.name}",
            self.subject,
            self.made,
            _DECIDES_NOTHING,
            cards,
            (
                *(_section(one) for one in self.text.criteria),
                Section("Assumptions of the numbers", (Bullets(self.assumptions),)),
                Section("Text", sources),
            ),
            "",
            warning=NAMES_NOBODY,
            mark="Draft",
        )


def _section(criterion: Criterion) -> Section:
    blocks: list[Block] = [Paragraph(criterion.asks, soft=True)]
    if criterion.items:
        blocks.append(Bullets(criterion.items))
    if criterion.table is not None:
        blocks.append(criterion.table)
    return Section(f"{criterion.paragraph}: {criterion.title}", tuple(blocks))


@made_at_once
def dossier(report: AuditFacts, text: str) -> Dossier:
    """Fill what a text asks for from an audit."""
    if text not in _TEXTS:
        raise ValueError(f'`text` must be "edpb", "dpia" or "nist"; got {text!r}.')
    check_enough(int(report.settings["n_targets"]))
    if report.results.empty:
        raise ValueError(
            "The audit has no results yet: nothing is evidence of anything. Run it to the end, "
            "from its checkpoint where it was interrupted."
        )
    asked = _TEXTS[text](report)
    return Dossier(asked, report.estimator, about(report), report.assumptions)
