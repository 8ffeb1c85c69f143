"""Does a file of cases ask for what can be done? All that is wrong with its expectations, before anything is scored.

docs/lint.md lists the kinds of findings, and what cannot be found.
"""

from __future__ import annotations

from toolmark.linting._lint import lint, read_tools
from toolmark.linting._report import LintFinding, LintKind, LintReport

__all__ = ["LintFinding", "LintKind", "LintReport", "lint", "read_tools"]
