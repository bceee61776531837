"""Checks a manifest that sskp made against Kubernetes' published schema, and what it says against the grid it was made from.

    python check_manifest.py MANIFEST GRID CELLS PARALLEL
"""

import sys

import kubernetes_validate
import yaml

manifest, grid, cells, parallel = sys.argv[1:]
VERSION = "1.33"  # the first in which retries per index are stable

with open(manifest) as file:
    documents = list(yaml.safe_load_all(file))
for document in documents:
    kubernetes_validate.validate(document, VERSION, strict=True)

# The check must be able to fail.
broken = {**documents[1], "spec": {**documents[1]["spec"], "completions": "many"}}
try:
    kubernetes_validate.validate(broken, VERSION, strict=True)
except kubernetes_validate.ValidationError:
    pass
else:
    sys.exit("a manifest with many completions was accepted")

files, job = documents
spec = job["spec"]
assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", int(cells), int(parallel)), spec
pod = spec["template"]["spec"]
(container,) = pod["containers"]
assert container["command"][-2:] == ["--cell", "$(JOB_COMPLETION_INDEX)"], container
items = {item["path"]: item["key"] for item in pod["volumes"][0]["configMap"]["items"]}
with open(grid) as file:
    assert files["data"][items["grid.toml"]] == file.read()
assert "batch = 9" in files["data"][items["own.toml"]]
print(f"{len(documents)} documents are valid by Kubernetes {VERSION}")
