"""Annotations of a class body, which Python 3.14 and later evaluate only when they are asked for."""

from __future__ import annotations

import sys
from collections.abc import KeysView, Mapping
from typing import Any


def annotated_names(namespace: Mapping[str, Any]) -> KeysView[str]:
    """Return the names that a class body annotates."""
    found = _evaluated(namespace, "FORWARDREF")  # they may name what is defined further down
    return ((namespace.get("__annotations__") or {}) if found is None else found).keys()


def annotations_now(namespace: Mapping[str, Any]) -> dict[str, Any] | None:
    """Evaluate the annotations of a class body before there is a class.

    Later, ``date: date`` would name the attribute of the class instead of the type.

    Returns:
        The annotations; None: they exist already, or name something that is not defined yet.
    """
    try:
        return _evaluated(namespace, "VALUE")
    except Exception:  # noqa: BLE001 - annotations are code; who asks for them later gets the error
        return None


def _evaluated(namespace: Mapping[str, Any], form: str) -> dict[str, Any] | None:
    """Return the annotations in a format of ``annotationlib``; None if they exist already, or there are none."""
    if sys.version_info >= (3, 14):
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is not None:
            return annotationlib.call_annotate_function(annotate, annotationlib.Format[form])
    return None
