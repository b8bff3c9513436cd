"""The frame of the HTML pages."""

from __future__ import annotations

import re

from molsepnorm.files.page import code, page, table

HOSTILE = "<script>alert(1)</script>\"'&"


def test_all_texts_are_escaped():
    text = page(HOSTILE, HOSTILE, table([(HOSTILE, "1")], (HOSTILE, "n")) + code(HOSTILE), HOSTILE)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;") == 6


def test_the_policy_comes_before_everything_that_it_forbids():
    """A browser applies the policy to what follows it."""
    text = page("a", "b", "<p>c</p>", "1")
    policy = text.index("default-src 'none'")
    assert policy < text.index("<style") < text.index("<h1>b</h1>") < text.index("<p>c</p>")
    assert "http://" not in text and "https://" not in text and "url(" not in text


def test_the_rules_for_print_replace_those_for_the_screen():
    """A browser applies the later of two rules for the same element."""
    style = page("a", "b", "", "1").partition("<style>")[2].partition("</style>")[0]
    screen, _, printed = style.partition("@media print")
    assert "body { font: 15px" in screen and "prefers-color-scheme: dark" in screen
    assert "body { font-size" in printed and "font: " not in printed and "@media" not in printed
    dark = screen.partition("prefers-color-scheme: dark")[2].partition("}")[0]
    for name in re.findall(r"--\w+", dark):  # paper is white
        assert f"{name}:" in printed


def test_a_table_without_a_head_has_rows_only():
    assert "<thead>" not in table([("a", "b")]) and "<th>a</th>" in table([], ("a",))
