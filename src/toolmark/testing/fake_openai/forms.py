"""What stands in a form that a client uploads?"""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP

from toolmark._internal.json import JsonObject


def form(content: bytes, kind: str) -> JsonObject:
    """Return the fields of a form with files: the text of each, and `filename` for the last file.

    Args:
        content: The body of the request.
        kind: Its content type, which holds the boundary.

    Returns:
        The fields; none where it is no such form.
    """
    message = BytesParser(policy=HTTP).parsebytes(b"content-type: " + kind.encode("latin-1") + b"\r\n\r\n" + content)
    fields: JsonObject = {}
    for part in message.iter_parts() if message.is_multipart() else ():
        payload = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        fields[f"{name}"] = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
        if part.get_filename() is not None:
            fields["filename"] = part.get_filename()
    return fields
