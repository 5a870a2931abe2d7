"""A preprocessor of mdBook: what links lead to outside docs/ is no part of the site.

With the address of the repository (`address` in book.toml, such as https://HOST/OWNER/agewise/blob/main) such a link leads
there. Without one its text stays, with the path behind it. Links inside docs/ are mdBook's.
"""

import json
import posixpath
import re
import sys

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#|<)([^)\s]+)\)")
FENCE = re.compile(r"(^[ \t]*```.*?^[ \t]*```[ \t]*$)", re.DOTALL | re.MULTILINE)


def outside(path, target):
    """The path in the repository, if a link of this page leaves docs/."""
    file, _, _ = target.partition("#")
    full = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), file))
    return None if full.startswith("docs/") else full


def turned(match, path, address):
    """A link as the site shows it."""
    mark, text, target = match.groups()
    place = outside(path, target)
    if place is None:
        return match[0]
    if address:
        anchor = target.partition("#")[2]
        return f"{mark}[{text}]({address.rstrip('/')}/{place}{'#' + anchor if anchor else ''})"
    return text if place in text or place.split("/")[-1] in text else f"{text} (`{place}` in the repository)"


def text_of(content, path, address):
    """A page with its links turned; blocks of code stay as they are."""
    pieces = FENCE.split(content)
    pieces[::2] = [LINK.sub(lambda match: turned(match, path, address), piece) for piece in pieces[::2]]
    return "".join(pieces)


def walk(items, address):
    """Every chapter, and those inside it."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter["path"]:
                chapter["content"] = text_of(chapter["content"], chapter["path"], address)
            walk(chapter["sub_items"], address)


def main():
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0 if sys.argv[2] == "html" else 1)
    context, book = json.load(sys.stdin)
    address = context["config"]["preprocessor"]["outside"].get("address", "")
    # The list of chapters has this name since mdBook 0.5, and the other one before.
    walk(book.get("items") or book.get("sections") or [], address)
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
