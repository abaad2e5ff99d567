"""The page in a real browser. Without one these tests are skipped, or fail where NATPN_REQUIRE_BROWSER is set."""

import os
import re

import httpx
import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from natpn import NatPNRegressor
from natpn.serve import create_app
from serve.browser import MISSING, chromium, let_go, move, programs, resize, show_colours, wait
from serve.serving import flats, serving

if None in programs() and "NATPN_REQUIRE_BROWSER" not in os.environ:
    pytestmark = pytest.mark.skip(MISSING)  # not skipif, which pytest would list test by test


@pytest.fixture(scope="module")
def window():
    with chromium() as window:
        yield window


@pytest.fixture(scope="module")
def address(regressor):
    with serving(create_app(regressor)) as address:
        yield address


@pytest.fixture
def page(window, address):
    resize(window, 1200, 1000)
    window.get(address)
    wait(window, "document.querySelector('#plot svg') !== null")
    yield window
    assert [entry for entry in window.get_log("browser") if entry["level"] == "SEVERE"] == []


def text(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector).text


def answered(page, change):
    """Make a change, and wait until the answer follows it."""
    page.execute_script("window.before = document.querySelector('#now').innerText")
    change()
    wait(page, "document.querySelector('#now').innerText !== before")
    return text(page, "#now")


def test_the_form_is_made_from_the_features_and_answers(page, regressor):
    assert [label.text for label in page.find_elements(By.CSS_SELECTOR, ".field label")] == [
        "area", "rooms", "district", "garden", "built"
    ]  # fmt: skip
    first = text(page, "#value")
    assert re.fullmatch(r"Prediction: [\d,]+", first)
    assert text(page, "#mark-text") == "familiar"
    area = page.find_element(By.ID, "field-0")
    area.clear()
    assert "between" in answered(page, lambda: area.send_keys("60"))
    Select(page.find_element(By.ID, "field-2")).select_by_visible_text("harbour")
    # every key is a question: the answer to the last one may come a little later
    wait(page, r"/^Prediction: [67]\d\d$/.test(document.querySelector('#value').innerText)")
    page.find_element(By.ID, "reset").click()
    wait(page, f"document.querySelector('#value').innerText === {first!r}")


def test_it_begins_with_a_row_of_training(page, regressor):
    fields = page.find_elements(By.CSS_SELECTOR, ".field input:not([type=range]):not(.other), .field select")
    shown = [field.get_attribute("value") for field in fields]
    area, rooms, district, garden, built = regressor.model_.example
    assert shown == [str(area), str(rooms), f'"{district}"', str(garden).lower(), built[:10]]
    frame, _ = flats()
    assert ((frame["area"] == area) & (frame["rooms"] == rooms) & (frame["built"] == built)).sum() == 1
    assert "an ordinary row of training" in text(page, "#begins")


def test_the_target_is_called_by_its_name_and_unit(page):
    page.execute_script("state.model.target = {name: 'rent', unit: '€'}")
    said = answered(page, lambda: page.execute_script("predict()"))
    assert re.match(r"rent: [\d,]+ €\nWith a probability of 90 % it lies between [\d,]+ € and [\d,]+ €\.", said)
    assert "rent, €" in text(page, "#plot")


def test_the_plot_shows_the_interval_and_where_targets_were(page, regressor):
    low, high = re.search(r"between ([\d,]+) and ([\d,]+)", text(page, "#sentence")).groups()
    assert [end.text for end in page.find_elements(By.CSS_SELECTOR, "#plot .end")] == [low, high]
    box = page.find_element(By.CSS_SELECTOR, "#plot .interval").rect
    usual = page.find_element(By.CSS_SELECTOR, "#plot .usual").rect
    axis = [
        (float(tick.text.replace(",", "")), tick.rect) for tick in page.find_elements(By.CSS_SELECTOR, "#plot text")[2:]
    ]
    (value, first), (other, second) = axis[0], axis[-1]
    scale = (second["x"] + second["width"] / 2 - first["x"] - first["width"] / 2) / (other - value)
    ends = [value + (x - first["x"] - first["width"] / 2) / scale for x in (usual["x"], usual["x"] + usual["width"])]
    assert ends == pytest.approx(regressor.targets_.usual, abs=15)
    assert box["width"] / scale == pytest.approx(float(high.replace(",", "")) - float(low.replace(",", "")), abs=15)


def test_texts_of_the_plot_keep_their_size_on_a_telephone(page):
    def height():
        return page.find_element(By.CSS_SELECTOR, "#plot .end").rect["height"]

    wide = height()
    resize(page, 390, 800)
    wait(page, "document.querySelector('#plot svg').viewBox.baseVal.width < 400")
    assert height() == pytest.approx(wide, rel=0.15)


def test_sliders_stay_near_the_data_until_they_are_let_go(page):
    slider = page.find_element(By.CSS_SELECTOR, ".field [type=range]")
    near = [float(slider.get_attribute(end)) for end in ("min", "max")]
    assert 30 <= near[0] < near[1] <= 150
    let_go(page)
    far = [float(slider.get_attribute(end)) for end in ("min", "max")]
    assert far[0] < -150 < 350 < far[1]
    assert slider.get_attribute("value") == page.find_element(By.ID, "field-0").get_attribute("value")
    let_go(page)
    assert [float(slider.get_attribute(end)) for end in ("min", "max")] == near


def test_a_slider_far_from_training_shows_the_prior(page):
    assert text(page, "#mark-text") == "familiar"
    before = away_from_prior(page)
    let_go(page)
    answered(page, lambda: move(page, 0, 269))
    assert text(page, "#mark") == "⚠ unfamiliar look at area"
    assert "novel" in page.find_element(By.ID, "mark").get_attribute("class")
    assert "outside" in page.find_element(By.CSS_SELECTOR, ".field").get_attribute("class")
    assert away_from_prior(page) < before
    page.find_element(By.ID, "look").click()
    assert page.switch_to.active_element.get_attribute("id") == "field-0"
    area = page.find_element(By.ID, "field-0")
    area.clear()
    area.send_keys("100000")
    wait(page, "document.querySelector('#sentence').innerText.includes('prior speaking')")


def test_what_is_outside_training_is_not_called_familiar(page):
    """The answer is bent to be a familiar one: whether rows just outside are novel depends on the fit."""
    area = page.find_element(By.ID, "field-0")
    area.clear()
    area.send_keys("500")
    # all of it at once: the answer to a key may still be on its way
    classes, words = page.execute_script(
        "readForm(); show({prediction: 1, lower: 0, upper: 2, novel: false, familiarity: 1, novelty_p: 1,"
        " most_unusual: null, curve: null});"
        " return [document.querySelector('.field').className, document.querySelector('#mark-text').innerText]"
    )
    assert "outside" in classes
    assert words == "just beyond training"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("state.model.training.calibration_rows = 18", "too few rows to tell what is familiar"),
        ("answer.familiarity = 0.3", "little known"),
        ("answer.novel = true", "unfamiliar"),
        ("", "familiar"),
    ],
)
def test_the_mark_follows_from_the_numbers(page, change, words):
    page.execute_script(
        "const answer = {prediction: 1, lower: 0, upper: 2, novel: false, familiarity: 1, novelty_p: 1,"
        f" most_unusual: null, curve: null}}; {change}; show(answer)"
    )
    assert text(page, "#mark-text") == words


def away_from_prior(page):
    """How many pixels the two curves are apart, at the most."""
    curves = [page.find_element(By.CSS_SELECTOR, f"svg .{name}").get_attribute("d") for name in ("data", "prior")]
    heights = [[float(pair.split()[1]) for pair in re.split("[ML]", curve)[1:]] for curve in curves]
    return max(abs(a - b) for a, b in zip(*heights, strict=True))


def test_the_keyboard_is_enough(page):
    slider = page.find_element(By.CSS_SELECTOR, ".field [type=range]")
    answered(page, lambda: slider.send_keys(Keys.ARROW_RIGHT * 5))
    unnamed = page.execute_script(
        "return [...document.querySelectorAll('main input, main select, main button')].filter("
        "e => !e.labels?.length && !e.ariaLabel && !e.textContent).length"
    )
    assert unnamed == 0


def test_a_csv_is_dropped_on_the_page(page):
    frame, _ = flats()
    page.execute_script(
        "const data = new DataTransfer(); data.items.add(new File([arguments[0]], 'flats.csv', {type: 'text/csv'}));"
        "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))",
        frame.to_csv(index=False),
    )
    wait(page, "document.querySelector('#count') !== null")
    assert text(page, "#count").startswith("flats.csv: 400 rows, ")
    assert len(page.find_elements(By.CSS_SELECTOR, "tbody tr")) == 200
    assert text(page, "tbody th") == "1"
    assert page.find_element(By.CSS_SELECTOR, "#count a").get_attribute("download") == "answers.csv"


def test_a_bad_csv_says_what_is_wrong(page, tmp_path):
    (tmp_path / "bad.csv").write_text("aera,rooms,district,garden,built\n1,2,hills,true,2000-01-01\n")
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "bad.csv"))
    wait(page, "!document.querySelector('#problem').hidden")
    assert "Did you mean 'area'?" in text(page, "#problem")
    log = page.get_log("browser")  # the browser itself notes the status
    assert all("422" in entry["message"] for entry in log)


@pytest.mark.parametrize("width", [360, 390])
def test_a_telephone_is_wide_enough_and_the_mark_stays_in_sight(page, width):
    resize(page, width, 800)
    assert page.execute_script("return innerWidth") == width
    frame, _ = flats(60)
    frame.loc[3, "area"] = 5000
    page.execute_script(
        "const data = new DataTransfer(); data.items.add(new File([arguments[0]], 'a.csv', {type: 'text/csv'}));"
        "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))",
        frame.to_csv(index=False),
    )
    wait(page, "document.querySelector('#count') !== null")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_script("const box = document.querySelector('.scroll'); box.scrollLeft = box.scrollWidth")
    cell = page.find_element(By.CSS_SELECTOR, "tr.novel .mark-cell")
    assert cell.text == "⚠ unfamiliar"
    left, right = page.execute_script("const r = arguments[0].getBoundingClientRect(); return [r.left, r.right]", cell)
    assert 0 <= left < right <= width
    page.find_element(By.ID, "only").click()
    assert {row.get_attribute("class") for row in page.find_elements(By.CSS_SELECTOR, "tbody tr")} == {"novel"}
    # and the answer while values are changed
    page.execute_script("document.querySelector('#reset').scrollIntoView()")
    assert 0 <= page.execute_script("return document.querySelector('#mark').getBoundingClientRect().top") < 200


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_texts_stand_out_from_their_ground(page, colours):
    show_colours(page, colours)
    weak = page.execute_script(CONTRAST)
    show_colours(page, "light")
    assert weak == []


CONTRAST = """
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const light = (colour) => channels(colour).slice(0, 3).map(linear)
  .reduce((sum, c, i) => sum + [0.2126, 0.7152, 0.0722][i] * c, 0);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (channels(colour)[3] !== 0) return colour;
  }
};
const hasText = (e) => e.offsetParent && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
return [...document.querySelectorAll('main *, header *, footer *')].filter(hasText).map((e) => {
  const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
  return [e.id || e.className || e.tagName, (a + 0.05) / (b + 0.05)];
}).filter(([, ratio]) => ratio < 4.5);
"""


@pytest.fixture(scope="module")
def many_columns():
    """A model of 40 columns, one of them years."""
    rng = np.random.default_rng(0)
    names = [f"{('flow', 'heat', 'load')[i % 3]}_{i:02d}" for i in range(39)]
    X = pd.DataFrame(rng.normal(size=(120, 39)), columns=names)
    X["yr_built"] = rng.integers(1900, 2020, 120)
    return NatPNRegressor(max_epochs=1, random_state=0).fit(X, X["yr_built"] + rng.normal(size=120))


def test_fields_are_found_by_name_and_years_are_plain(window, many_columns):
    with serving(create_app(many_columns)) as address:
        window.get(address)
        wait(window, "document.querySelector('#plot svg') !== null")
        search = window.find_element(By.ID, "search")
        search.send_keys("3 Flow")
        shown = [field.text for field in window.find_elements(By.CSS_SELECTOR, ".field label") if field.is_displayed()]
        assert shown == ["flow_03", "flow_30", "flow_33", "flow_36"]
        assert text(window, "#found") == "4 of 40 fields"
        search.clear()
        search.send_keys("yr")
        hint = [field.text for field in window.find_elements(By.CSS_SELECTOR, ".field .small") if field.is_displayed()]
        assert re.fullmatch(r"in training mostly \d{4} to \d{4}, all \d{4} to \d{4}", hint[0])
        assert re.fullmatch(r"Prediction: \d{4}(\.\d)?", text(window, "#value"))  # which is a year too
        window.execute_script("showField('flow_00')")
        assert window.switch_to.active_element.get_attribute("id") == "field-0"
        window.get("about:blank")


def test_classes_have_bars(window, class_client):
    window.get(str(class_client.base_url))
    wait(window, "document.querySelectorAll('svg .bar').length === 3")
    assert re.match(r"Its probability is \d+ %; next is \w+ with \d+ %\.", text(window, "#sentence"))


def test_a_token_is_asked_for(window, classifier):
    with serving(create_app(classifier, token="s3cret")) as address:
        window.get(address)
        wait(window, "!document.querySelector('#token-form').hidden")
        window.find_element(By.ID, "token").send_keys("s3cret" + Keys.ENTER)
        wait(window, "document.querySelector('#plot svg') !== null")
        assert not window.find_element(By.ID, "token-form").is_displayed()
        window.get("about:blank")
    window.get_log("browser")


def test_a_model_of_images_has_no_form(window, painter):
    with serving(create_app(painter)) as address:
        window.get(address)
        wait(window, "!document.querySelector('#problem').hidden")
        assert "1 × 8 × 8" in text(window, "#problem")
        window.get("about:blank")


def test_a_drift_alarm_is_shown(window, regressor):
    with serving(create_app(regressor)) as address:
        window.get(address)
        wait(window, "document.querySelector('#plot svg') !== null")
        assert not window.find_element(By.ID, "drift").is_displayed()
        rows = [{**dict(zip(regressor.feature_names_in_, regressor.model_.example, strict=True)), "area": 1e6}] * 60
        httpx.post(f"{address}/predict", json={"rows": rows}).raise_for_status()
        window.get(address)
        wait(window, "!document.querySelector('#drift').hidden")
        assert "Drift alarm: the 60 rows" in text(window, "#drift")
