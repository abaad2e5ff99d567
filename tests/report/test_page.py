"""The page: whole, offline, escaped, the same every time, and there for every kind of model."""

import datetime
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from natpn.model import Model
from natpn.report import columns_used, listed_rows, page, render
from natpn.report.scores import METRICS, baselines, scores

KINDS = ["labels", "many labels", "numbers", "conformal ensemble", "lognormal", "counts", "vectors", "images"]
SCRIPT = "<script>alert(1)</script>"
VOID = {"meta", "br", "link", "img", "hr"}
PAGES: dict[tuple[int, bool], str] = {}  # by model, which all live as long as the tests


class Page(HTMLParser):
    """Reads a page, and fails at the first tag that is not closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.figures, self.ids, self.words, self.links = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self._note(tag, dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self._note(tag, dict(attrs))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def _note(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe", "i", "b"), tag
        assert not [name for name in attrs if name.startswith("on")]
        self.links += [value for name, value in attrs.items() if name in ("href", "src", "xlink:href")]
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag == "figure":
            self.figures.append(attrs)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def rendered(case):
    """The page of a case, with or without rows from elsewhere, rendered once."""

    def text(with_ood=True):
        key = id(case.model), with_ood
        if key not in PAGES:
            PAGES[key] = render(case.model, case.X, case.y, ood=case.ood if with_ood else None, title="A & <B>")
        return PAGES[key]

    return text


@pytest.mark.parametrize(
    ("case", "with_ood"), [*((kind, True) for kind in KINDS), ("labels", False), ("numbers", False)], indirect=["case"]
)
def test_every_kind_of_model_gets_a_whole_page_that_loads_nothing(rendered, with_ood):
    text = rendered(with_ood)
    read = Page(text)
    assert not re.search(r"https?:|//\w|@import", text)
    assert all(link.startswith("#") and link[1:] in read.ids for link in read.links)
    assert all(name in read.ids for name in re.findall(r"url\(#([^)]*)\)", text))
    assert len(read.ids) == len(set(read.ids))
    assert len(read.figures) >= 2
    assert all(f["role"] == "img" and len(f["aria-label"]) > 60 for f in read.figures)
    assert text.count("<figcaption>") == len(read.figures)
    assert not re.search(r"\b(nan|NaN|inf|None)\b", read.text + " ".join(f["aria-label"] for f in read.figures))
    assert "nan" not in "".join(re.findall(r'(?:\bd|points|\bx|\by)="([^"]*)"', text))
    assert ("elsewhere" in read.text) == with_ood
    assert "A & <B>" in read.text
    assert not re.search(r"#01020\d", text), "a stand-in colour is left"


@pytest.mark.parametrize("case", ["labels", "counts"], indirect=True)
def test_the_same_input_gives_the_same_text(case, rendered):
    assert render(case.model, case.X, case.y, ood=case.ood, title="A & <B>") == rendered()


@pytest.mark.parametrize("case", ["labels"], indirect=True)
def test_names_and_labels_are_text_and_never_markup(case):
    text = render(case.model, case.X.assign(**{SCRIPT: case.X[SCRIPT] + 50}), case.y, title=SCRIPT)
    assert "<script" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; = " in text
    assert "<b>high</b>" in Page(text).text
    assert "low & $1$" in Page(text).text


def test_text_inside_a_figure_is_escaped_and_no_formula():
    svg = page.figures.draw("x", lambda axes: axes.set(xlabel=f"{SCRIPT} $x^2$"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt; $x^2$" in svg
    assert "<script" not in svg


@pytest.mark.parametrize("case", KINDS, indirect=True)
def test_one_row_is_enough(case):
    text = Page(render(case.model, case.X[:1], case.y[:1], ood=case.ood[:1])).text
    assert "1 row with known answers" in text
    assert "1 row is too few" in text
    assert not re.search(r"\b(nan|NaN|inf)\b", text)


@pytest.mark.parametrize("case", ["labels", "numbers"], indirect=True)
def test_the_scores_are_those_of_the_score_function(case, rendered):
    text = Page(rendered()).text
    same = baselines(case.model, case.y)
    for name, value in scores(case.model, case.X, case.y, case.ood).items():
        other = f"{page.score_text(name, same[name])} " if name in same else ""
        assert f"{METRICS[name].title} {page.score_text(name, value)} {other}{METRICS[name].meaning}" in text
    assert "The baseline is the same answer for every row" in text


@pytest.mark.parametrize("case", ["labels", "numbers"], indirect=True)
def test_every_row_is_answered_once(case, monkeypatch):
    """But for rows whose columns are shuffled."""
    monkeypatch.setattr(page, "columns_used", lambda *_: ([], []))
    answered, answer = [], Model._see
    monkeypatch.setattr(Model, "_see", lambda self, x: (answered.append(len(x)), answer(self, x))[1])
    render(case.model, case.X, case.y, ood=case.ood)
    assert sum(answered) == len(case.X) + len(case.ood)


@pytest.mark.parametrize("case", ["vectors"], indirect=True)
def test_what_vectors_do_not_have_is_left_out_with_a_sentence(rendered):
    text = Page(rendered()).text
    assert "vectors, which have no intervals" in text
    assert "which one figure cannot show" in text


@pytest.mark.parametrize("case", ["images"], indirect=True)
def test_images_have_no_columns_to_point_at(case, rendered):
    text = Page(rendered()).text
    assert "not a table, so there is no column to point at" in text
    assert "Most unusual" not in text
    data = torch.utils.data.TensorDataset(torch.tensor(case.X), torch.tensor(case.y))
    others = torch.utils.data.TensorDataset(torch.tensor(case.ood), torch.tensor(case.y))
    assert render(case.model, data, None, ood=others, title="A & <B>") == rendered()


@pytest.mark.parametrize("case", ["numbers", "labels"], indirect=True)
def test_it_says_of_what_it_is_and_which_rows_to_look_at(case):
    ids = [f"flat {i}" for i in range(len(case.X))]
    about = {"name": "rent", "target": "the rent", "source": "test.csv", "date": datetime.date(2026, 11, 7)}
    text = Page(render(case.model, case.X, case.y, ids=ids, **about)).text
    assert "the rent: How far can this model be trusted?" in text
    assert f"Model rent, tried on test.csv, {len(case.X):,} rows. Report of 7 November 2026." in text
    facts = page.collect(case.model.model_, page.judge(case.model, case.X, case.y))
    for order in (np.argsort(facts.log_evidence, kind="stable"), np.argsort(facts.log_prob, kind="stable")):
        places = [text.index(f" {ids[i]} ") for i in order[:10]]
        assert len(set(places)) == 10
    with pytest.raises(ValueError, match="ids: expected one for each"):
        render(case.model, case.X, case.y, ids=ids[1:])


@pytest.mark.parametrize("case", ["counts"], indirect=True)
def test_counts_are_no_scatter(rendered):
    text = rendered()
    assert "predicted mean of each group of rows" in text
    assert "counts-patch" in text
    assert "agreement-patch" not in text


@pytest.mark.parametrize("case", ["labels"], indirect=True)
def test_the_least_known_row_comes_first_with_its_unusual_column(case):
    X = case.X.copy()
    X.loc[X.index[41], "$x_1$ & more"] = -1234.5
    rows = listed_rows.least_trusted(case.model, X, page.collect(case.model.model_, page.judge(case.model, X, case.y)))
    assert (rows[0].name, rows[0].column, rows[0].value, rows[0].alone) == ("42", "$x_1$ & more", "−1,234.5", True)
    X.loc[X.index[7], "colour"] = "never seen"
    column, value, usual, alone, reason = listed_rows.unusual_cells(case.model, X[7:8], 1)[0]
    assert (column, value, alone) == ("colour", "never seen", True)
    assert reason == "colour never seen was never seen in training"
    assert usual in ("red, <i>blue</i>", "<i>blue</i>, red")


@pytest.mark.parametrize("case", ["numbers"], indirect=True)
def test_columns_are_found_by_name_whatever_their_order(case):
    X = case.X.copy()
    X.loc[X.index[3], SCRIPT] = 99.0
    found = listed_rows.unusual_cells(case.model, X[X.columns[::-1]][:5], 5)
    assert found == listed_rows.unusual_cells(case.model, X[:5], 5)
    assert found[3][:2] == (SCRIPT, "99")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["labels", "numbers"], indirect=True)
def test_large_data_stay_small(case, monkeypatch):
    monkeypatch.setattr("natpn.report.facts.MAX_ROWS", 20_000)
    index = np.arange(50_000) % len(case.X)
    text = render(case.model, case.X.iloc[index], np.asarray(case.y)[index])
    assert len(text.encode()) < 1_000_000
    assert "50,000 rows with known answers" in Page(text).text
    assert "use 20,000 rows, evenly spaced" in Page(text).text


@pytest.mark.parametrize("case", ["numbers"], indirect=True)
def test_what_cannot_be_reported_on_is_refused_with_a_reason(case):
    with pytest.raises(ValueError, match="one target a row"):
        render(case.model, case.X, case.y[:-1])
    with pytest.raises(ValueError, match="true targets"):
        render(case.model, case.X, None)
    with pytest.raises(ValueError, match="in row 2: leave it out"):
        render(case.model, case.X[:3], [1.0, 2.0, np.nan])
    with pytest.raises(ValueError, match="of a pipeline give the last step"):
        render(object(), case.X, case.y)


def test_without_the_extra_scores_work_and_render_says_what_to_install():
    code = """
import sys
sys.modules |= {"matplotlib": None, "jinja2": None}
import natpn.report, natpn.report.scores
for there, missing in (("jinja2", "matplotlib"), ("matplotlib", "jinja2")):
    del sys.modules[there]
    sys.modules[missing] = None
    try:
        natpn.report.render
    except ImportError as error:
        print(error.name, error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in said.splitlines()] == ["matplotlib", "jinja2"]
    assert said.count("pip install '.[report]'") == 2


@pytest.mark.parametrize("case", ["numbers"], indirect=True)
def test_settings_of_matplotlib_are_neither_changed_nor_felt(case, rendered):
    import matplotlib as mpl

    plain, felt = rendered(), {"axes.labelsize": 30, "xtick.major.size": 12, "font.size": 30}
    with mpl.rc_context(felt):
        before = dict(mpl.rcParams)
        assert render(case.model, case.X, case.y, ood=case.ood, title="A & <B>") == plain
        assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("case", ["numbers"], indirect=True)
def test_columns_that_matter_come_first(case):
    said, listed = columns_used.columns_used(case.model, case.X, case.y)
    assert listed[0].name == SCRIPT
    assert listed[0].width == 100
    assert [column.name for column in listed] == list(case.model.importance(case.X, case.y)["column"])
    assert "shuffled among 120 rows" in said[0]
    assert "of 5 columns" in said[1]
