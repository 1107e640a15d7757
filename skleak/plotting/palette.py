"""The colours of all figures, and what each becomes on a dark page."""

__all__ = [
    "BLUE",
    "BROWN",
    "CRIMSON",
    "DEEP_BLUE",
    "FOREST",
    "GRAY",
    "GREEN",
    "INDIGO",
    "INK",
    "ON_DARK",
    "ORANGE",
    "PALE",
    "PURPLE",
    "RUST",
    "SKY",
    "SLATE",
    "SPARE",
    "VERMILION",
    "WHITE",
    "YELLOW",
]

INK, GRAY, WHITE = "#1b2430", "#8a8f98", "#ffffff"
# Bounds (Okabe and Ito: told apart by colour-blind readers).
GREEN, DEEP_BLUE, SKY, YELLOW = "#009e73", "#0072b2", "#56b4e9", "#e69f00"
VERMILION, PURPLE = "#d55e00", "#b8578f"
# Attacks, those of users last.
RUST, INDIGO, FOREST, BROWN, SLATE = "#a3260f", "#3f4fb0", "#0b6e4f", "#8a5a00", "#6b7280"
SPARE = ("#7b2d8e", "#1f7a8c", PURPLE, "#5b7f1d")
# Leakage, and what stands out.
BLUE, PALE, ORANGE, CRIMSON = "#3f6fb0", "#a9bfdc", "#b4480c", "#e4002b"

ON_DARK = {
    INK: "#e8ebf0",
    WHITE: "#1b2027",
    DEEP_BLUE: "#5aa9e0",
    GREEN: "#3fc79f",
    PURPLE: "#e592c3",
    VERMILION: "#f0955a",
    RUST: "#f08a72",
    INDIGO: "#9aa8f5",
    FOREST: "#4fc9a1",
    BROWN: "#dcb45f",
    SLATE: "#a7b1be",
    SPARE[0]: "#d49be3",
    SPARE[1]: "#6cc7da",
    SPARE[3]: "#abd066",
    BLUE: "#78a6e6",
    PALE: "#48678f",
    ORANGE: "#f39a63",
    CRIMSON: "#ff6b81",
}
