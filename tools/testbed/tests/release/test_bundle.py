"""What goes into a bundle is files: a link of the repository leads to nothing there."""

from windlass_testbed.release.bundle import copied


def test_a_link_becomes_the_file_that_it_leads_to(tmp_path):
    """As crds/ leads to the chart's file, and a bundle has the chart as a package."""
    source, chart = tmp_path / "source/crds", tmp_path / "source/chart"
    source.mkdir(parents=True)
    chart.mkdir()
    (chart / "crd.yaml").write_text("kind: CustomResourceDefinition\n")
    (source / "crd.yaml").symlink_to("../chart/crd.yaml")
    copied(source, tmp_path / "bundle")
    found = tmp_path / "bundle/crd.yaml"
    assert not found.is_symlink()
    assert found.read_text() == "kind: CustomResourceDefinition\n"
