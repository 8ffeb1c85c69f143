"""Results in a browser: an index of their files, and a server of pages that listens on this machine only."""
