"""Where a dataset is kept on a host, and its manifest: every file with its size and digest.

Standard library only, for whoever makes a dataset, prepares it on a node, or checks it.
"""

import hashlib
import json
import os
from typing import Any, Dict, List, Mapping

NAME = "manifest.json"


def folder_name(facts: Mapping[str, Any]) -> str:
    """Return the name of the folder in which a node keeps a dataset: of other facts, another folder. How many samples
    there are is what was counted, and makes no other files."""
    kept = {key: value for key, value in facts.items() if key not in ("root", "path", "splits")}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode("utf-8")).hexdigest()
    return "%s-%s" % (facts["name"], digest[:12])


def describe(path: str) -> Dict[str, Any]:
    """Return {sha256, bytes} of a file.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
        return {"sha256": digest.hexdigest(), "bytes": file.tell()}


def below(folder: str) -> List[str]:
    """Return the paths of all files below ``folder`` but the manifest, relative to it and sorted.

    Raises:
        OSError: a folder cannot be read.
    """

    def fail(error: OSError) -> None:
        raise error

    found = []
    for parent, _, names in os.walk(folder, onerror=fail, followlinks=True):
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in names]
    return sorted(path for path in found if path != NAME)


def listing(folder: str) -> Dict[str, Any]:
    """Return {files, bytes, sha256} of all files below ``folder`` by their names and sizes: their contents, which may
    be hundreds of gigabytes, are not read. Hidden files do not count.

    Raises:
        OSError: a folder or a file cannot be read.
    """
    paths = [path for path in below(folder) if not any(part.startswith(".") for part in path.split(os.sep))]
    sizes = [os.stat(os.path.join(folder, path)).st_size for path in paths]
    lines = "".join("%d %s\n" % (size, path) for path, size in zip(paths, sizes))
    return {"files": len(paths), "bytes": sum(sizes), "sha256": hashlib.sha256(lines.encode("utf-8")).hexdigest()}


def write(folder: str, version: int, made_with: Dict[str, str]) -> None:
    """Describe all files below ``folder`` in its manifest: {version, made_with, files {path: {sha256, bytes}}}."""
    files = {path: describe(os.path.join(folder, path)) for path in below(folder)}
    manifest = {"version": version, "made_with": made_with, "files": files}
    with open(os.path.join(folder, NAME), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)


def read(folder: str) -> Dict[str, Any]:
    """Return the manifest of ``folder``.

    Raises:
        OSError: there is none.
        ValueError: it is no manifest.
    """
    with open(os.path.join(folder, NAME), encoding="utf-8") as file:
        manifest = json.load(file)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise ValueError("%s is no manifest: it has no files" % os.path.join(folder, NAME))
    return manifest


def identity(manifest: Dict[str, Any]) -> Dict[str, Any]:
    """Return {files, bytes, sha256}: equal where the same files have the same contents."""
    files = manifest["files"]
    lines = "".join("%s %s\n" % (files[path]["sha256"], path) for path in sorted(files))
    digest = hashlib.sha256(lines.encode("utf-8")).hexdigest()
    return {"files": len(files), "bytes": sum(file["bytes"] for file in files.values()), "sha256": digest}


def problems(folder: str, manifest: Dict[str, Any]) -> List[str]:
    """Return a line for each file of the manifest that is missing or is not what was written."""
    found = []
    for path, facts in sorted(manifest["files"].items()):
        whole = os.path.join(folder, path)
        try:
            now = describe(whole)
        except OSError as error:
            found.append("%s: %s" % (whole, error.strerror or error))
            continue
        if now["bytes"] != facts["bytes"]:
            found.append("%s: it has %d bytes, and %d were written" % (whole, now["bytes"], facts["bytes"]))
        elif now != facts:
            found.append("%s: its contents are not those that were written" % whole)
    return found
