"""What the words of a leakage report mean."""

GLOSSARY = (
    (
        "Fisher information loss",
        "How sharply the released model responds to a small change of a record, measured in units "
        "of the noise. 0 means that the record leaves no trace; the larger, the better it can be "
        "read back. It is counted per unit of the columns (or, for one column, of that column).",
    ),
    (
        "Cramér–Rao bound",
        "A theorem of statistics: an unbiased estimate of a quantity cannot have a standard error "
        "below 1 over its Fisher information loss. It turns a loss into an error in the column's "
        "units.",
    ),
    (
        "Standard error",
        "By how much an estimate is off, typically. An attacker who must err by a standard "
        "deviation of the column or more learns little that its spread would not tell.",
    ),
    (
        "Unbiased attacker",
        "One whose guesses are right on average, whatever the truth. Attackers who lean on prior "
        "knowledge are biased: they may err less, but owe that to their knowledge and not to the "
        "model.",
    ),
    (
        "Spread",
        "Standard deviation of leakage divided by its mean. It is 0 if all records (or groups) "
        "leak the same; the larger, the more unequal the burden.",
    ),
    (
        "Joint loss",
        "The loss of several records together, for a reader who asks about all of them at once.",
    ),
    (
        "Noise scale",
        "Standard deviation of the random noise added to each coefficient. Twice the noise is half "
        "the loss, and a less accurate model.",
    ),
    (
        "Reweighting (IRFIL)",
        "Giving each record a weight in the fit so that all would leak the same if the weights "
        "were fixed, at the same noise. They are not: they depend on the data, so that the leakage "
        "is not equal.",
    ),
    (
        "Differential privacy",
        "A promise that the model would have been drawn with nearly the same probability had one "
        "record been another, for all data that keep the stated bounds. Smaller ε and δ promise "
        "more.",
    ),
)
