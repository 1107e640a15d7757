"""What counts as little, much, unprotected and rare: one scale for all."""

# An attacker who gains less learns little from the release.
LITTLE = 0.02
# From here on the answer is right three times in four, at even odds, or more often.
MUCH = 0.5
# Two values that lie further apart than this are told apart 97.7 times in 100: the noise protects
# nobody.
UNPROTECTED = 4.0
# Values that fewer records have than this share give away who has them.
RARE = 0.05
