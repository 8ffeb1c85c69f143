"""Phrases, lines and rows that the terminal, Markdown, JUnit XML and HTML share."""
