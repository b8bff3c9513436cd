"""The frame of the HTML pages."""

from __future__ import annotations

from molsepnorm.files.page import page, table

HOSTILE = "<script>alert(1)</script>\"'&"


def test_all_texts_are_escaped():
    text = page(HOSTILE, HOSTILE, table([(HOSTILE, "1")], (HOSTILE, "n")), HOSTILE)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&") == 5


def test_the_policy_comes_before_everything_that_it_forbids():
    """A browser applies the policy to what follows it."""
    text = page("a", "b", "<p>c</p>", "1")
    policy = text.index("default-src 'none'")
    assert policy < text.index("<style") < text.index("<h1>b</h1>") < text.index("<p>c</p>")
    assert "http://" not in text and "https://" not in text and "url(" not in text
