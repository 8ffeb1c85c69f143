"""Names and defaults of other libraries over toolgrade's core: one module per library."""
