"""The command line: one file per command. `main` loads a command when it is called."""
