"""Phrases and rows that the terminal, Markdown, JUnit and pytest share."""
