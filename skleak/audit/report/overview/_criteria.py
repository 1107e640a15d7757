"""What a dossier is made of: criteria with the paragraph each is from, evidence, and blanks."""

from dataclasses import dataclass

from skleak.report import Table

# How a blank is marked, wherever it stands.
BLANK = "TO BE FILLED IN"


@dataclass(frozen=True)
class Criterion:
    """A question of a text, with what an audit answers to it and what it cannot answer."""

    paragraph: str  # Where the text asks it
    title: str
    asks: str  # The question, in our words
    evidence: tuple[str, ...] = ()  # Sentences filled from the numbers
    blanks: tuple[str, ...] = ()  # What whoever answers for the data has to write
    table: Table | None = None

    @property
    def items(self) -> tuple[str, ...]:
        """Evidence and marked blanks."""
        return (*self.evidence, *(f"`[{BLANK}]` {blank}" for blank in self.blanks))


@dataclass(frozen=True)
class Text:
    """A text that asks for evidence."""

    name: str  # In a title
    cited: str  # In full
    note: str  # How its paragraphs are cited
    criteria: tuple[Criterion, ...]
