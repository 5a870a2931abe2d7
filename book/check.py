"""Checks the site that mdBook has made: `python3 book/check.py FOLDER`.

Every link, picture, script and style of every page leads to a file of the site, and to an anchor that is there; nothing is
loaded from elsewhere, so that the site and its search work without a network; every page of docs/ is part of it.
"""

import pathlib
import sys
import urllib.parse
from html.parser import HTMLParser

# What a browser loads by itself, as against what a reader may follow.
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) in LOADED:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def problems(site, docs):
    """What is wrong with the site, a sentence each."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    followed = 0
    for path, page in pages.items():
        # The page for addresses that are not there, and the one that forwards to it, are no pages of the docs.
        if path.name in ("404.html", "toc.html"):
            continue
        name = path.relative_to(site)
        for target in page.loads:
            if urllib.parse.urlsplit(target).scheme not in ("", "data"):
                yield f"{name}: loads {target}"
        for target in page.links + page.loads:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            file = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path.resolve()
            if not file.is_file():
                yield f"{name}: {target} leads nowhere"
            elif parts.fragment and file.suffix == ".html":
                anchors = pages[site / file.relative_to(site.resolve())].anchors
                if urllib.parse.unquote(parts.fragment) not in anchors:
                    yield f"{name}: {target} has no such anchor"
    for page in sorted(docs.glob("*.md")):
        if page.name != "SUMMARY.md" and not (site / page.with_suffix(".html").name).exists():
            yield f"docs/{page.name} is not in docs/SUMMARY.md"
    if not list(site.glob("searchindex*.js")):
        yield "there is no index for the search"
    if len(pages) < 20 or followed < 500:
        yield f"only {len(pages)} pages with {followed} links were found"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    site = pathlib.Path(sys.argv[1])
    found = list(problems(site, pathlib.Path(__file__).resolve().parent.parent / "docs"))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
