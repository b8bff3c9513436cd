"""The page in a real browser: paste, predict, sort, open a molecule, download, by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
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


def test_each_molecule_of_a_row_is_drawn_and_explained(page):
    page.select_option("#model", "pairs")
    _predict(page, "smiles,solvent\nCCCO,0.3 CCO + 0.7 O\n")
    assert page.locator("#body .picture img").count() == 2
    assert "0.3 CCO + 0.7 O" in page.text_content("#body")
    page.locator("#body .picture").click()
    page.wait_for_selector("#detail h3:has-text('solvent: 0.7 O')")
    assert page.locator("#detail-body .pair img[src^=blob]").count() == 3


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


def test_a_class_keeps_its_digits_and_a_label_its_molecule(page):
    target = {"name": "code", "kind": "multiclass", "learned_name": "code", "classes": ["1234"]}
    model = {"name": "codes", "targets": [target], "feature_columns": [], "levels": []}
    model |= {"molecule_columns": [], "domain": True, "end_points": {}, "reference": ""}
    table = (
        "smiles,code_pred,similarity,in_domain,nearest_smiles,code_nearest,code_nearest_smiles,error\n"
        "CCO,1234,1,yes,CCO,7,CCN,\nCCN,1234,1,yes,CCN,7,CCN,\n"
    )
    headers = {"x-smiles-column": "smiles", "x-failed": "0", "x-notes": ""}
    answer = {"models": [model], "limits": {"megabytes": 1}}
    page.route("**/api/models", lambda route: route.fulfill(json=answer))
    page.route("**/api/table?*", lambda route: route.fulfill(body=table, headers=headers))
    page.route("**/api/explain", lambda route: route.abort())
    page.reload()
    page.wait_for_selector("#model option", state="attached")
    _predict(page, "CCO\nCCN")
    assert page.text_content("#body td.number") == "1234"
    nearest = []
    for row in range(2):
        page.locator("#body .picture").nth(row).click()
        nearest.append(page.text_content("#detail h3:has-text('Nearest') + .pair"))
        page.keyboard.press("Escape")
    assert ["code_nearest" in text for text in nearest] == [False, True]


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


# --- a model whose card says what its targets are ---

MANY = (
    "smiles,name\n"
    + "".join(f"{'C' * n}O,alcohol {n}\n" for n in range(1, 10))
    + f'C1CC,"{ALERT}"\n'
)


def _profile(page: Any, text: str, wait: str) -> None:
    page.select_option("#model", "profile")
    page.fill("#smiles", text)
    page.click("#predict")
    page.wait_for_selector(wait)


def test_the_profile_of_a_molecule_judges_and_explains_each_target(page):
    _profile(page, "CCCCCCOc1ccc(O)c(O)c1 long", ".profile table")
    captions = page.locator("caption").all_text_contents()
    assert captions == ["absorption", "toxicity", "other"]
    row = page.locator(".profile tbody tr", has_text="Title of length")
    value = float(row.locator("td").first.evaluate("(cell) => cell.firstChild.textContent"))
    kind = "good" if value <= 5 else "tolerable" if value <= 8 else "concern"
    assert row.locator(".light").text_content().split()[-1] == kind
    share = (50 * value if value < 1 else 50 + 50 * (value - 1) / 19) if value < 20 else 100
    assert abs(float(row.locator("td").last.text_content()) - share) < 1
    percent = page.locator(".profile tbody tr", has_text="Title of long").locator("td").first
    assert "\u00a0%" in percent.text_content()
    other = page.locator(".profile tbody tr", has_text="known")
    assert other.locator(".light").text_content() == "not judged"
    page.wait_for_selector(".chip:has-text('PAINS: catechol')")
    before = page.get_attribute(".structure", "src")
    page.click(".chip >> nth=0")
    assert page.get_attribute(".structure", "src").startswith(f"{before}&atoms=")
    row.locator("button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail img[alt^='atoms coloured']")
    detail = page.text_content("#detail")
    for text in ("Caution about length.", "CC BY 4.0", "24 molecules", "Nearest measured molecule"):
        assert text in detail
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Title of length"


def _names(page: Any) -> list[str]:
    return page.locator(".grid tbody .smiles").all_text_contents()


def test_the_grid_sorts_filters_and_hides(page):
    _profile(page, MANY, ".grid tbody tr")
    every = _names(page)
    assert every == [f"alcohol {n}" for n in range(1, 10)] + [ALERT]
    header = page.locator(".grid button[data-name=length]")
    assert header.get_attribute("title") == "Title of length, mg/L"
    header.click()
    assert page.evaluate("document.activeElement.dataset.name") == "length"
    column = page.locator(".grid tbody td:nth-of-type(3)")
    values = [float(text.split()[0].rstrip("●◆▲")) for text in column.all_text_contents()]
    assert values == sorted(values, reverse=True) and _names(page)[-1] == ALERT
    page.click("text=Filter by value")
    page.fill("[aria-label='smallest Title of length']", str((values[3] + values[4]) / 2))
    assert len(_names(page)) == 4
    assert page.text_content(".count") == "4 of 10 molecules; 6 outside the filters."
    with page.expect_download() as download:
        page.click("text=Download shown rows")
    saved = pd.read_csv(download.value.path())
    assert saved["name"].tolist() == _names(page) and "length_percentile" in saved
    page.fill("[aria-label='largest Title of length']", str((values[1] + values[2]) / 2))
    assert len(_names(page)) == 2  # both ends count
    page.click("text=Clear filters")
    assert sorted(_names(page)) == sorted(every)
    page.click(".menu summary")
    page.locator("legend input").first.uncheck()
    assert header.count() == 0 and page.locator(".grid button[data-name=long]").count() == 1
    page.click(".grid button[data-name='']")
    assert _names(page) == every


@pytest.mark.parametrize(
    ("model", "text", "wait"),
    [
        ("size", "CCO\n" + "C" * 60, "#body tr"),
        ("profile", "C" * 60 + "O", ".profile table"),
        ("profile", MANY + "C" * 60 + ",long\n", ".grid tbody tr"),
    ],
    ids=["plain", "profile", "grid"],
)
def test_controls_have_names_and_the_page_fits_a_phone(browser, address, model, text, wait):
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#model option", state="attached")
    page.select_option("#model", model)
    page.fill("#smiles", text)
    page.click("#predict")
    page.wait_for_selector(wait)
    if model == "profile" and wait.startswith(".grid"):
        page.click("text=Filter by value")
        page.click(".menu summary")
        page.evaluate("document.querySelector('.grid').scrollLeft = 300")
        first = page.locator(".grid th[scope=row]").first.bounding_box()
        assert first["x"] == page.locator(".grid").bounding_box()["x"] + 1  # it stays
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
