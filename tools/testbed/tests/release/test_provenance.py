"""The statement of provenance: names every artefact, the commit and the materials; nothing of clock or machine."""

import json

from windlass_testbed.release import provenance

MADE = provenance.Made(
    version="0.2.0",
    commit="c" * 40,
    epoch=1_700_000_000,
    programs={"python": "3.11.7", "go": "1.26.8"},
    modules=["example.com/b@v2", "example.com/a@v1"],
    files={"requirements.lock": "f" * 64},
    images={"windlass-base/python:1": "1" * 64},
)
SUBJECTS = {"wheels/b.whl": "b" * 64, "a.tar": "a" * 64}


def test_subjects_are_the_artefacts_in_order():
    """Each by its sum, as in-toto's verifiers look it up."""
    said = provenance.statement(MADE, SUBJECTS)
    assert (said["_type"], said["predicateType"]) == (provenance.STATEMENT, provenance.PREDICATE)
    assert said["subject"] == [
        {"name": "a.tar", "digest": {"sha256": "a" * 64}},
        {"name": "wheels/b.whl", "digest": {"sha256": "b" * 64}},
    ]


def test_materials_are_the_commit_the_locks_the_bases_and_the_modules():
    """What one needs to make it again."""
    (definition,) = [provenance.statement(MADE, SUBJECTS)["predicate"]["buildDefinition"]]
    assert definition["resolvedDependencies"] == [
        {"name": "source", "digest": {"gitCommit": "c" * 40}},
        {"name": "requirements.lock", "digest": {"sha256": "f" * 64}},
        {"name": "windlass-base/python:1", "digest": {"sha256": "1" * 64}},
        {"uri": "pkg:golang/example.com/a@v1"},
        {"uri": "pkg:golang/example.com/b@v2"},
    ]
    assert definition["internalParameters"] == {"SOURCE_DATE_EPOCH": 1_700_000_000}


def test_the_order_in_which_things_were_found_does_not_matter():
    """Two builds write the same bytes."""
    other = provenance.statement(MADE, dict(reversed(SUBJECTS.items())))
    assert json.dumps(other) == json.dumps(provenance.statement(MADE, SUBJECTS))
