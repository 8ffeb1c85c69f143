"""Makes the links of the four READMEs absolute, for the pages of the packages: absolute_links.py ADDRESS REF.

ADDRESS is the repository's, such as https://example.org/owner/name, and REF the commit or tag that the links show. The
files are changed in place, so this belongs into a checkout that is thrown away: the release workflow runs it there.
"""

import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
READMES = ("README.md", *(f"adapters/{name}/README.md" for name in ("langchain", "llama-index", "openai-agents")))
LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s:]+)\)")


def absolute(text: str, folder: str, address: str, ref: str) -> str:
    """Return a page with absolute links.

    Args:
        text: The page, whose relative links start at its folder.
        folder: The folder of the page in the repository, "" for its root.
        address: The address of the repository, without a slash at its end.
        ref: The commit or tag.
    """

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if target.startswith("#"):
            return match[0]
        path, mark, fragment = target.partition("#")
        kind = "raw" if image else "blob"
        return (
            f"{image}{label}({address}/{kind}/{ref}/{posixpath.normpath(posixpath.join(folder, path))}{mark}{fragment})"
        )

    return LINK.sub(link, text)


def main(address: str, ref: str) -> None:
    """Change the READMEs."""
    for name in READMES:
        path = ROOT / name
        text = absolute(path.read_text(encoding="utf-8"), posixpath.dirname(name), address.rstrip("/"), ref)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
