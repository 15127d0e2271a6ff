#!/usr/bin/env python3
"""Builds the site of the documents in OUTPUT with MkDocs. Its sources are the documents of the tree
as they lie there, beside the files that they link to. Its navigation is the tables of
docs/index.md, which name every page. Fails if a page is in no table, if MkDocs warns, or if a link
or an anchor of the site leads nowhere, or out of it to a thing that the page loads.

Usage: site.py OUTPUT
"""
import html.parser
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys

from generate import Anchors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START, INDEX = "README.md", "docs/index.md"
HERE = "docs/generator"
LINK = re.compile(r"(\]\()([^)\s#]*)((?:#[^)\s]*)?\))|(<img src=\")([^\"]+)(\")")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def target_of(page, link):
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def page_of_folder(folder):
    return posixpath.join(folder, "README.md" if os.path.exists(
        os.path.join(ROOT, folder, "README.md")) else "index.md")


def anchors_in(page):
    """The anchors of its headings, if none came twice."""
    return {Anchors().of(heading) for heading in re.findall(r"^#+ (.*)$", read(page), re.M)}


class Sources:
    """The files of the site: the pages that the first one leads to, with all they link to."""

    def __init__(self, folder):
        self.folder, self.seen = folder, set()

    def write(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def add(self, path):
        if path in self.seen:
            return
        self.seen.add(path)
        if os.path.isdir(os.path.join(ROOT, path)):
            self.add_folder(path)
        elif path.endswith(".md"):
            self.add_page(path)
        elif os.path.isfile(os.path.join(ROOT, path)):
            os.makedirs(os.path.join(self.folder, os.path.dirname(path)), exist_ok=True)
            shutil.copyfile(os.path.join(ROOT, path), os.path.join(self.folder, path))

    def add_folder(self, folder):
        """Its own page, or else one that lists its files."""
        page = page_of_folder(folder)
        if page.endswith("README.md"):
            return self.add(page)
        names = sorted(name for name in os.listdir(os.path.join(ROOT, folder))
                       if not name.startswith((".", "__")))
        self.write(page, f"# {folder}\n\n" + "".join(f"- [{name}]({name})\n" if self.is_file(
            folder, name) else f"- {name}\n" for name in names))

    def is_file(self, folder, name):
        path = posixpath.join(folder, name)
        if not os.path.isfile(os.path.join(ROOT, path)):
            return False
        self.add(path)
        return True

    def add_page(self, page):
        """Links to folders become links to their pages."""
        text, parts, at = read(page), [], 0
        for code in [*CODE.finditer(text), None]:
            end = code.start() if code else len(text)
            parts.append(LINK.sub(lambda found: self.link(page, found), text[at:end]))
            if code:
                parts.append(code.group())
                at = code.end()
        self.write(page, "".join(parts))

    def link(self, page, found):
        before, link, after = (found[1], found[2], found[3]) if found[1] else (
            found[4], found[5], found[6])
        if "://" in link or link.startswith("mailto:"):
            return found[0]
        target = target_of(page, link) if link else page
        self.add(target)
        counted = re.fullmatch(r"#(.*)-(\d+)\)", after)
        if counted and target.endswith(".md") and counted[0][1:-1] not in anchors_in(target):
            after = f"#{counted[1]}_{counted[2]})"  # a heading that comes again, as MkDocs counts
        if os.path.isdir(os.path.join(ROOT, target)):
            link = posixpath.join(link, posixpath.basename(page_of_folder(target)))
        return f"{before}{link}{after}"


def title_of(page):
    heading = re.search(r"^# (.*)$", read(page), re.M)
    return re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip()


def navigation():
    """The sections of the index, each with the pages that its rows link to, once."""
    parts = re.split(r"^\*\*(.*)\*\*$", read(INDEX), flags=re.M)
    sections, seen = [{"Mend": START}, {"All documents": INDEX}], {START, INDEX}
    for title, text in zip(parts[1::2], parts[2::2]):
        pages = []
        for link in re.findall(r"\]\(([^)#\s]+\.md)", text):
            page = target_of(INDEX, link)
            if page not in seen:
                seen.add(page)
                pages.append({title_of(page): page})
        sections.append({title: pages})
    documents = {os.path.relpath(os.path.join(place, name), ROOT)
                 for place, _, names in os.walk(os.path.join(ROOT, "docs"))
                 for name in names if name.endswith(".md")}
    missing = sorted(documents - seen)
    return sections, [f"{page} is in no table of {INDEX}" for page in missing]


class Page(html.parser.HTMLParser):
    """The anchors of a page of the site, its links, and its loaded files."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.anchors.update(of[key] for key in ("id", "name") if of.get(key))
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        self.loads += [of[key] for key in ("src", "href")
                       if of.get(key) and tag in ("script", "img", "link")]


def findings_in(site):
    pages = {}
    for place, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(place, name)
                with open(path, encoding="utf-8") as file:
                    pages[os.path.relpath(path, site)] = Page(file.read())
    count = 0
    for name, page in sorted(pages.items()):
        if name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links + page.loads:
            if "://" in link or link.startswith(("mailto:", "data:")):
                if link in page.loads:
                    yield f"{name} loads {link}"
                continue
            count += 1
            path, _, anchor = link.partition("#")
            target = target_of(name, path.split("?")[0]) if path else name
            if os.path.isdir(os.path.join(site, target)):
                target = posixpath.normpath(posixpath.join(target, "index.html"))
            if not os.path.exists(os.path.join(site, target)):
                yield f"{name} links to {link}, which is not there"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{name} links to {link}, an anchor that is not there"
    print(f"{len(pages)} pages, {count} links")
    if count < 1000:
        yield "there are too few links for this site"


def main():
    output = os.path.abspath(sys.argv[1])
    shutil.rmtree(output, ignore_errors=True)
    sources = Sources(os.path.join(output, "sources"))
    sections, findings = navigation()
    for page in (START, INDEX):
        sources.add(page)
    with open(os.path.join(output, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write(read(f"{HERE}/mkdocs.yml") + "".join(
            f"{key}: {json.dumps(value)}\n" for key, value in (
                ("docs_dir", sources.folder), ("site_dir", os.path.join(output, "html")),
                ("nav", sections))))
    built = subprocess.run(["mkdocs", "build", "--quiet", "-f", os.path.join(output, "mkdocs.yml")],
                           check=False)
    if built.returncode == 0:
        findings += findings_in(os.path.join(output, "html"))
    print("\n".join([*findings, f"{len(findings)} findings"]))
    return 1 if findings or built.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
