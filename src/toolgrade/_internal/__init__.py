"""Plumbing of toolgrade: JSON values, text, files and imports. Private; nothing here is part of the public API."""
