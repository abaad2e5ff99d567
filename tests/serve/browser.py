"""Debian's chromium, driven by selenium, and the picture of the page for the documentation.

The browser is installed by `apt-get install -y chromium chromium-driver` (`.ci/run` does so). The picture is made by

    PYTHONPATH=tests python -m serve.browser docs/figures/page.png
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

MISSING = "The page is tested in chromium, which is not installed: apt-get install -y chromium chromium-driver"


def programs() -> tuple[str | None, str | None]:
    """Return where the browser and its driver are."""
    return shutil.which("chromium"), shutil.which("chromedriver")


@contextmanager
def chromium(width: int = 1200, height: int = 1000) -> Iterator[webdriver.Chrome]:
    """Start a browser without a window, of the given size."""
    program, driver = programs()
    if program is None or driver is None:
        raise RuntimeError(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        resize(browser, width, height)
        yield browser
    finally:
        browser.quit()


def resize(browser: webdriver.Chrome, width: int, height: int) -> None:
    """Set the size of the page itself; a window cannot be as narrow as a telephone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def wait(browser: webdriver.Chrome, condition: str) -> object:
    """Wait until an expression of JavaScript is true, and return it."""
    return WebDriverWait(browser, 20).until(
        lambda driver: driver.execute_script(f"return {condition}"), f"the page never came to {condition}"
    )


def move(browser: webdriver.Chrome, field: int, value: float) -> None:
    """Move the slider of a field, as a hand would."""
    browser.execute_script(
        "const slider = document.querySelectorAll('.field')[arguments[0]].querySelector('[type=range]');"
        "slider.value = arguments[1]; slider.dispatchEvent(new Event('input', {bubbles: true}));",
        field,
        value,
    )


def show_colours(browser: webdriver.Chrome, scheme: str) -> None:
    """Let the page be light or dark."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def let_go(browser: webdriver.Chrome) -> None:
    """Let sliders go far beyond the data."""
    browser.find_element("id", "far").click()


def main() -> None:
    from natpn import NatPNRegressor
    from natpn.serve import Identity, create_app
    from serve.serving import flats, serving

    model = NatPNRegressor(random_state=0).fit(*flats())
    identity = Identity("flats", target="rent", unit="€")
    with serving(create_app(model, identity=identity)) as address, chromium(1100, 760) as browser:
        browser.get(address)
        wait(browser, "document.querySelector('#plot svg') !== null")
        Path(sys.argv[1]).write_bytes(browser.get_screenshot_as_png())
        let_go(browser)
        for name, change in (("far", lambda: move(browser, 0, 269)), ("narrow", lambda: resize(browser, 390, 1800))):
            if len(sys.argv) > 2:  # and how it looks elsewhere
                change()
                wait(browser, "document.querySelector('#mark').classList.contains('novel')")
                Path(sys.argv[2], f"{name}.png").write_bytes(browser.get_screenshot_as_png())


if __name__ == "__main__":
    main()
