"""Engines that score parts of files: local processes, Ray, Spark."""
