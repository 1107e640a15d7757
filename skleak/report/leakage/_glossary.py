"""What the words of a leakage report mean."""

GLOSSARY = (
    (
        "Noise units apart",
        "How far the models trained on two values of one entry are from each other, divided by the "
        "noise. At 1 a guess between the two is right 69% of the time, at 2 84%, at 4 97.7%: there "
        "the noise protects nobody.",
    ),
    (
        "Gained over guessing",
        "How much of what a guess between two values, at even odds, lacks the release adds: twice "
        "the share of right guesses less one. It holds for attackers of any kind, whatever they "
        "know beforehand.",
    ),
    (
        "Squared error removed",
        "Who expects a number to follow a normal law with the mean and the spread of its column "
        "errs by the column's standard deviation. The release removes at most this share of the "
        "square of that error (van Trees).",
    ),
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
        "By how much an estimate is off, typically.",
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
