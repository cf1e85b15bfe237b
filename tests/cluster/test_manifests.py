"""Manifests for the Dask operator, against the schema that the operator installs."""

from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "cluster" / "kubernetes"
CHARTS = "operator/deployment/helm/dask-kubernetes-operator/crds"


def schema_of(kind):
    """The operator's schema of a kind, in which a field that it does not know is an error.

    Kubernetes would drop such a field without a word.
    """
    operator = pytest.importorskip("dask_kubernetes", reason="dask_kubernetes has the schema")
    path = Path(operator.__file__).parent / CHARTS / f"{kind.lower()}.yaml"
    definition = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    schema["properties"] |= {"apiVersion": {}, "kind": {"const": kind}, "metadata": {}}
    return closed(schema)


def closed(schema):
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {name: closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
        found.setdefault("additionalProperties", bool(open_ended))
    return found


def load(name):
    return yaml.safe_load((FOLDER / name).read_text())


@pytest.mark.parametrize(("file", "kind"), [("cluster", "DaskCluster"), ("job", "DaskJob")])
def test_a_manifest_is_what_the_operator_knows(file, kind):
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft7Validator(schema_of(kind))
    manifest = load(f"{file}.yaml")
    assert [error.message for error in checker.iter_errors(manifest)] == []
    # and the check does see what is wrong
    spec = manifest["spec"]["cluster"]["spec"] if kind == "DaskJob" else manifest["spec"]
    spec["worker"]["spec"]["containers"][0]["imagee"] = "x"
    spec["worker"]["replicas"] = "two"
    assert len(list(checker.iter_errors(manifest))) == 2


def parts_of(manifest):
    """Pod specs by role."""
    spec = manifest["spec"]
    cluster = spec["cluster"]["spec"] if "cluster" in spec else spec
    pods = {role: cluster[role]["spec"] for role in ("scheduler", "worker")}
    return pods | ({"client": spec["job"]["spec"]} if "job" in spec else {})


@pytest.mark.parametrize("file", ["cluster.yaml", "job.yaml"])
def test_every_part_speaks_tls_with_the_certificate_of_its_role(file):
    manifest = load(file)
    name = manifest["metadata"]["name"]
    for role, pod in parts_of(manifest).items():
        (container,) = pod["containers"]
        env = {item["name"]: item["value"] for item in container["env"]}
        prefix = "DASK_DISTRIBUTED__COMM__"
        assert env[f"{prefix}REQUIRE_ENCRYPTION"] == "true"
        for key, path in (("CA_FILE", "ca"), (f"{role}__CERT", "cert"), (f"{role}__KEY", "key")):
            assert env[f"{prefix}TLS__{key.upper()}"] == f"/tls/{path}.pem"
        if role != "scheduler":
            assert env["DASK_SCHEDULER_ADDRESS"] == f"tls://{name}-scheduler:8786"
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert set(mounts) == set(volumes)
        assert mounts["tls"] == "/tls"
        secret = {"secretName": f"s3vm-tls-{role}", "defaultMode": 0o440}
        assert volumes["tls"]["secret"] == secret
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_all_parts_have_one_image_and_the_service_finds_the_scheduler():
    images = set()
    for file in ("cluster.yaml", "job.yaml"):
        manifest = load(file)
        images |= {pod["containers"][0]["image"] for pod in parts_of(manifest).values()}
        spec = manifest["spec"]
        service = (spec["cluster"]["spec"] if "cluster" in spec else spec)["scheduler"]["service"]
        assert service["selector"]["dask.org/cluster-name"] == manifest["metadata"]["name"]
        policy = load("network-policy.yaml")["spec"]["podSelector"]["matchExpressions"][0]
        assert manifest["metadata"]["name"] in policy["values"]
    assert len(images) == 1
