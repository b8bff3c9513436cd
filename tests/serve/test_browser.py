"""The page in a real browser: paste, predict, sort, open a molecule, download, by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
_BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    _BROWSER is None, reason="neither chromium nor google-chrome is on PATH"
)

ALERT = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=_BROWSER, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page, which must neither log an error nor send a request to another host."""
    context = browser.new_context()
    opened, wrong = context.new_page(), []
    opened.on(
        "console",
        lambda line: (
            wrong.append(line.text)
            if line.type == "error"
            and "net::ERR_FAILED" not in line.text  # a test aborts a request
            else None
        ),
    )
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    opened.on(
        "request",
        lambda each: (
            None if each.url.startswith((address, "blob:", "data:")) else wrong.append(each.url)
        ),
    )
    opened.goto(address)
    opened.wait_for_selector("#model option", state="attached")
    yield opened
    assert wrong == []
    context.close()


def _predict(page: Any, text: str) -> None:
    page.fill("#smiles", text)
    page.click("#predict")
    page.wait_for_selector("#body tr")


def test_pasted_molecules_are_predicted_drawn_and_explained(page):
    _predict(page, f"CCO ethanol\nC1CC {ALERT}\nCCCCCCN long\n")
    rows = page.locator("#body tr")
    assert rows.count() == 3
    assert page.text_content("#status") == "3 molecules; 1 without a prediction."
    assert "unclosed ring" in rows.nth(1).text_content()
    assert "to" in rows.nth(0).locator(".range").first.text_content()
    drawn = "[...document.images].every((each) => each.naturalWidth > 0)"
    for _ in range(100):
        if page.evaluate(drawn):
            break
        page.wait_for_timeout(100)
    assert page.evaluate(drawn)
    rows.nth(0).locator(".picture").click()
    page.wait_for_selector("#detail h3:has-text('Contributions to <b>size')")
    assert "Nearest training molecule" in page.text_content("#detail")
    page.keyboard.press("Escape")
    assert not page.is_visible("#detail")


def test_texts_of_users_are_shown_as_texts(page):
    _predict(page, f'smiles,name\nCCO,"{ALERT}"\n')
    assert ALERT in page.text_content("#body")
    assert page.locator("#body img[src=x]").count() == 0
    page.locator("#body .picture").click()
    assert ALERT in page.text_content("#detail")


def test_a_file_is_predicted_and_sorted(page, tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_text("smiles,id\n" + "".join(f"{'C' * n}O,{n}\n" for n in (3, 9, 1)))
    page.set_input_files("#file", path)
    page.click("#predict")
    page.wait_for_selector("#body tr")
    header = page.locator("#head button", has_text="<b>size")
    header.click()
    texts = page.locator("#body tr .smiles").all_text_contents()
    assert texts == ["C" * 9 + "O", "CCCO", "CO"]
    assert page.locator("th[aria-sort=descending]").count() == 1
    header.click()
    assert page.locator("#body tr .smiles").all_text_contents() == texts[::-1]


def test_the_keyboard_alone_is_enough(page):
    page.focus("#smiles")
    page.keyboard.type("CCO")
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "predict":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#body tr")
    assert page.evaluate("document.activeElement.id") == "results-title"
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "picture":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[open]")
    assert page.evaluate("document.activeElement.id") == "close"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "picture"


def test_errors_are_said(page):
    page.click("#predict")
    assert page.text_content("#status") == "Write at least one SMILES, or choose a file."
    page.route("**/api/table*", lambda route: route.abort())
    page.fill("#smiles", "C")
    page.click("#predict")
    page.wait_for_selector("#status.error:has-text('The server does not answer')")


def test_controls_have_names_and_the_page_fits_a_phone(browser, address):
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#model option", state="attached")
    _predict(page, "CCO\n" + "C" * 60)
    unnamed = page.evaluate(
        """[...document.querySelectorAll("button, input, select, textarea, a, [role=img]")]
        .filter((each) => !(each.labels?.length || each.textContent.trim()
                            || each.getAttribute("aria-label"))).length"""
    )
    assert unnamed == 0
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
    assert page.evaluate("document.documentElement.lang") == "en"
    context.close()
