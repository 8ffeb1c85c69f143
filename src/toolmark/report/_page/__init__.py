"""What stands on the HTML page of a report, as data: the templates only lay it out."""
