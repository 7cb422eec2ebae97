"""The settings of the site that `make docs` builds: strict, offline, partly made from the code."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # so that `docs.book` is found

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from sphinx.application import Sphinx

from docs.book.pages import insert_generated
from fedforest import __version__

project = "fedforest"
author = "The fedforest developers"
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "book"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

NotebookClient.startup_timeout.default_value = 300  # seconds; others may use the machine
NotebookClient.setup_class(dict(vars(NotebookClient)))  # reads the defaults of its numbers again
KernelManager.transport_encryption.default_value = "auto"  # kernels warn where it is not
nb_execution_mode = "cache"  # a notebook is run again when one of its cells has changed
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_typehints = "none"  # the "Parameters" sections tell types in words
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "pydata_sphinx_theme"
html_title = "fedforest"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {  # pages without a section have nothing to list
    "results/*": [],
    "start": [],
    "comparison": [],
    "differences-from-scikit-learn": [],
    "contributing": [],
    "changelog": [],
}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
}
copyright = f"{author}; Apache-2.0. Version {version}"  # noqa: A001 - Sphinx names it so


def setup(app: Sphinx) -> None:
    """Put generated text where pages have a marker for it."""
    app.connect("source-read", insert_generated)
