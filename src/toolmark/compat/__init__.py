"""Names and defaults of other libraries over toolmark's core: one module per library."""
