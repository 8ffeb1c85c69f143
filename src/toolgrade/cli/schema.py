"""`toolgrade schema`."""

from __future__ import annotations

import click

from toolgrade.cli.help import command
from toolgrade.schemas import KINDS, schema_text


@command("toolgrade schema goldens")
@click.argument("kind", type=click.Choice(KINDS))
def schema(*, kind: str) -> None:
    """Print the JSON Schema of a file of cases, goldens or records, for an editor.

    Editors complete and check a JSON file whose "$schema" names it: `toolgrade schema goldens > goldens.schema.json`.
    """
    click.echo(schema_text(kind), nl=False)
