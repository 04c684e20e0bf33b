"""Texts of calls that are not UTF-8: in many languages a text is bytes, perhaps cut within a character."""

from __future__ import annotations

from typing import Any

from thriftpy2.thrift import TType

from pinlater.protocol.guard import MalformedMessage

_FREE_TEXTS = frozenset({"source", "requestId", "customStatus", "appendCustomStatus", "prependCustomStatus"})
"""Fields that are only shown and stored. If a key or a name were changed, it could become that of another job."""


class NotText(MalformedMessage):
    """A text that must not be changed is not UTF-8; the message names the field."""


def repair_texts(struct: Any) -> None:
    """Replace what is not UTF-8 in free texts by replacement characters, as the original does.

    Args:
        struct: a struct of ``messages`` in which texts that are not UTF-8 are bytes.

    Raises:
        NotText: another text is not UTF-8.
    """
    for wire_type, name, *_ in struct.thrift_spec.values():
        value = getattr(struct, name)
        if wire_type == TType.STRING and type(value) is bytes:
            if name not in _FREE_TEXTS:
                raise NotText(f"{name} is not UTF-8")
            setattr(struct, name, value.decode("utf-8", "replace"))
        elif wire_type == TType.STRUCT and value is not None:
            repair_texts(value)
        elif wire_type == TType.LIST:
            for item in value or ():
                if type(item) is bytes:
                    raise NotText(f"an element of {name} is not UTF-8")
                if type(item) is not str:
                    repair_texts(item)
