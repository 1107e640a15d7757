"""Check built pages: every internal link has an end, and nothing is loaded from elsewhere.

Run after the build: `python docs/check_links.py docs/_build/html`.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, as opposed to what a reader may click.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}
LOADED |= {("object", "data"), ("embed", "src"), ("video", "src")}


class Page(HTMLParser):
    """Links, anchors and loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag links to, and what it can be linked by."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.add(values.get("href", ""))
        self.loaded |= {value for name, value in values.items() if (tag, name) in LOADED}


def faults(folder: Path) -> list[str]:
    """Return what is wrong in the pages of a folder."""
    built = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in built}
    found = []
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        for address in sorted(page.loaded):
            if urlsplit(address).netloc:
                found.append(f"{where} loads {address}")
        for address in sorted(page.links | page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{where}: no file {address}")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors:
                    found.append(f"{where}: no anchor {address}")
    return found if pages else [f"no pages in {folder}"]


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print("\n".join(wrong) or "every internal link has an end")
    sys.exit(bool(wrong))
