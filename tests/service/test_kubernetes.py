"""The manifests: valid for the API of Kubernetes, taken by the settings, and as hardened as docs/scaling.md says.

`kubernetes-validate` has the schemas of the releases with it. No cluster is started: whether one runs them is not
tested.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data_folders import write_files
from tests.doc_blocks import ROOT

from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
from gatepost.settings.keys import AbbySettings, GuardSettings

FOLDER = ROOT / "contrib" / "kubernetes"
CLUSTER = ROOT / "contrib" / "container" / "cluster"
VERSION = "1.30"
NAMES = ("GATEPOST_CORE_SECRET", "GATEPOST_TOKEN", "GATEPOST_DATABASE_PASSWORD")


@functools.cache
def documents() -> tuple[dict[str, Any], ...]:
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
    files = [FOLDER / name for name in named["resources"]]
    assert {file.name for file in FOLDER.glob("*.yaml")} == {*named["resources"], "kustomization.yaml"}
    return tuple(document for file in files for document in yaml.safe_load_all(file.read_text("utf-8")))


def found(kind: str) -> Iterator[dict[str, Any]]:
    return (document for document in documents() if document["kind"] == kind)


def test_every_document_is_valid_for_the_api() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="not run: kubernetes-validate is not installed")
    kinds = set()
    for document in documents():
        validator.validate(document, VERSION, strict=True)
        kinds.add(document["kind"])
    assert kinds == {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"}
    broken = {**documents()[0], "spec": {"replica": 1}}
    with pytest.raises(validator.ValidationError):
        validator.validate(broken, VERSION, strict=True)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "5f" * 32)


@pytest.mark.usefixtures("environment")
def test_the_configuration_of_the_pods_is_taken(tmp_path: Path) -> None:
    guard, abby = _load(tmp_path, FOLDER / "config/guard.yml", FOLDER / "config/abby.yml")
    (scaler,) = found("HorizontalPodAutoscaler")
    target = int(scaler["spec"]["metrics"][0]["pods"]["target"]["averageValue"])
    assert target == guard.maximum * 7 // 10
    assert scaler["spec"]["metrics"][0]["pods"]["metric"]["name"] == "gatepost_in_processing"
    (service,) = (each for each in found("Service") if each["metadata"]["name"] == "gatepost-guard")
    assert abby.service_providers.core.hosts == [f"https://gatepost-guard:{service['spec']['ports'][0]['port']}"]
    for deployment in found("Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert guard.scan_sources.rest_api
        assert guard.scan_sources.smtp
        wanted = {
            "guard": {"https": guard.scan_sources.rest_api.port, "smtp": guard.scan_sources.smtp.port, "metrics": 9464},
            "abby": {"https": abby.listen.port, "metrics": 9464},
        }
        assert ports == wanted[container["args"][0]]


def _load(folder: Path, guard_file: Path, abby_file: Path) -> tuple[GuardSettings, AbbySettings]:
    """The two files as the services read them, with certificates in a folder that is there."""
    write_files(
        folder, *(each.read_text().replace("/etc/gatepost-tls", str(folder)) for each in (guard_file, abby_file))
    )
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (folder / name).touch()
    guard, abby = load_guard(folder), load_abby(folder)
    assert guard.storage == abby.storage
    assert guard.scan_sources.rest_api
    assert guard.scan_sources.rest_api.secret == abby.service_providers.core.secret
    return guard, abby


def test_pods_are_hardened_and_secrets_are_references() -> None:
    deployments = list(found("Deployment"))
    assert len(deployments) == 2
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["automountServiceAccountToken"]
        assert pod["terminationGracePeriodSeconds"] == 120
        (container,) = pod["containers"]
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        for variable in container["env"]:
            assert variable["name"] == "AWS_REGION" or "secretKeyRef" in variable["valueFrom"], variable["name"]
        named = {variable["name"] for variable in container["env"]}
        config = (FOLDER / "config" / f"{container['args'][0]}.yml").read_text("utf-8")
        assert set(re.findall(r"\$\{env:(\w+)\}", config)) <= named
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        budgets = [each["spec"]["selector"]["matchLabels"] for each in found("PodDisruptionBudget")]
        policies = [each["spec"]["podSelector"]["matchLabels"] for each in found("NetworkPolicy")]
        assert labels in budgets
        assert labels in policies
    assert not list(found("Secret"))


@pytest.mark.usefixtures("environment")
def test_the_compose_file_of_several_cores_fits_its_configuration(tmp_path: Path) -> None:
    compose = yaml.safe_load((CLUSTER / "compose.yaml").read_text("utf-8"))
    guard, abby = _load(tmp_path, CLUSTER / GUARD_FILE, CLUSTER / ABBY_FILE)
    services = compose["services"]
    assert services["guard"]["deploy"]["replicas"] == 3
    assert "@postgres/" in guard.storage.url
    assert abby.service_providers.core.hosts == ["https://guard:9785"]
    for name in ("guard", "abby"):
        service = services[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["command"] == name
        for mount in service["configs"]:
            assert mount["source"] in compose["configs"]
        given = (CLUSTER / compose["configs"][name]["file"]).read_text("utf-8")
        assert set(re.findall(r"\$\{env:(\w+)\}", given)) <= service["environment"].keys()
        assert all(value.startswith("${") for value in service["environment"].values()), "no secret stands in the file"
    assert str(guard.quarantine.url).startswith("file:/quarantine")
    assert "quarantine:/quarantine" in services["guard"]["volumes"]


def test_the_compose_files_are_taken_by_docker() -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, **dict.fromkeys(NAMES, "x")}
        command = ["docker", "compose", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)

    if not shutil.which("docker") or call("version").returncode:
        pytest.skip("not run: there is no docker compose")
    for file in (CLUSTER / "compose.yaml", CLUSTER.parent / "compose.yaml"):
        ended = call("-f", str(file), "config", "--quiet")
        assert ended.returncode == 0, ended.stderr
