"""The parts of the pytest plugin that are loaded only when a test uses them."""
