"""What coding agents read: `docs/llms.txt` lists every page of the site, and the skill has the form that they load."""

import re

from processes import ROOT

LLMS = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
SKILL = ROOT / "skills" / "toolgrade" / "SKILL.md"
MOST_LINES = 150


def test_llms_txt_lists_every_page_of_the_site_once() -> None:
    """The pages of docs/ and of the navigation, and no others."""
    folder = ROOT / "docs"
    navigation = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")} | set(navigation)
    # mkdocs names the page of a README `index.html`.
    addresses = {re.sub(r"\bREADME\.md$", "index.md", page).removesuffix(".md") + ".html" for page in pages}
    links = re.findall(r"\]\(([^)]+)\)", LLMS)

    problems = [
        *(f"lacks {address}: add a line with a sentence" for address in sorted(addresses - set(links))),
        *(f"links to {link}, which does not exist: rename or remove it" for link in sorted(set(links) - addresses)),
        *(f"lists {link} {links.count(link)} times" for link in sorted(set(links)) if links.count(link) > 1),
    ]

    assert not problems, f"docs/llms.txt {'; '.join(problems)}"


def test_the_skill_has_the_form_of_a_skill() -> None:
    """Front matter with the name of its folder and a description, and a body that is short enough to load whole."""
    text = SKILL.read_text(encoding="utf-8")
    front = re.match(r"---\nname: ([a-z0-9-]+)\ndescription: (.+)\n---\n", text)

    assert front is not None
    assert front[1] == SKILL.parent.name
    assert len(front[2]) <= 1024
    assert ": " not in front[2]  # it would be a key of YAML
    assert len(text.splitlines()) <= MOST_LINES
