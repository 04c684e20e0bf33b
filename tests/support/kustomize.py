"""What kubectl makes of a folder of manifests, as far as ours need it: one that is new enough is rare on Debian 12."""

import base64

import yaml


def render(folder):
    """Return the objects of a folder with a ``kustomization.yaml``."""
    recipe = _read(folder / "kustomization.yaml")[0]
    unknown = recipe.keys() - {"apiVersion", "kind", *_STEPS, "generatorOptions"}
    assert not unknown, f"{folder}: {unknown} is not known here"
    objects = []
    for step, carry_out in _STEPS.items():
        if step in recipe:
            objects = carry_out(folder, objects, recipe[step])
    return objects


def _read(file):
    return list(yaml.safe_load_all(file.read_text()))


def _add_resources(folder, objects, names):
    for name in names:
        path = (folder / name).resolve()
        objects = objects + (render(path) if path.is_dir() else _read(path))
    return objects


def _add_secrets(folder, objects, secrets):
    for secret in secrets:
        data = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in secret["files"]}
        metadata = {"name": secret["name"]}
        objects = [
            *objects,
            {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data},
        ]
    return objects


def _patch(_, objects, patches):
    for patch in patches:
        for one in objects:
            if one["kind"] == patch["target"]["kind"]:
                for change in yaml.safe_load(patch["patch"]):
                    assert change["op"] == "replace", change
                    *path, last = change["path"].strip("/").split("/")
                    at = one
                    for step in path:
                        at = at[int(step) if isinstance(at, list) else step]
                    at[int(last) if isinstance(at, list) else last] = change["value"]
    return objects


def _label(_, objects, labels):
    for label in labels:
        assert label["includeSelectors"]
        assert label["includeTemplates"]
        for one in objects:
            selector, template = one["spec"]["selector"], one["spec"].get("template")
            for labelled in (one["metadata"], *([] if template is None else [template["metadata"]])):
                labelled.setdefault("labels", {}).update(label["pairs"])
            selector["matchLabels"].update(label["pairs"])
    return objects


def _rename(_, objects, suffix):
    for one in objects:
        one["metadata"]["name"] += suffix
    return objects


_STEPS = {
    "resources": _add_resources,
    "secretGenerator": _add_secrets,
    "patches": _patch,
    "labels": _label,
    "nameSuffix": _rename,
}
