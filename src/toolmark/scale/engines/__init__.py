"""Where parts of files are scored: local processes, Ray, Spark."""
