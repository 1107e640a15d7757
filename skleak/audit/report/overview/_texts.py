"""Criteria of the texts that ask for evidence, each with the paragraph that it is from."""

from skleak.audit.report._facts import AuditFacts
from skleak.audit.report.overview._criteria import Criterion, Text
from skleak.audit.report.overview._evidence import (
    attacks_played,
    bounds_known,
    decided,
    every_record,
    grounds,
    kind_of_attack,
    made_with,
    measures,
    noise_checks,
    processing,
    queries,
    use,
)
from skleak.audit.report.overview._overview import noise_table, what

_OTHER_RELEASES = (
    "Every other release made, or to be made, from the same records, as each tells more: the "
    "balance of a ledger (`skleak.accounting`), where one is kept."
)
_UNCHECKED = (
    "The numbers were not compared with the published text: check them before you cite them."
)
# Attacks that paragraph 55 of the Opinion names.
_NAMED = (
    "attribute inference",
    "membership inference",
    "exfiltration",
    "regurgitation of training data",
    "model inversion",
    "reconstruction",
)


def edpb(report: AuditFacts) -> Text:
    """Return what Opinion 28/2024 asks of those who release a model."""
    return Text(
        "EDPB Opinion 28/2024",
        "European Data Protection Board, Opinion 28/2024 on certain data protection aspects "
        "related to the processing of personal data in the context of AI models, adopted on "
        "17 December 2024.",
        "Paragraphs are those of the Opinion; what it names under a heading alone is cited by "
        f"section and heading. {_UNCHECKED}",
        (*_likelihoods(report), *_design(report), *_resistance(report)),
    )


def _likelihoods(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Paragraph 43 (i)",
            "Extraction from the model",
            "How likely is it that personal data about those whose data trained the model are "
            "extracted from it directly, with the means reasonably likely to be used, including "
            "with some probability only?",
            (decided(report), bounds_known(report)),
            ("Which of these likelihoods are insignificant here, and why.",),
            noise_table(report),
        ),
        Criterion(
            "Paragraph 43 (ii)",
            "Answers to queries",
            "How likely is it that such data are obtained from queries, on purpose or not?",
            (queries(report),),
            ("How the model can be asked, by whom, and how often.",),
        ),
        Criterion(
            "Paragraph 43",
            "Every data subject",
            "Are both likelihoods insignificant for any data subject, not only on average?",
            (every_record(report),),
            ("What follows for those whose figure is above the limit.",),
        ),
        Criterion(
            "Paragraph 46",
            "Context of the release",
            "To whom is the model released, and which means do they have?",
            (),
            (
                "Whether the model is public, given to some, or used inside; who may get it, and "
                "what else they know.",
            ),
        ),
    )


def _design(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Section 3.2.2, AI model design",
            "Selection of sources",
            "Which steps were taken to avoid or limit the collection of personal data?",
            (),
            ("Sources of the records, criteria of their selection, and what was excluded.",),
        ),
        Criterion(
            "Section 3.2.2, AI model design",
            "Data preparation and minimisation",
            "Which data are needed, and how are they prepared?",
            processing(report)[:1],
            ("Why these columns are needed, and which were left out, coarsened or replaced.",),
        ),
        Criterion(
            "Section 3.2.2, AI model design",
            "Methodological choices regarding the training, and measures regarding outputs",
            "Which methods reduce what the model and its outputs tell of the records?",
            measures(report),
            ("Further measures on outputs, such as limits on queries.",),
        ),
        Criterion(
            "Section 3.2.2, AI model analysis",
            "Audits of the development",
            "Was it checked that the measures are in place and effective?",
            (*noise_checks(report), made_with(report)),
            ("Reviews of the code and of the development, internal or external.",),
        ),
    )


def _resistance(report: AuditFacts) -> tuple[Criterion, ...]:
    tested = kind_of_attack(report)
    others = ", ".join(name for name in _NAMED if name != tested)
    return (
        Criterion(
            "Paragraph 55",
            "Tests of resistance to attacks",
            "Which known attacks was the model tested against, and with which result? Tests are "
            "evidence for the attacks that were tested, and for no others.",
            (f"Tested here: {tested}, with regard to {what(report)}.", *attacks_played(report)),
            (f"Not tested by this audit, and to be tested or argued: {others}.",),
        ),
        Criterion(
            "Paragraph 58",
            "Documentation",
            "Is it documented on which grounds the likelihood of identification was assessed?",
            (grounds(report), made_with(report)),
            (
                "The data protection impact assessment, or why none was needed.",
                "Advice and feedback of the data protection officer.",
                "Organisational measures, and what is told to those who use the model.",
            ),
        ),
    )


def dpia(report: AuditFacts) -> Text:
    """Return what article 35 of the GDPR asks of an impact assessment."""
    return Text(
        "GDPR article 35",
        "Regulation (EU) 2016/679 (General Data Protection Regulation), article 35, data "
        "protection impact assessment.",
        "Paragraphs are those of the Regulation.",
        (*_risks(report), *_participation(report)),
    )


def _risks(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Article 35(7)(a)",
            "Systematic description",
            "What are the processing operations envisaged, and their purposes?",
            processing(report),
            (
                "The purposes, and where applicable the legitimate interest pursued.",
                "Sources, recipients and retention of the data.",
            ),
        ),
        Criterion(
            "Article 35(7)(b)",
            "Necessity and proportionality",
            "Are the operations necessary and proportionate to the purposes?",
            (use(report),),
            (
                "Why the purposes need personal data of this kind and number.",
                "Which score the purposes need: what lies above could be given up for noise.",
            ),
        ),
        Criterion(
            "Article 35(7)(c)",
            "Risks to the rights and freedoms of data subjects",
            "What can become known about people, and how likely is that?",
            (decided(report), every_record(report), bounds_known(report)),
            (
                "How severe it is for people if this becomes known.",
                "Risks other than that the released model tells of its training records.",
            ),
            noise_table(report),
        ),
        Criterion(
            "Article 35(7)(d)",
            "Measures to address the risks",
            "Which safeguards and security measures are envisaged?",
            measures(report),
            (
                "The noise scale that is chosen, and who decided it.",
                _OTHER_RELEASES,
                "Access to the records, and to this report.",
            ),
        ),
    )


def _participation(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Article 35(2)",
            "Advice of the data protection officer",
            "What did the data protection officer advise?",
            (),
            ("The advice, its date, and what followed from it.",),
        ),
        Criterion(
            "Article 35(9)",
            "Views of data subjects",
            "Were the views of data subjects or their representatives sought, where appropriate?",
            (),
            ("The views, or why they were not sought.",),
        ),
        Criterion(
            "Article 35(11)",
            "Review",
            "When is it reviewed, at least where the risk changes?",
            (made_with(report),),
            ("When the audit is repeated: with new records, columns, models or releases.",),
        ),
    )


def nist(report: AuditFacts) -> Text:
    """Return what NIST SP 800-226 asks of a guarantee of differential privacy."""
    return Text(
        "NIST SP 800-226",
        "National Institute of Standards and Technology, Special Publication 800-226, Guidelines "
        "for Evaluating Differential Privacy Guarantees.",
        "Numbers of sections are those of the initial public draft (December 2023); the headings "
        f"are given so that they are found in the final publication (March 2025). {_UNCHECKED}",
        (*_guarantee(report), *_algorithm(report), *_deployment(report)),
    )


def _guarantee(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Section 2.2, The Privacy Parameter ε",
            "Strength of the guarantee",
            "What are ε and δ?",
            (
                "An audit measures what attackers gain, which is no guarantee: it is not ε.",
                bounds_known(report),
            ),
            (
                "ε and δ of the release (`release()` states them), or that no guarantee holds, "
                "and why.",
            ),
            noise_table(report),
        ),
        Criterion(
            "Section 2.3, Variants of Differential Privacy",
            "Variant",
            "Which variant is stated, and from which was it converted?",
            (),
            ("The variant, and its own parameters beside ε and δ (such as ρ or μ).",),
        ),
        Criterion(
            "Section 2.4, The Unit of Privacy",
            "What is protected",
            "Which change of the data makes neighbors?",
            (
                "Here a unit is one row of the table that the model received: one record. A person "
                "with several rows is told more of than the numbers say.",
            ),
            ("How many rows a person may have, and how that was ensured.",),
        ),
        Criterion(
            "Section 2.6, Mixing Differential Privacy With Other Data Releases",
            "Other releases",
            "What else is released from the same data?",
            ("One release is counted here.",),
            (_OTHER_RELEASES,),
        ),
    )


def _algorithm(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Section 3.2, Utility and Accuracy",
            "Utility",
            "Is the release useful for its purpose?",
            (use(report),),
            ("Which score the purpose needs.",),
        ),
        Criterion(
            "Section 3.3, Bias",
            "Bias",
            "Whom does the noise serve worse than others, and of whom does the model tell more?",
            (),
            (
                "Scores and leakage by group of people (`skleak.inspection.LeakageFrame`), and "
                "what follows.",
            ),
        ),
        Criterion(
            "Section 3.5, Machine Learning",
            "Algorithm",
            "How is the model trained, and where is noise added?",
            (*processing(report)[:1], *measures(report)),
        ),
    )


def _deployment(report: AuditFacts) -> tuple[Criterion, ...]:
    return (
        Criterion(
            "Section 4.2, Threat Models",
            "Attackers and trust",
            "Whom does the guarantee protect from, and who is trusted?",
            (
                "Whoever trains the model holds the records and is trusted with them (central "
                "model); whoever gets a release is not.",
                *report.assumptions[:1],
            ),
            ("Who holds the records, and who may see unreleased models and reports.",),
        ),
        Criterion(
            "Section 4.3, Mechanism Implementation Challenges",
            "Implementation",
            "Is what runs the mechanism that was proven?",
            (*noise_checks(report), f"Played against it: {kind_of_attack(report)}.",
             *attacks_played(report)),
            ("Where random numbers come from, and how rounding of numbers is dealt with.",),
        ),
        Criterion(
            "Section 4.4, Data Security and Access Control",
            "Security",
            "Who has access to the records and to intermediate results?",
            (),
            ("Access control, storage and deletion.",),
        ),
        Criterion(
            "Section 4.5, Data Collection Exposure",
            "Collection",
            "What do those who collect the data learn of people?",
            (),
            ("How the data were collected, and what those learn who hold them.",),
        ),
    )  # fmt: skip
