"""`toolmark schema`."""

from __future__ import annotations

import click

from toolmark.cli.help import command
from toolmark.schemas import KINDS, schema_text


@command("toolmark schema goldens")
@click.argument("kind", type=click.Choice(KINDS))
def schema(*, kind: str) -> None:
    """Print the JSON Schema of a file of cases, goldens or records, for an editor.

    Editors complete and check a JSON file whose "$schema" names it: `toolmark schema goldens > goldens.schema.json`.
    """
    click.echo(schema_text(kind), nl=False)
