"""The page in a real browser. Without one these tests are skipped, or fail where NATPN_REQUIRE_BROWSER is set."""

import os
import re

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from natpn.serve import create_app
from serve.browser import MISSING, chromium, move, programs, resize, wait
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
    """Make a change, and wait until the sentence follows it."""
    before = text(page, "#sentence")
    change()
    wait(page, f"document.querySelector('#sentence').innerText !== {before!r}")
    return text(page, "#sentence")


def test_the_form_is_made_from_the_features_and_answers(page):
    assert [label.text for label in page.find_elements(By.CSS_SELECTOR, ".field label")] == [
        "area", "rooms", "district", "garden", "built"
    ]  # fmt: skip
    assert "The prediction is 1," in text(page, "#sentence")
    assert "familiar" in text(page, "#mark")
    area = page.find_element(By.ID, "field-0")
    area.clear()
    assert "between" in answered(page, lambda: area.send_keys("60"))
    Select(page.find_element(By.ID, "field-2")).select_by_visible_text("harbour")
    # every key is a question: the answer to the last one may come a little later
    wait(page, r"/^The prediction is [67]\d\d/.test(document.querySelector('#sentence').innerText)")
    page.find_element(By.ID, "reset").click()
    wait(page, "document.querySelector('#sentence').innerText.startsWith('The prediction is 1,')")


def test_a_slider_far_from_training_shows_the_prior(page):
    assert text(page, "#mark-text") == "familiar"
    before = away_from_prior(page)
    answered(page, lambda: move(page, 0, 269))
    assert text(page, "#mark-text").startswith("unfamiliar: look at area")
    assert "novel" in page.find_element(By.ID, "mark").get_attribute("class")
    assert "outside" in page.find_element(By.CSS_SELECTOR, ".field").get_attribute("class")
    assert away_from_prior(page) < before
    area = page.find_element(By.ID, "field-0")
    area.clear()
    area.send_keys("100000")
    wait(page, "document.querySelector('#sentence').innerText.includes('prior speaking')")


def test_what_is_outside_training_is_not_called_familiar(page):
    """The answer is bent to be a familiar one: whether rows just outside are novel depends on the fit."""
    area = page.find_element(By.ID, "field-0")
    area.clear()
    answered(page, lambda: area.send_keys("500"))
    assert "outside" in page.find_element(By.CSS_SELECTOR, ".field").get_attribute("class")
    page.execute_script(
        "show({prediction: 1, lower: 0, upper: 2, novel: false, familiarity: 1, novelty_p: 1, most_unusual: null,"
        " curve: null})"
    )
    assert text(page, "#mark-text") == "just beyond training"


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
    assert text(page, "#count").startswith("400 rows, ")
    assert len(page.find_elements(By.CSS_SELECTOR, "tbody tr")) == 200
    assert page.find_element(By.CSS_SELECTOR, "#count a").get_attribute("download") == "answers.csv"


def test_a_bad_csv_says_what_is_wrong(page, tmp_path):
    (tmp_path / "bad.csv").write_text("aera,rooms,district,garden,built\n1,2,hills,true,2000-01-01\n")
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "bad.csv"))
    wait(page, "!document.querySelector('#problem').hidden")
    assert "Did you mean 'area'?" in text(page, "#problem")
    log = page.get_log("browser")  # the browser itself notes the status
    assert all("422" in entry["message"] for entry in log)


def test_360_pixels_are_wide_enough(page):
    resize(page, 360, 800)
    assert page.execute_script("return innerWidth") == 360
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360


def test_classes_have_bars(window, class_client):
    window.get(str(class_client.base_url))
    wait(window, "document.querySelectorAll('svg .bar').length === 3")
    assert "The most probable class is mid" in text(window, "#sentence")


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
