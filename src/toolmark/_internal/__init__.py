"""Plumbing shared by all packages: JSON values, text, the model base, files, optional packages. Not public."""
