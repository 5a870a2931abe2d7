"""What the installed package says of itself."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_licences_and_authors_are_in_the_wheel() -> None:
    package = metadata.distribution("agewise")
    about = package.metadata
    assert about["License-Expression"] == "MIT OR Apache-2.0"
    assert about["Author"] == "The agewise developers"
    assert about["Summary"] == "Balanced client participation in federated learning"
    assert about["Requires-Python"] == ">=3.11"
    licences = ["LICENSE-APACHE", "LICENSE-MIT"]
    assert sorted(about.get_all("License-File") or []) == licences
    for name in licences:
        text = package.read_text(f"licenses/{name}")
        assert text == (ROOT / name).read_text() and text, name


def test_the_readme_is_the_description() -> None:
    about = metadata.metadata("agewise")
    assert about["Description-Content-Type"].startswith("text/markdown")
    description = str(about.json["description"])
    assert description.strip() == (ROOT / "README.md").read_text().strip()


def test_the_command_comes_with_it() -> None:
    found = metadata.entry_points(group="console_scripts", name="agewise")
    assert {point.value for point in found} == {"agewise.command:main"}
