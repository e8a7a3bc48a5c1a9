"""What a page is told that it is made of: everything that is imported from its beginning, and nothing else."""

from pathlib import PurePosixPath

import pytest
from tests.view.server.asking import served

from opd.view.server.modules import modules_of
from opd.view.server.places import Place


@pytest.fixture
def assets(tmp_path):
    (tmp_path / "app/pages").mkdir(parents=True)
    for name, text in {
        "app/main.js": "import { a } from '/assets/vendor/a.js';\nimport { b } from './b.js';\n",
        "app/b.js": "import { a } from '/assets/vendor/a.js';\nconst later = () => import('./later.js');\n",
        "app/later.js": "",
        "app/pages/one.js": "import { b, c as d } from '../b.js';\nimport { e } from './e.js';\n",
        "app/pages/e.js": "import One from './one.js';\nimport { g } from './gone.js';\n// import x from './x.js';\n",
        "app/pages/x.js": "",
        "vendor/a.js": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Place(root=tmp_path, inside=PurePosixPath())


def test_each_module_that_is_imported_is_named_once_and_none_that_is_not(assets):
    found = modules_of("one", assets)
    assert len(found) == len(set(found))
    assert set(found) == {
        f"/assets/{name}" for name in ("app/main.js", "app/b.js", "app/pages/one.js", "app/pages/e.js", "vendor/a.js")
    }
    assert set(modules_of("other", assets)) == {
        f"/assets/{name}" for name in ("app/main.js", "app/b.js", "vendor/a.js")
    }


def test_a_page_names_its_own_modules_and_each_of_them_is_there(tmp_path):
    with served(tmp_path) as ask:
        named = {page: _named(ask(page).body.decode()) for page in ("/", "/run/x", "/score/x")}
        assert "/assets/app/pages/runs.js" in named["/"]
        assert "/assets/app/pages/curves.js" in named["/run/x"]
        assert "/assets/app/pages/curves.js" not in named["/score/x"]
        for one in set.union(*named.values()):
            assert ask(one).status == 200, one


def _named(html):
    return {line.split('"')[3] for line in html.splitlines() if line.startswith('<link rel="modulepreload"')}
