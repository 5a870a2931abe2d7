"""The files of container/ fit each other.

Rust's tests compare them with the program, and release/container-check runs them where Docker is.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "container"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CONTAINER / "compose.yml").read_text())
    return loaded


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = compose["services"]
    return {name: service for name, service in services.items() if "build" in service}


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """What is mounted: the place in the container, and where it comes from."""
    return {volume.split(":")[1]: volume.split(":")[0] for volume in service.get("volumes", [])}


def test_every_file_that_is_mounted_is_there(compose: dict[str, Any]) -> None:
    found = 0
    for name, service in compose["services"].items():
        for source in mounts(service).values():
            if source.startswith("."):
                assert (CONTAINER / source).exists(), (name, source)
                found += 1
            else:
                assert source in compose["volumes"], (name, source)
    assert found >= 6


def test_no_service_has_more_rights_than_it_needs(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        # Grafana's image has a user of its own.
        assert service.get("user") == "10001:10001" or name == "grafana", name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), (name, port)
        # Another version of an image is a change that somebody makes.
        assert re.search(r":(local|v?\d+\.\d+\.\d+)$", service["image"]), name


def test_images_are_built_from_stages_that_there_are(compose: dict[str, Any]) -> None:
    dockerfile = (CONTAINER / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE)
    assert stages[-1] == "agewise", "what is built without a target"
    for name, service in ours(compose).items():
        build = service["build"]
        assert (CONTAINER / build["context"]).resolve() == ROOT, name
        assert (ROOT / build["dockerfile"]).is_file(), name
        assert build["target"] in stages, name
    # One program, so one version of Rust, which is not older than what the workspace asks for.
    (image,) = re.findall(r"^FROM rust:(\d+)\.(\d+)-alpine ", dockerfile, re.MULTILINE)
    manifest = (ROOT / "Cargo.toml").read_text()
    (wanted,) = re.findall(r'^rust-version = "(\d+)\.(\d+)"$', manifest, re.MULTILINE)
    assert tuple(map(int, image)) >= tuple(map(int, wanted))


def test_all_that_cargo_reads_is_sent_to_the_build() -> None:
    lines = (CONTAINER / "Dockerfile.dockerignore").read_text().splitlines()
    sent = [line[2:] for line in lines if line.startswith("!/")]
    assert "*" in lines, "everything else stays"
    manifest = (ROOT / "Cargo.toml").read_text()
    (members,) = re.findall(r"^members = (\[.*\])$", manifest, re.MULTILINE)
    folders = {Path(name) for name in sent} | {Path(name).parent for name in sent}
    for member in json.loads(members):
        assert Path(member.rstrip("/*")) in folders, member
    for name in sent:
        assert list(ROOT.glob(name)), name
    # Links inside what is sent lead to what is sent.
    for link in (ROOT / "crates").glob("*/*"):
        if link.is_symlink():
            target = link.resolve().relative_to(ROOT)
            assert any(target.match(name) for name in sent), link


def test_the_coordinator_and_its_clients_find_each_other(compose: dict[str, Any]) -> None:
    services = compose["services"]
    settings = (CONTAINER / "coordinator.toml").read_text()
    assert mounts(services["coordinator"])["/etc/agewise/coordinator.toml"] == "./coordinator.toml"
    assert 'listen = "0.0.0.0:7070"' in settings and 'http = "0.0.0.0:7071"' in settings
    swarm = dict(word[2:].split("=", 1) for word in services["swarm"]["command"][1:])
    assert swarm["coordinator"] == "https://coordinator:7070"
    # The certificate is for that name; there are as many tokens as clients, and the run waits for
    # as many.
    certificates = services["certificates"]["command"]
    hosts = [host for flag, host in pairwise(certificates) if flag == "--host"]
    assert {"coordinator", "127.0.0.1"} <= set(hosts)
    tokens = services["tokens"]["command"]
    assert tokens[tokens.index("--count") + 1] == swarm["clients"]
    assert tokens[tokens.index("--out") + 1] == swarm["tokens"]
    assert f"\nclients = {swarm['clients']}\n" in settings
    assert swarm["ca"] == f"{certificates[2]}/tls/ca.pem"
    assert f'certificate = "{certificates[2]}/tls/coordinator.pem"' in settings
    assert swarm["state"] in mounts(services["swarm"])


def test_prometheus_and_grafana_find_what_they_show(compose: dict[str, Any]) -> None:
    services = compose["services"]
    prometheus = yaml.safe_load((CONTAINER / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    assert job["job_name"] == "agewise", "the alerts ask for that"
    assert job["static_configs"] == [{"targets": ["coordinator:7071"]}]
    observer = services["observer"]["command"]
    assert job["authorization"]["credentials_file"] == observer[observer.index("--out") + 1]
    (rules,) = prometheus["rule_files"]
    assert mounts(services["prometheus"])[rules] == "../docs/alerts.yml"
    assert yaml.safe_load((ROOT / "docs/alerts.yml").read_text())["groups"]

    provisioning = CONTAINER / "grafana/provisioning"
    sources = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())
    (source,) = sources["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["type"] == "prometheus"
    providers = yaml.safe_load((provisioning / "dashboards/agewise.yml").read_text())
    (provider,) = providers["providers"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert str(Path(home).parent) == provider["options"]["path"]
    assert mounts(services["grafana"])[home] == "./grafana/agewise.json"


def test_panels_of_the_dashboard_lie_side_by_side() -> None:
    dashboard = json.loads((CONTAINER / "grafana/agewise.json").read_text())
    assert dashboard["uid"] == "agewise"
    taken: dict[tuple[int, int], str] = {}
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers)) > 20
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]
        asked = [target["expr"] for target in panel.get("targets", [])]
        assert asked or panel["type"] == "row", panel["title"]
        for name in re.findall(r"\$(\w+)", " ".join(asked)):
            assert name in variables, (panel["title"], name)
