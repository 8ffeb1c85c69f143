"""Entry point of `python -m toolmark.cli`."""

from toolmark.cli.main import main

if __name__ == "__main__":
    main()
