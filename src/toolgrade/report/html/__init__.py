"""Reports as one HTML file that needs no network."""

from toolgrade.report.html.page import render_html, write_html

__all__ = ["render_html", "write_html"]
