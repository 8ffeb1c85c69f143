"""Recording of plain Python functions: the `@observe` decorator, its spans and its listeners."""
