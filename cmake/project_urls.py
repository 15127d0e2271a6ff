"""The addresses of the project in the package's metadata. The tree has none: the publisher sets it
in MEND_HOME, as .github/workflows/wheel.yml does. A source distribution keeps its own.
"""
import os
import re

PAGES = (("Homepage", ""), ("Source", ""), ("Issues", "/issues"),
         ("Changelog", "/blob/main/CHANGELOG.md"), ("Documentation", "/blob/main/docs/index.md"))


def dynamic_metadata(field, settings=None):
    home = os.environ.get("MEND_HOME", "").rstrip("/")
    if home:
        return {name: home + page for name, page in PAGES}
    if not os.path.exists("PKG-INFO"):
        return {}
    with open("PKG-INFO", encoding="utf-8") as file:
        return dict(re.findall(r"^Project-URL: (.*), (\S+)$", file.read(), re.M))
