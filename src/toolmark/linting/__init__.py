"""Does a file of cases ask for what can be done? All that is wrong with its expectations, before anything is scored.

docs/lint.md lists the kinds of findings, and what cannot be found.
"""

from __future__ import annotations

from toolmark.linting.findings import LintFinding, LintKind, LintReport
from toolmark.linting.run import lint, read_tools

__all__ = ["LintFinding", "LintKind", "LintReport", "lint", "read_tools"]
