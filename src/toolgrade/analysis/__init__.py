"""Reading several results together: comparison of two versions, validity against a label."""
