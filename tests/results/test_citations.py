"""BibTeX for models and results: the tables name entries that exist, and each kind of model has its papers."""

import re

import pytest
import settings

import overlaps as ov
from overlaps.models.features import FEATURES as KNOWN
from overlaps.results.citations import FEATURES, MODULES, ONLINE, RULES, references


def keys(*results):
    return [re.findall(r"^@\w+\{(\w+)", ov.cite(x), re.M) for x in results]


def test_the_tables_name_entries_features_rules_and_modules():
    named = {
        *ONLINE,
        *(key for table in (FEATURES, MODULES) for papers in table.values() for key in papers),
        *RULES.values(),
    }
    assert named <= references().keys()
    assert FEATURES.keys() <= KNOWN.keys() and RULES.keys() <= {*ov.rules.__all__}
    for module in MODULES:
        __import__(f"overlaps.{module}")
    text = "\n".join(references().values())
    assert text.count("{") == text.count("}") and text.count("@") == len(references())
    for key, entry in references().items():
        years = re.search(r"year\s*= \{(\d{4})\}", entry)
        assert all(re.search(rf"\b{x}\s*= \{{", entry) for x in ("author", "title")), key
        assert key.rstrip("a")[-2:] == years[1][-2:], key


@pytest.mark.parametrize("name", KNOWN)
def test_every_model_has_its_papers(name):
    """Papers of a feature appear if and only if the model has it, or the result of finite steps."""
    model, start, _, options = settings.build(name)
    (found,) = keys(ov.solve(model, start, [0.0, settings.END], **options) if name == "step" else model)
    assert {*ONLINE, *FEATURES.get(name, ())} <= {*found} and len({*found}) == len(found)


def test_results_cite_their_models():
    model = ov.quadratic_network(2, 2, eta=0.1, eta_v=0.2)
    start = model.random_start(N=100, rng=1)
    curve, runs = ov.solve(model, start, [0, 0.1]), ov.simulate(model, N=100, alpha=[0, 0.1], rng=1, runs=2)
    many = ov.solve_many([model, model], start, [0, 0.1])
    expected = [*ONLINE, "GASKZ19", "B26"]
    assert keys(model, curve, runs, many, ov.fluctuations(curve, 100)) == [expected] * 5
    assert keys(ov.learner(ov.rules.optimal(), eta=1.0)) == [[*ONLINE, "KC92"]]
    assert keys(ov.hidden_manifold(2, 2, eta=0.1, ratio=0.5)) == [[*ONLINE, "YO19", "GMKZ20"]]


def test_static_theories():
    assert keys(ov.static.HierarchicalTeacher(activation={3: 1.0}, beta=0.8, k=20, noise=0.3).solve(nu=2.0)) == [
        ["W26"]
    ]


def test_objects_of_others_are_refused():
    with pytest.raises(ValueError, match="result = 3.0; expected a model or a result"):
        ov.cite(3.0)


def test_shown_as_it_is():
    assert repr(ov.cite(ov.committee_machine(1, 1, eta=0.1))).startswith("@article{SS95,\n")
